"""Whether this process may set soft taints, which a person can grant and revoke at any time."""

from collections.abc import Callable

import structlog

from desched.wording.reasons import GRANT_STEERING

VALID_SECONDS = 3600.0
"""How long a granted right is believed without another check."""

_log = structlog.get_logger(__name__)


class SteeringPermission:
    """The answer of `check`, kept for an hour if it is yes, and logged if it changes.

    A missing right is checked in each cycle: that is one small request, and the right takes effect
    soon after it is granted.
    """

    def __init__(self, check: Callable[[], bool], seconds: Callable[[], float]) -> None:
        self._check = check
        self._seconds = seconds
        self._granted: bool | None = None
        self._valid_until = 0.0

    def granted(self) -> bool:
        """Whether desched may patch nodes now."""
        if not self._granted or self._seconds() >= self._valid_until:
            self._look()
        return bool(self._granted)

    def denied(self) -> None:
        """Check again at once, because a soft taint was denied."""
        if self._granted:
            self._look()

    def _look(self) -> None:
        before, self._granted = self._granted, self._check()
        self._valid_until = self._seconds() + VALID_SECONDS
        if self._granted is before:
            return
        if self._granted:
            _log.info("steering.granted")
        else:
            _log.warning(
                "steering.not_granted",
                meaning="desched may not patch nodes, and plans without soft taints",
                grant=GRANT_STEERING,
            )
