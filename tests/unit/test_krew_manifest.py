import pytest

from desched import __version__
from tests.krew_manifest import archive_name, manifest

HOME = "https://example.com/desched"
ARCHIVE = f"kubectl-desched_{__version__}_linux_amd64.tar.gz"


def test_the_manifest_names_each_archive_with_its_sum():
    other = ARCHIVE.replace("linux_amd64", "darwin_arm64")
    sums = f"{'a' * 64}  dist/{ARCHIVE}\n{'b' * 64} *{other}\n{'c' * 64}  desched.whl\n"
    spec = manifest(HOME, sums)["spec"]

    assert spec["version"] == f"v{__version__}"
    assert spec["platforms"] == [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": "amd64"}},
            "uri": f"{HOME}/releases/download/v{__version__}/{ARCHIVE}",
            "sha256": "a" * 64,
            "bin": "kubectl-desched",
        },
        {
            "selector": {"matchLabels": {"os": "darwin", "arch": "arm64"}},
            "uri": f"{HOME}/releases/download/v{__version__}/{other}",
            "sha256": "b" * 64,
            "bin": "kubectl-desched",
        },
    ]


@pytest.mark.parametrize(
    "sums", ["", f"{'a' * 64}  {ARCHIVE.replace(__version__, '9.9.9')}\n", f"short  {ARCHIVE}\n"]
)
def test_a_manifest_without_archives_of_this_version_is_refused(sums):
    with pytest.raises(SystemExit, match="make kubectl-plugin"):
        manifest(HOME, sums)


def test_the_archive_of_this_machine_is_one_that_a_manifest_names():
    name = archive_name()
    (platform,) = manifest(HOME, f"{'a' * 64}  {name}\n")["spec"]["platforms"]
    assert platform["uri"].endswith(f"/{name}")
