"""A real browser, driven by Playwright: pages with a size and a colour scheme."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from tests.browser.chromium import Chromium
from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for

IDLE = "window.Bokeh && Bokeh.documents.length === 1 && Bokeh.documents[0].is_idle"
"""Whether all charts are drawn."""


class Tab:
    """A page that is open; it collects errors of scripts and of the security policy."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)
        page.on("request", lambda request: self.requests.append(request.url))

    def _heard(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def texts(self, selector: str) -> list[str]:
        """The visible texts of all elements that the selector finds and that are shown."""
        found: list[str] = self.page.locator(selector).filter(visible=True).all_inner_texts()
        return [" ".join(text.split()) for text in found]

    def column(self, table: str, number: int) -> list[str]:
        """The texts of a column of a table, from 1."""
        return self.texts(f"#{table} tbody tr > :nth-child({number})")

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self) -> str:
        """The text of the element that has the focus."""
        text: str = self.page.evaluate("document.activeElement.textContent")
        return text

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.page.evaluate(script)

    def wait(self, script: str) -> None:
        """Wait until the expression is true; the pages forbid Playwright's own way to wait."""
        wait_for(script, lambda: self.evaluate(script))

    def picture(self, file: Path) -> None:
        """What the window shows, as PNG."""
        self.page.screenshot(path=file)

    def close(self) -> None:
        """Close the page."""
        self.page.context.close()


class Browser:
    """A running Chromium."""

    def __init__(self, chromium: Chromium) -> None:
        from playwright.sync_api import sync_playwright

        self._chromium = chromium
        self._playwright = sync_playwright()

    def __enter__(self) -> Self:
        self._running = self._playwright.start().chromium.launch(
            executable_path=self._chromium.executable,
            env={**os.environ, **self._chromium.environment},
            args=["--no-sandbox"],  # it opens only pages of the tests, and needs no rights so
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
        self._playwright.__exit__()

    def open(
        self,
        address: str,
        *,
        size: Sequence[int] = (1280, 800),
        scheme: Literal["light", "dark"] = "light",
        scripts: bool = True,
    ) -> Tab:
        """Open an address in a window of this size and colour scheme."""
        width, height = size
        context = self._running.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=scripts,
            timezone_id="UTC",
            locale="en-GB",
        )
        tab = Tab(context.new_page())
        tab.page.goto(address)
        return tab
