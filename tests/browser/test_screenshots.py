import io
import re
from pathlib import Path

import pytest
from PIL import Image

from tests.browser.driver import Browser
from tests.browser.screenshots import FOLDER, MOST_BYTES, REPORT, STATUS, WIDTH, take
from tests.repository import ROOT

PICTURES = (REPORT, STATUS)


def picture(file: Path) -> Image.Image:
    return Image.open(io.BytesIO(file.read_bytes()))


def test_the_pictures_can_be_taken(browser: Browser, tmp_path: Path) -> None:
    take(browser, tmp_path)

    for name in PICTURES:
        assert (tmp_path / name).stat().st_size <= MOST_BYTES
        taken, kept = picture(tmp_path / name), picture(FOLDER / name)
        assert taken.size == kept.size
        assert taken.width == WIDTH
        assert len(taken.convert("RGB").getcolors(maxcolors=1_000_000) or ()) > 50, (
            "it is nearly blank"
        )


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_documents_are_small_and_shown(name: str) -> None:
    assert (FOLDER / name).stat().st_size <= MOST_BYTES
    shown = re.findall(r"!\[[^]]+\]\((\S+)\)", (ROOT / "README.md").read_text())
    assert str((FOLDER / name).relative_to(ROOT)) in shown
