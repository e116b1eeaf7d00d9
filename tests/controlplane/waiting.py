"""The one place of the harness that waits."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHORTEST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.02, 0.5
PATIENCE_SECONDS = 240.0
"""Long after whatever is waited for, even on a machine that is busy with much else."""


def wait_for(
    description: str,
    predicate: Callable[[], T],
    timeout: float = PATIENCE_SECONDS,
    diagnosis: Callable[[], str] = str,
) -> T:
    """Polls until the predicate's value is true and returns it, since no test may sleep blindly."""
    began = time.monotonic()
    while not (value := predicate()):
        waited_seconds = time.monotonic() - began
        if waited_seconds > timeout:
            raise TimeoutError(
                f"not within {timeout:g} s: {description} (last: {value!r})\n{diagnosis()}".rstrip()
            )
        # What has taken long is looked at less often, for each look costs CPU.
        poll_seconds = max(SHORTEST_POLL_SECONDS, waited_seconds / 10)
        time.sleep(min(LONGEST_POLL_SECONDS, poll_seconds))
    return value
