"""The chart as it is published: `python -m tests.chart_package HOME IMAGE DIGEST FOLDER`.

HOME is the address of the project, IMAGE the published image without its tag, DIGEST that of this
version. The folder gets the chart with what only a release has: links, the image, and the changes.
Without arguments it writes the icon into Chart.yaml.
"""

import base64
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from desched import __version__
from tests.repository import ROOT

CHART = ROOT / "deploy" / "chart"
CHANGELOG = ROOT / "CHANGELOG.md"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_ICON = re.compile(r"^icon: .*$", re.MULTILINE)


def icon() -> str:
    """The icon as a URL that needs no server."""
    picture = base64.b64encode((CHART / "icon.svg").read_bytes()).decode()
    return f"data:image/svg+xml;base64,{picture}"


def changes(changelog: str, version: str) -> list[dict[str, str]]:
    """What the version changed: kind and first sentence of each entry, without links.

    Raises:
        SystemExit: the changelog has no heading of the version.
    """
    found = re.search(
        rf"^## \[?{re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        sys.exit(f"CHANGELOG.md has no heading of version {version}.")
    return list(_entries(found[1]))


def _entries(section: str) -> Iterator[dict[str, str]]:
    for kind, text in re.findall(
        r"^### (\w+)\n(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL
    ):
        for entry in re.findall(r"^\* (.*?)(?=^\* |^#|\Z)", text, re.MULTILINE | re.DOTALL):
            words = _LINK.sub(r"\1", " ".join(entry.split())).replace("*", "")
            first = re.split(r"(?<=\.)\s+(?=[A-Z`])", words)[0]
            yield {"kind": kind.lower(), "description": first}


def release_metadata(home: str, image: str, digest: str) -> dict[str, Any]:
    """What a release adds to Chart.yaml."""
    source = f"{home}/tree/v{__version__}"
    links = {
        "Documentation": f"{source}/docs",
        "Changelog": f"{home}/blob/v{__version__}/CHANGELOG.md",
        "Security": f"{home}/security/policy",
        "Verification of signatures": f"{home}/blob/v{__version__}/docs/releases.md#verify",
    }
    written = {
        "license": "Apache-2.0",
        "prerelease": str(re.fullmatch(r"\d+\.\d+\.\d+", __version__) is None).lower(),
        "images": _yaml(
            [
                {
                    "name": "desched",
                    "image": f"{image}:{__version__}@{digest}",
                    "platforms": ["linux/amd64", "linux/arm64"],
                }
            ]
        ),
        "links": _yaml([{"name": name, "url": url} for name, url in links.items()]),
        "changes": _yaml(changes(CHANGELOG.read_text(), __version__)),
    }
    return {
        "home": home,
        "sources": [source],
        "annotations": {f"artifacthub.io/{key}": value for key, value in written.items()},
    }


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000, allow_unicode=True)


def write(home: str, image: str, digest: str, folder: Path) -> None:
    """Writes the chart; its default image is the published one, by tag and digest."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CHART, folder)
    metadata = yaml.safe_load((CHART / "Chart.yaml").read_text())
    metadata |= release_metadata(home, image, digest)
    (folder / "Chart.yaml").write_text(_yaml(metadata))
    values, count = re.subn(
        r"^  repository: desched\n(.*\n)  tag: \"\"$",
        rf'  repository: {image}\n\g<1>  tag: "{__version__}@{digest}"',
        (CHART / "values.yaml").read_text(),
        flags=re.MULTILINE,
    )
    if count != 1:
        sys.exit("values.yaml does not have the image where a release replaces it.")
    (folder / "values.yaml").write_text(values)
    page = (CHART / "README.md").read_text()
    (folder / "README.md").write_text(_LINK.sub(lambda link: _absolute(home, link), page))


def _absolute(home: str, link: re.Match[str]) -> str:
    target, mark, anchor = link[2].partition("#")
    if not target or "://" in target:
        return link[0]
    path = (CHART / target).resolve()
    kind = "tree" if path.is_dir() else "blob"
    where = f"{home}/{kind}/v{__version__}/{path.relative_to(ROOT)}"
    return f"[{link[1]}]({where}{mark}{anchor})"


if __name__ == "__main__":
    if sys.argv[1:]:
        write(sys.argv[1].rstrip("/"), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        metadata = CHART / "Chart.yaml"
        metadata.write_text(_ICON.sub(f"icon: {icon()}", metadata.read_text()))
