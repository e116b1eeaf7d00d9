"""Whether this machine can have nodes."""

import os
import shutil
import subprocess

from tests.nodes import cgroups

SKIPPED = "TESTS ON REAL NODES SKIPPED"
PROGRAMS = ("unshare", "mount", "umount", "sed")
SPACES = ("--mount", "--uts", "--ipc", "--pid", "--cgroup", "--fork", "--kill-child")


def missing() -> str:
    """Why it cannot, empty if it can."""
    if os.geteuid() != 0:
        return "only root can make name spaces and cgroups"
    if lacking := cgroups.missing_controllers():
        return f"kubelets run in cgroups of version 1 here, and {', '.join(lacking)} are not there"
    if absent := [each for each in PROGRAMS if shutil.which(each) is None]:
        return f"{', '.join(absent)} must be on PATH"
    spaces = ["unshare", "--net", *SPACES, "true"]
    return subprocess.run(spaces, capture_output=True, text=True, check=False).stderr.strip()
