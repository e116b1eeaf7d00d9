"""The image can be built, and runs as the chart runs it: read-only, and as nobody."""

import re
from collections.abc import Iterator

import pytest

from desched import __version__
from tests.image.built_image import SKIPPED, BuiltImage, built_image, missing


@pytest.fixture(scope="module")
def image() -> Iterator[BuiltImage]:
    if reason := missing():
        pytest.skip(f"{SKIPPED}: {reason}")
    with built_image() as built:
        yield built


def test_it_runs_desched_on_a_read_only_file_system_as_a_user_without_rights(
    image: BuiltImage,
) -> None:
    user = image.run("id", "--user")
    written = image.run("touch", "/tmp/file")  # noqa: S108  which everybody may write to
    version = image.run(*image.entrypoint, "--version")
    demo = image.run(*image.entrypoint, "demo")

    assert user.stdout.strip() == image.user.partition(":")[0] == "65532"
    assert "Read-only file system" in written.stderr
    assert (version.stdout.strip(), version.stderr) == (f"desched {__version__}", "")
    assert demo.returncode == 0, demo.stderr
    assert "no node is overloaded any more" in " ".join(demo.stdout.split())


def test_what_it_installs_can_be_imported_and_is_compiled(image: BuiltImage) -> None:
    """Python could not keep what it compiles there."""
    imported = image.run("python3", "-vc", "import desched.cli, kubernetes.client, bokeh.plotting")

    assert imported.returncode == 0, imported.stderr[-2000:]
    assert re.findall(r"code object from '/opt/desched\S+\.pyc'", imported.stderr)
    assert re.findall(r"code object from '/opt/desched\S+\.py'", imported.stderr) == []
