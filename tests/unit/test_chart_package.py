"""The chart as a release publishes it."""

from pathlib import Path

import pytest
import yaml

from desched import __version__
from tests import chart_package
from tests.chart_package import CHART, changes, icon, write
from tests.controlplane.chart_rendering import renderer, run

HOME = "https://forge.example/team/desched"
IMAGE = "registry.example/team/desched"
DIGEST = f"sha256:{'a' * 64}"
CHANGELOG = f"""\
# Changelog

## {__version__} (2026-01-01)

### Added

* The key `evict` in [policies](docs/policy.md). It does more.
* A word
  on two lines: of `code`.

### Fixed

* **Wrong** sums.

## 0.0.1

### Added

* Nothing.
"""


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(CHANGELOG)
    monkeypatch.setattr(chart_package, "CHANGELOG", changelog)
    write(HOME, IMAGE, DIGEST, tmp_path / "desched")
    return tmp_path / "desched"


def test_artifact_hub_gets_the_image_by_digest_the_links_and_the_changes(published: Path) -> None:
    metadata = yaml.safe_load((published / "Chart.yaml").read_text())
    notes = {
        key.removeprefix("artifacthub.io/"): yaml.safe_load(text)
        for key, text in metadata["annotations"].items()
    }

    assert metadata["home"] == HOME
    assert notes["license"] == "Apache-2.0"
    assert notes["prerelease"] is False
    assert notes["images"][0]["image"] == f"{IMAGE}:{__version__}@{DIGEST}"
    assert {link["url"].startswith(HOME) for link in notes["links"]} == {True}
    assert notes["changes"] == [
        {"kind": "added", "description": "The key `evict` in policies."},
        {"kind": "added", "description": "A word on two lines: of `code`."},
        {"kind": "fixed", "description": "Wrong sums."},
    ]


def test_it_installs_the_published_image_and_is_a_package_for_helm(published: Path) -> None:
    helm = renderer("helm")
    rendered = run(helm, "template", "desched", published)
    run(helm, "lint", "--strict", published)
    run(helm, "package", published, "--destination", published.parent)

    assert f"image: {IMAGE}:{__version__}@{DIGEST}\n" in rendered
    assert (published.parent / f"desched-{__version__}.tgz").is_file()


def test_its_page_links_to_the_files_of_its_version(published: Path) -> None:
    page = (published / "README.md").read_text()

    assert "](../" not in page
    assert f"]({HOME}/blob/v{__version__}/docs/operations.md)" in page
    assert f"]({HOME}/tree/v{__version__}/deploy/base)" in page


def test_a_version_without_changes_is_not_published() -> None:
    with pytest.raises(SystemExit, match=r"no heading of version 9\.9\.9"):
        changes(CHANGELOG, "9.9.9")


def test_the_chart_has_its_icon() -> None:
    metadata = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert metadata["icon"] == icon(), "run `make generated`"
