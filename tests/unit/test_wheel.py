"""The wheel, installed into an environment of its own as by pipx or uvx."""

import shlex
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml

from desched import __version__
from tests.repository import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)  # noqa: S603  (our own programs)
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It has the wheel alone, and finds the dependencies of the lock where the tests run."""
    folder = tmp_path_factory.mktemp("installed")
    run(
        *(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--wheel-dir", folder, ROOT),
    )
    (wheel,) = folder.glob("*.whl")
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


def test_package_image_and_chart_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
    assert {project["version"], chart["version"], chart["appVersion"]} == {__version__}


def test_the_pipelines_use_only_targets_of_the_makefile() -> None:
    targets = {*(ROOT / "Makefile").read_text().partition(".PHONY:")[2].split(), ".venv/.runtime"}
    pipelines = [*(ROOT / ".github" / "workflows").glob("*.yml")]
    jobs = [job for each in pipelines for job in yaml.safe_load(each.read_text())["jobs"].values()]
    commands = [shlex.split(step.get("run", "")) for job in jobs for step in job.get("steps", ())]
    used = {word for words in commands if words[:1] == ["make"] for word in words[1:]}

    assert "wheel" in used
    assert {word for word in used if "=" not in word} <= targets
