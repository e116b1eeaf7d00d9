"""Liveness and readiness for the probes."""

from collections.abc import Callable

SCHEDULER_SILENCE_SECONDS = 60.0
"""The scheduler reports every few seconds; after this time without a report it hangs."""


class Health:
    """Whether the loop runs and has read the cluster; single assignments need no lock.

    A cycle that takes longer than `cycle_deadline_seconds` counts as stuck.
    """

    def __init__(self, monotonic: Callable[[], float], cycle_deadline_seconds: float) -> None:
        self._monotonic = monotonic
        self._cycle_deadline_seconds = cycle_deadline_seconds
        self._scheduler_seen_at = monotonic()
        self._cycle_began_at: float | None = None
        self._observed = False
        self._standby = False

    def scheduler_runs(self) -> None:
        """Record that the scheduler works."""
        self._scheduler_seen_at = self._monotonic()

    def cycle_began(self) -> None:
        """Record the start of a cycle."""
        self._cycle_began_at = self._monotonic()

    def cycle_ended(self, *, observed: bool) -> None:
        """Record the end of a cycle; `observed` if it read the cluster and its load."""
        self._cycle_began_at = None
        self._observed = self._observed or observed

    def standby(self) -> None:
        """Record that another replica acts, and this one is ready to take over."""
        self._standby = True

    @property
    def has_observed(self) -> bool:
        """Whether any cycle has read the cluster and its load."""
        return self._observed

    def why_not_alive(self) -> str | None:
        """What is stuck; None if nothing is."""
        now = self._monotonic()
        began_at = self._cycle_began_at
        if began_at is not None and now - began_at > self._cycle_deadline_seconds:
            return (
                f"the current cycle started {now - began_at:.0f} s ago; "
                f"it should take no longer than {self._cycle_deadline_seconds:.0f} s"
            )
        silence_seconds = now - self._scheduler_seen_at
        if silence_seconds > SCHEDULER_SILENCE_SECONDS:
            return f"the scheduler has not reported for {silence_seconds:.0f} s"
        return None

    def why_not_ready(self) -> str | None:
        """What is missing before the service works; None if nothing is."""
        if self._observed or self._standby:
            return None
        return "no cycle has read the cluster and its load yet; see the log"
