"""A user who types the commands of the documents."""

import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.waiting import PATIENCE_SECONDS
from tests.repository import ROOT

SCRIPTS = Path(sys.executable).parent


class User:
    """A person at a shell in the repository, after `make`, with kubectl on the path."""

    def __init__(self, plane: ControlPlane, kubectl: Path, home: Path) -> None:
        self._home = home
        (home / ".venv").mkdir(parents=True)
        (home / ".venv" / "bin").symlink_to(SCRIPTS)
        for folder in ("deploy", "policies"):
            (home / folder).symlink_to(ROOT / folder)
        path = os.pathsep.join([str(SCRIPTS), str(kubectl.parent), os.environ["PATH"]])
        self._environment = os.environ | {"PATH": path, "KUBECONFIG": str(plane.admin_kubeconfig)}

    def types(self, line: str) -> str:
        """What the line prints; it must do what it should."""
        done = subprocess.run(
            ["/usr/bin/env", "bash", "-euo", "pipefail", "-c", line],
            cwd=self._home,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout
