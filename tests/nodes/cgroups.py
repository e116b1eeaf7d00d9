"""Folders of this machine's cgroups (version 1) in which nodes run, and nothing else."""

import os
from contextlib import suppress
from pathlib import Path

from tests.controlplane.waiting import wait_for

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids")
PREFIX = "desched-nodes-"
PERIOD_MICROSECONDS = 100_000
SHARES = 4096
"""Of the CPU, for all nodes together: what their busy processes would have outside."""


def missing_controllers() -> list[str]:
    """Those that this process may not use; on a machine with version 2 alone it is all."""
    return [each for each in CONTROLLERS if not os.access(ROOT / each / "cgroup.procs", os.W_OK)]


class Cgroup:
    """One folder in each hierarchy, below those in which this process is."""

    def __init__(self, name: str, parents: dict[str, Path] | None = None) -> None:
        self.folders = {
            controller: parent / name for controller, parent in (parents or _own()).items()
        }
        for controller, folder in self.folders.items():
            folder.mkdir()
            if controller == "cpuset":
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (folder / file).write_text((folder.parent / file).read_text())

    def child(self, name: str) -> "Cgroup":
        return Cgroup(name, self.folders)

    def set(self, file: str, value: int) -> None:
        """Such as `cpu.shares`."""
        (self.folders[file.partition(".")[0]] / file).write_text(str(value))

    def limit(self, cpus: int, memory_bytes: int) -> None:
        self.set("cpu.cfs_period_us", PERIOD_MICROSECONDS)
        self.set("cpu.cfs_quota_us", cpus * PERIOD_MICROSECONDS)
        self.set("memory.limit_in_bytes", memory_bytes)

    def cpu_seconds(self) -> float:
        """What all that ever ran in it has used."""
        return _cpu_seconds(self.folders["cpuacct"])

    def pods(self) -> dict[str, float]:
        """The same of each pod in it, by uid."""
        folders = self.folders["cpuacct"].glob("kubepods/*/pod*")
        return {folder.name.removeprefix("pod"): _cpu_seconds(folder) for folder in folders}

    def processes_of(self, pod: str) -> list[int]:
        """The process ids of the containers of a pod, by its uid."""
        files = self.folders["cpuacct"].glob(f"kubepods/*/pod{pod}/*/cgroup.procs")
        return [int(each) for file in files for each in file.read_text().split()]

    def remove(self) -> None:
        """Once its last process has ended, with all folders in it."""
        wait_for(f"nothing runs in {self.folders['cpu']}", self._is_removed)

    def _is_removed(self) -> bool:
        left = [folder for folder in self.folders.values() if not _remove(folder)]
        return not left


def remove_leftovers() -> None:
    """Those of tests that were killed; whoever still runs keeps its own."""
    for parent in _own().values():
        for folder in parent.glob(f"{PREFIX}*"):
            if not Path(f"/proc/{folder.name.removeprefix(PREFIX)}").exists():
                _remove(folder)


def _own() -> dict[str, Path]:
    """Where this process is, by controller; of version 2 only what shows pressure."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in (controllers or "unified").removeprefix("name=").split(","):
            folder = ROOT / controller / path.lstrip("/")
            if folder.is_dir():
                found[controller] = folder
    return found


def _cpu_seconds(folder: Path) -> float:
    return int((folder / "cpuacct.usage").read_text()) / 1e9


def _remove(folder: Path) -> bool:
    for each, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(each).rmdir()
    return not folder.exists()
