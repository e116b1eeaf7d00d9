"""Whether this machine can have nodes."""

import os
import subprocess

from tests.nodes import cgroups

SKIPPED = "TESTS ON REAL NODES SKIPPED"
SPACES = ("--mount", "--uts", "--ipc", "--pid", "--cgroup", "--fork", "--kill-child")


def missing() -> str:
    """Why it cannot, empty if it can."""
    if os.geteuid() != 0:
        return "only root can make name spaces and cgroups"
    if lacking := cgroups.missing_controllers():
        return f"kubelets run in cgroups of version 1 here, and {', '.join(lacking)} are not there"
    spaces = ["unshare", "--net", *SPACES, "true"]
    return subprocess.run(spaces, capture_output=True, text=True, check=False).stderr.strip()
