"""The Google trace: a day of 1,600 virtual machines, one sample every five minutes.

The archive is not part of the project; it is derived from ClusterData2011_2 (CC-BY 4.0). The
argument `--trace` is its path, by default `../shared/data/google-2011-gcd-vms/GCD_VMs.tar.gz`.
"""

import io
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DEFAULT = Path("../shared/data/google-2011-gcd-vms/GCD_VMs.tar.gz")
SAMPLES = 288
SECONDS_PER_SAMPLE = 300


def read_trace(archive: Path) -> NDArray[np.float64]:
    """CPU and memory shares, 0 to 1, of each machine: machine x 288 samples x (CPU, memory)."""
    found: dict[str, NDArray[np.float64]] = {}
    with tarfile.open(archive) as files:
        for member in files:
            content = files.extractfile(member) if member.isfile() else None
            if content is not None:
                series = np.loadtxt(io.BytesIO(content.read()), usecols=(0, 1))
                if series.shape == (SAMPLES, 2):
                    found[member.name] = series / 100
    return np.stack([found[name] for name in sorted(found)])
