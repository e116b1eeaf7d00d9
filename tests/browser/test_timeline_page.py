import io
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from desched.views.comparison import Comparison
from desched.views.pages.heat_map import CELLS
from desched.views.pages.timeline_page import timeline_page
from tests.browser.driver import IDLE, Tab
from tests.controlplane.waiting import wait_for
from tests.unit.service.test_adversarial_outputs import poisoned
from tests.unit.views.pages.test_timeline_page import COMPARISON

Open = Callable[..., Tab]

PERCENTS = """Bokeh.documents[0].roots()
  .flatMap((plot) => plot.renderers)
  .filter((each) => each.glyph.type === "Image")
  .map((each) => each.data_source.get("percent").map((row) => [...row]))"""


@pytest.fixture
def page(tab: Open, tmp_path: Path) -> Open:
    """Opens the page and waits until its charts are drawn."""

    def open_page(comparison: Comparison = COMPARISON, **look: object) -> Tab:
        file = tmp_path / "timelines.html"
        file.write_text(timeline_page(comparison), encoding="utf-8")
        opened = tab(file.as_uri(), **look)
        opened.wait(IDLE)
        return opened

    return open_page


def colors(opened: Tab, chart: int) -> set[str]:
    """The colours that cover a visible part of a chart."""
    content = opened.page.locator(".chart").nth(chart).screenshot()
    pixels = np.array(Image.open(io.BytesIO(content)).convert("RGB")).reshape(-1, 3)
    found, counts = np.unique(pixels, axis=0, return_counts=True)
    return {"#{:02x}{:02x}{:02x}".format(*each) for each in found[counts > 200]}


def test_it_asks_for_nothing_but_itself(page: Open) -> None:
    assert len(page().requests) == 1


def test_each_chart_is_drawn(page: Open) -> None:
    opened = page()
    canvases = """[...document.querySelectorAll(".chart")]
      .map((chart) => chart.firstElementChild.shadowRoot.querySelectorAll(".bk-Canvas").length)"""

    assert set(opened.evaluate(canvases)) == {1}


def test_the_heat_maps_show_the_loads(page: Open) -> None:
    opened = page()

    assert opened.evaluate(PERCENTS) == [
        [[85, 92, 95], [81, 30, 30], [10, 20, 0]],
        [[85, 74, 70], [80, 30, 30], [10, 30, 30]],
    ]
    cells = dict(CELLS)
    above, far = cells["above the target"], cells["10 points above, or more"]
    assert {above, far} <= colors(opened, 1)
    assert above in colors(opened, 2)
    assert far not in colors(opened, 2)


def test_the_charts_zoom_together(page: Open) -> None:
    opened = page()
    ranges = "new Set(Bokeh.documents[0].roots().map((plot) => plot.x_range.id)).size"

    assert opened.evaluate(ranges) == 1


def test_its_colours_follow_the_browser(page: Open) -> None:
    assert "#ffffff" in colors(page(scheme="light"), 0)
    assert "#0f141a" in colors(page(scheme="dark"), 0)


def test_hostile_names_are_text(page: Open) -> None:
    opened = page(poisoned(COMPARISON))
    heat_map = opened.page.locator(".chart").nth(1)
    tooltip = opened.page.locator("[class*=tooltip]")
    heat_map.scroll_into_view_if_needed()
    corner = heat_map.bounding_box()
    steps = count()

    def pointed_at() -> str:
        """A pointer that moves, not one that jumps, until the chart has noticed."""
        for _ in range(3):
            opened.page.mouse.move(corner["x"] + 500 + next(steps) % 10, corner["y"] + 30)
        return " ".join(tooltip.all_inner_texts())

    name = wait_for("a tooltip", pointed_at)

    assert "<script>alert(1)</script>" in name
    assert opened.evaluate("document.scripts.length") == 4
    assert "<script>alert(1)</script>" in opened.texts("h1")[0]


@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits_into_a_window_of_any_width(page: Open, width: int) -> None:
    opened = page(size=(width, 800))

    assert opened.evaluate("document.documentElement.scrollWidth") <= width
