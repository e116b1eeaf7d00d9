"""Fixtures of the tests that look at pages in a real browser."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.chromium import SKIPPED, BrowserUnavailableError, find_or_unpack
from tests.browser.driver import Browser, Tab


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    try:
        started = Browser(find_or_unpack())
    except ImportError:
        reason = "the group `browser` is not installed; run `make browser`"
    except BrowserUnavailableError as unavailable:
        reason = str(unavailable)
    else:
        with started:
            yield started
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(f"{SKIPPED}: {reason}")


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens pages; at the end no page may have complained."""
    tabs: list[Tab] = []

    def open_tab(address: str, **look: Any) -> Tab:
        tabs.append(browser.open(address, **look))
        return tabs[-1]

    yield open_tab
    complaints = [each for one in tabs for each in one.complaints]
    for one in tabs:
        one.close()
    assert complaints == []
