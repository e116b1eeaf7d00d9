"""The wheel, installed into an environment of its own as by pipx or uvx."""

import shutil
import subprocess
import sys
import sysconfig
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from desched import __version__
from tests.repository import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)  # noqa: S603  (our own programs)
    return done.stdout


def build(source: Path, folder: Path) -> Path:
    run(
        *(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--wheel-dir", folder, source),
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It has the wheel alone, and finds the dependencies of the lock where the tests run."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = build(ROOT, folder)
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(*PIP, "--python", python, "install", "--no-compile", "--no-deps", "--no-index", wheel)
    (packages,) = folder.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_installed_programs_are_those_of_the_wheel(environment: Path) -> None:
    assert run(environment / "bin" / "desched", "version") == f"desched {__version__}\n"
    page = run(environment / "bin" / "kubectl-desched", "--help")
    assert page.startswith("Usage: kubectl desched ")
    assert run(environment / "bin" / "kubectl_complete-desched", "vers").startswith("version\t")
    where = run(environment / "bin" / "python", "-Ic", "import desched; print(desched.__file__)")
    assert Path(where.strip()).is_relative_to(environment)


def test_the_wheel_has_the_manual_pages_and_what_modules_read(environment: Path) -> None:
    pages = environment / "share" / "man" / "man1"
    assert {page.name for page in pages.iterdir()} == {"desched.1", "kubectl-desched.1"}
    (installed,) = environment.glob("lib/*/site-packages/desched")
    read = {
        each.relative_to(ROOT / "desched")
        for each in (ROOT / "desched").rglob("*")
        if each.is_file() and each.suffix not in {".py", ".pyc"}
    }
    assert read
    assert not [each for each in read if not (installed / each).is_file()]


def test_the_wheel_is_the_same_wherever_and_whenever_it_is_built(tmp_path: Path) -> None:
    """Another folder, later times of all files."""
    copy = tmp_path / "copy"
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        copy.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    for name in ("desched", "docs/man"):
        shutil.copytree(ROOT / name, copy / name, copy_function=shutil.copyfile)
    here, there = build(ROOT, tmp_path / "here"), build(copy, tmp_path / "there")

    assert here.name == there.name
    assert sha256(here.read_bytes()).digest() == sha256(there.read_bytes()).digest()


def test_package_image_and_chart_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
    assert {project["version"], chart["version"], chart["appVersion"]} == {__version__}
