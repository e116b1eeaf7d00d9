"""The pages of the documentation site, and what they link to: `python -m tests.site FOLDER`.

The folder gets every document at its place in the project, so that all links lead where they do
there.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.repository import ROOT

PAGES = ("*.md", "docs/**/*.md", "policies/*.md", "deploy/**/*.md", "tests/**/*.md")
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


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
