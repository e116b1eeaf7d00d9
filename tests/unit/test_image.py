"""What the image is made of."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.repository import ROOT


def pins(name: str) -> dict[str, str]:
    """Each requirement of a lock with its version and hashes, without comments and platforms."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / "requirements" / name).read_text(), flags=re.MULTILINE)
    text = re.sub(r" ; .*\\\n", " \\\n", text)
    blocks = re.split(r"\n(?=\S)", text.strip())
    return {block.partition("==")[0]: block for block in blocks}


@pytest.mark.parametrize("lock", ["build.txt", "runtime.txt", "google.txt", "workers.txt"])
def test_the_image_installs_what_the_tests_ran_with(lock: str) -> None:
    assert pins(lock).items() <= pins("dev.txt").items()


def test_the_usual_image_has_no_library_of_a_cloud() -> None:
    assert not {"botocore", "google-auth"} & pins("runtime.txt").keys()
    assert pins("runtime.txt").keys() | {"google-auth"} <= pins("google.txt").keys()
    assert pins("runtime.txt").keys() | {"distributed"} <= pins("workers.txt").keys()
    assert pins("signing.txt").keys() | pins("runtime.txt").keys() <= pins("aws.txt").keys()


def test_the_image_can_build_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    backend = {re.split(r"[<>=~]", each)[0] for each in project["build-system"]["requires"]}

    assert backend <= pins("build.txt").keys()


def test_the_image_gets_everything_that_the_dockerfile_copies() -> None:
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)

    assert {path.rstrip("/") for line in copied for path in line.split()} == set(kept)


OPENED = """
import importlib, pkgutil, sys
sys.addaudithook(lambda event, args: event == "open" and print(args[0], file=sys.stderr))
import desched
for module in pkgutil.walk_packages(desched.__path__, "desched."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from desched.cli import main
main(["demo", "--report", sys.argv[1]])
"""


def test_nothing_reads_what_the_image_leaves_out(tmp_path: Path) -> None:
    text = (ROOT / "Dockerfile").read_text()
    (line,) = re.findall(r"rm -r (.*\\\n.*)$", text, re.MULTILINE)
    packages = Path(sysconfig.get_path("purelib"))
    left_out = [path for each in line.replace("\\", "").split() for path in packages.glob(each)]
    command = [sys.executable, "-c", OPENED, str(tmp_path / "report.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    opened = [Path(each) for each in done.stderr.splitlines() if each.startswith("/")]

    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert packages / "kubernetes" / "__init__.py" in {source(each) for each in opened}
    assert len(left_out) > 10
    assert [each for each in opened if any(each.is_relative_to(path) for path in left_out)] == []


def source(path: Path) -> Path:
    """The module of a compiled file."""
    if path.parent.name != "__pycache__":
        return path
    return path.parents[1] / f"{path.name.partition('.')[0]}.py"


def test_the_base_image_is_pinned_by_its_digest() -> None:
    assert re.search(
        r"^ARG PYTHON_IMAGE=python:\d\.\d+-slim@sha256:[0-9a-f]{64}$",
        (ROOT / "Dockerfile").read_text(),
        re.MULTILINE,
    )
