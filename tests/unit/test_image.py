"""What the image is made of."""

import re
import tomllib

import pytest

from tests.repository import ROOT


def pins(name: str) -> dict[str, str]:
    """Each requirement of a lock with its version and hashes, without the comments."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / "requirements" / name).read_text(), flags=re.MULTILINE)
    blocks = re.split(r"\n(?=\S)", text.strip())
    return {block.partition("==")[0]: block for block in blocks}


@pytest.mark.parametrize("lock", ["build.txt", "runtime.txt", "google.txt"])
def test_the_image_installs_what_the_tests_ran_with(lock: str) -> None:
    assert pins(lock).items() <= pins("dev.txt").items()


def test_the_usual_image_has_no_library_of_a_cloud() -> None:
    assert not {"botocore", "google-auth"} & pins("runtime.txt").keys()
    assert pins("runtime.txt").keys() | {"google-auth"} <= pins("google.txt").keys()
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


def test_the_base_image_is_pinned_by_its_digest() -> None:
    assert re.search(
        r"^ARG PYTHON_IMAGE=python:\d\.\d+-slim@sha256:[0-9a-f]{64}$",
        (ROOT / "Dockerfile").read_text(),
        re.MULTILINE,
    )
