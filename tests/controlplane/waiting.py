"""The one place of the harness that waits."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.05


def wait_for(
    description: str,
    predicate: Callable[[], T],
    timeout: float = 30.0,
    diagnosis: Callable[[], str] = str,
) -> T:
    """Polls until the predicate's value is true and returns it, since no test may sleep blindly."""
    deadline = time.monotonic() + timeout
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"not within {timeout:g} s: {description} (last: {value!r})\n{diagnosis()}".rstrip()
            )
        time.sleep(POLL_SECONDS)
    return value
