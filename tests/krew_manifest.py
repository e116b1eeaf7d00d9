"""The manifest with which krew installs the plug-in: `python -m tests.krew_manifest HOME SUMS`.

HOME is the address of the project, whose releases hold the archives. SUMS has a line of `sha256sum`
for each archive of `make kubectl-plugin`. The manifest goes to standard output. Without arguments
it is the name of the archive for this machine.
"""

import platform
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from desched import __version__
from desched.cli.program import DESCRIPTION

ARCHIVE = re.compile(
    r"^(?P<sum>[0-9a-f]{64}) [ *](?:.*/)?"
    r"(?P<name>kubectl-desched_(?P<version>[^_]+)_(?P<os>linux|darwin)_(?P<arch>amd64|arm64)\.tar\.gz)$"
)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""What krew calls the names of `uname -m`."""

CAVEATS = "It needs Python 3.11 or later on the PATH. Evictions need --evict.\n"


def archive_name() -> str:
    """The name of the archive for this machine."""
    kind = f"{platform.system().lower()}_{ARCHITECTURES[platform.machine()]}"
    return f"kubectl-desched_{__version__}_{kind}.tar.gz"


def manifest(home: str, sums: str) -> dict[str, Any]:
    """The manifest for the archives of this version among the sums.

    Raises:
        SystemExit: there is no archive, or one of another version.
    """
    archives = [found for line in sums.splitlines() if (found := ARCHIVE.match(line))]
    if not archives or {each["version"] for each in archives} != {__version__}:
        sys.exit(f"No archives of version {__version__}, or also others; run make kubectl-plugin.")
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "desched"},
        "spec": {
            "version": f"v{__version__}",
            "homepage": home,
            "shortDescription": "Relieve overloaded nodes by few evictions",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [_platform(home, archive) for archive in archives],
        },
    }


def _platform(home: str, archive: re.Match[str]) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": {"os": archive["os"], "arch": archive["arch"]}},
        "uri": f"{home}/releases/download/v{__version__}/{archive['name']}",
        "sha256": archive["sum"],
        "bin": "kubectl-desched",
    }


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.stdout.write(archive_name() + "\n")
        sys.exit()
    content = manifest(sys.argv[1].rstrip("/"), Path(sys.argv[2]).read_text(encoding="utf-8"))
    sys.stdout.write(yaml.safe_dump(content, sort_keys=False))
