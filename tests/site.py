"""The documentation site: its pages, and its versions.

`python -m tests.site FOLDER` copies every document to its place in the project, so that all links
lead where they do there. `python -m tests.site BUILT SITE` adds the built pages to a site as this
version; the other versions of the site stay as they are.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from desched import __version__
from tests.repository import ROOT

PAGES = (
    "*.md",
    "docs/**/*.md",
    "policies/*.md",
    "deploy/**/*.md",
    "tests/**/*.md",
    "benchmarks/*.md",
    "drills/*.md",
)
_LINK = re.compile(r"\]\(([^)#\s]+)")


def files() -> Iterator[Path]:
    """Each page, and each file of the project that a page links to or shows."""
    for page in (page for pattern in PAGES for page in ROOT.glob(pattern)):
        yield page
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if "://" not in link and target.is_file():
                yield target


def stage(folder: Path) -> None:
    """Fill the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for file in set(files()):
        target = folder / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def add(built: Path, site: Path, version: str = __version__) -> None:
    """Put the pages into the folder of their version, and list all versions, newest first.

    The theme reads the list, in the format of mike. The site itself leads to the newest version.
    """
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.copytree(built, site / version)
    versions = sorted((folder.name for folder in site.glob("*.*.*/")), key=_order, reverse=True)
    listed = [{"version": each, "title": each, "aliases": []} for each in versions]
    (site / "versions.json").write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    newest = f'<!doctype html><meta http-equiv="refresh" content="0; url={versions[0]}/">\n'
    (site / "index.html").write_text(newest, encoding="utf-8")


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    folder, *published = map(Path, sys.argv[1:])
    if published:
        add(folder, published[0])
    else:
        stage(folder)
