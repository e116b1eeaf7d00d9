"""The traces of load, with one sample every five minutes; none is part of the project.

Google: a day of 1,600 virtual machines of 251 jobs, derived from ClusterData2011_2 (CC-BY 4.0). The
argument `--trace` is the path of its archive, by default
`../shared/data/google-2011-gcd-vms/GCD_VMs.tar.gz`. A file is named after its job and the number of
the machine in it.

PlanetLab and Bitbrains have CPU only, and are in the folder `--other-traces`. PlanetLab: a day of
1,052 virtual machines, very bursty (Beloglazov and Buyya, 2012). Bitbrains: up to 30 days of each
of 25 virtual machines with business workloads, a few of which use nearly all CPU (GWA-T-12).
"""

import io
import tarfile
from enum import StrEnum
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DEFAULT = Path("../shared/data/google-2011-gcd-vms/GCD_VMs.tar.gz")
OTHERS = Path("../shared/data/other-traces")
SAMPLES = 288
SECONDS_PER_SAMPLE = 300

Jobs = tuple[NDArray[np.float64], ...]
"""Of each job: CPU and memory shares, 0 to 1, of its machines: machine x 288 x (CPU, memory).

The CPU of the other traces is in percent or MHz, and their memory is 0. A job of Bitbrains has the
days of one virtual machine, one of PlanetLab a single machine.
"""


class Trace(StrEnum):
    """Where the usage of pods comes from."""

    GOOGLE = "Google"
    PLANETLAB = "PlanetLab"
    BITBRAINS = "Bitbrains"


def read_jobs_of(trace: Trace, google: Path = DEFAULT, others: Path = OTHERS) -> Jobs:
    """The jobs of a trace."""
    match trace:
        case Trace.GOOGLE:
            return read_jobs(google)
        case Trace.PLANETLAB:
            cpu = np.load(others / "planetlab-20110303.npz")["cpu_percent"]
            return tuple(_without_memory(cpu[i : i + 1]) for i in range(len(cpu)))
        case Trace.BITBRAINS:
            with np.load(others / "bitbrains-half.npz") as found:
                cpu, machines = found["cpu_mhz"], found["vm"]
            return tuple(_without_memory(cpu[machines == name]) for name in np.unique(machines))


def _without_memory(cpu: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([cpu, np.zeros_like(cpu)], axis=2).astype(float)


def read_jobs(archive: Path) -> Jobs:
    """The jobs of the trace, by name."""
    found: dict[str, NDArray[np.float64]] = {}
    with tarfile.open(archive) as files:
        for member in files:
            content = files.extractfile(member) if member.isfile() else None
            if content is not None:
                series = np.loadtxt(io.BytesIO(content.read()), usecols=(0, 1))
                if series.shape == (SAMPLES, 2):
                    found[member.name] = series / 100
    jobs = groupby(sorted(found), key=lambda name: name.rpartition("_")[0])
    return tuple(np.stack([found[name] for name in names]) for _, names in jobs)


def read_trace(archive: Path) -> NDArray[np.float64]:
    """All machines, those of a job side by side: machine x 288 x (CPU, memory)."""
    return np.concatenate(read_jobs(archive))
