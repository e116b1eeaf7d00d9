import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests.browser.chromium import SKIPPED as PAGES_SKIPPED
from tests.controlplane.binaries import SKIPPED
from tests.image.built_image import SKIPPED as IMAGE_SKIPPED
from tests.nodes.machine import SKIPPED as NODES_SKIPPED

# How long an example takes says nothing about it while other tests run beside it.
# Random tests run at every change: few examples each time, and many where somebody asks for them.
settings.register_profile("everyday", settings(), deadline=None, max_examples=25)
settings.register_profile("thorough", settings(), deadline=None, max_examples=500)
settings.load_profile("everyday")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says once and loudly why whole folders did not run, which skips alone would hide."""
    skips = (str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()))
    loud = (SKIPPED, PAGES_SKIPPED, IMAGE_SKIPPED, NODES_SKIPPED)
    for told in sorted({skip for skip in skips if any(each in skip for each in loud)}):
        terminalreporter.write_line(told.removeprefix("Skipped: "), red=True, bold=True)
