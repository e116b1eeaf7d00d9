"""The one place of the harness that waits."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 1.0
PAUSE_AFTER_A_LOOK = 2.0
"""By how much a pause is longer than the look before it: some looks are processes of their own."""

PATIENCE_SECONDS = 240.0
"""Long after whatever is waited for, even on a machine that is busy with much else."""


def wait_for(
    description: str,
    predicate: Callable[[], T],
    timeout: float = PATIENCE_SECONDS,
    diagnosis: Callable[[], str] = str,
) -> T:
    """Polls until the predicate's value is true and returns it, since no test may sleep blindly."""
    began = looked_at = time.monotonic()
    while not (value := predicate()):
        now = time.monotonic()
        waited_seconds, look_seconds = now - began, now - looked_at
        if waited_seconds > timeout:
            raise TimeoutError(
                f"not within {timeout:g} s: {description} (last: {value!r})\n{diagnosis()}".rstrip()
            )
        # What has taken long is looked at less often, for each look costs CPU.
        pause_seconds = max(
            SHORTEST_PAUSE_SECONDS, waited_seconds / 10, PAUSE_AFTER_A_LOOK * look_seconds
        )
        time.sleep(min(LONGEST_PAUSE_SECONDS, pause_seconds))
        looked_at = time.monotonic()
    return value
