"""The Google trace: a day of 1,600 virtual machines of 251 jobs, one sample every five minutes.

The archive is not part of the project; it is derived from ClusterData2011_2 (CC-BY 4.0). The
argument `--trace` is its path, by default `../shared/data/google-2011-gcd-vms/GCD_VMs.tar.gz`.
A file is named after its job and the number of the machine in it.
"""

import io
import tarfile
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DEFAULT = Path("../shared/data/google-2011-gcd-vms/GCD_VMs.tar.gz")
SAMPLES = 288
SECONDS_PER_SAMPLE = 300

Jobs = tuple[NDArray[np.float64], ...]
"""Of each job: CPU and memory shares, 0 to 1, of its machines: machine x 288 x (CPU, memory)."""


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
