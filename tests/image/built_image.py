"""The image of the Dockerfile, built with Debian's tools alone, and run as the chart runs it.

Its base image is made of packages of this machine's distribution, so that no registry of images
needs to be in reach. That takes minutes.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from platform import freedesktop_os_release
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import Any

from tests.repository import ROOT

SKIPPED = "TESTS OF THE BUILT IMAGE SKIPPED"
TOOLS = ("buildah", "mmdebstrap", "unshare")

_OF_THIS_MACHINE = (Path("/etc/ssl/certs"), Path("/etc/pip.conf"))
"""What pip may need to reach packages, and what must not be in the image."""

_PATH = os.environ["PATH"]
_READ_ONLY = """
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
for each in proc dev; do mount --bind "/$each" "$0/$each"; done
exec chroot --userspec="$1" "$0" "$2" "${@:3}"
"""


def missing() -> str:
    """Why there is no image here, empty if there can be one."""
    tools = [tool for tool in TOOLS if shutil.which(tool) is None]
    if tools:
        return f"install {', '.join(tools)} (apt-get install buildah mmdebstrap)"
    return "" if os.geteuid() == 0 else "only root can bootstrap a base image"


class BuiltImage:
    """The files of the image, and what its configuration says."""

    def __init__(self, root: Path, config: dict[str, Any]) -> None:
        self._root = root
        self.user: str = config["User"]
        self.entrypoint: list[str] = config["Entrypoint"]
        self._variables = dict(each.split("=", 1) for each in config["Env"])

    def run(self, *command: str) -> CompletedProcess[str]:
        """Run a command as the image's user, on a read-only root file system without a volume.

        A container runtime sets HOME as well, to the root for a user without a name.
        """
        return subprocess.run(
            ["unshare", "--mount", "bash", "-euc", _READ_ONLY, self._root, self.user, *command],
            env=self._variables | {"HOME": "/", "PATH": f"{self._variables['PATH']}:{_PATH}"},
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def built_image() -> Iterator[BuiltImage]:
    """Build it; everything is gone in the end."""
    with TemporaryDirectory(prefix="desched-image-") as directory:
        folder = Path(directory)

        def buildah(*arguments: str | Path) -> str:
            storage = ("--root", folder / "storage", "--runroot", folder / "run")
            return _done("buildah", *storage, *arguments)

        base = folder / "base.tar"
        suite = freedesktop_os_release()["VERSION_CODENAME"]
        _done(
            *("mmdebstrap", "--variant=minbase", "--include=python3-venv"),
            *('--aptopt=Acquire::Check-Valid-Until "false"', suite, base),  # also from a snapshot
        )
        try:
            container = buildah("from", "scratch")
            buildah("add", "--quiet", container, base, "/")
            buildah("commit", "--quiet", container, "localhost/base")
            mounted = [f"--volume={path}:{path}:ro" for path in _OF_THIS_MACHINE if path.exists()]
            argument = "--build-arg=PYTHON_IMAGE=localhost/base"
            buildah("bud", "--isolation=chroot", argument, *mounted, "--tag=desched", ROOT)
            described = json.loads(buildah("inspect", "--type=image", "localhost/desched"))
            files = buildah("mount", buildah("from", "localhost/desched"))
            yield BuiltImage(Path(files), described["OCIv1"]["config"])
        finally:
            buildah("umount", "--all")
            buildah("rm", "--all")


def _done(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()
