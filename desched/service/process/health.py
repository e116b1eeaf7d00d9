"""Whether the loop is alive and has seen the cluster: what the probes ask."""

from collections.abc import Callable

SCHEDULER_SILENCE_SECONDS = 60.0
"""The scheduler reports every few seconds; after this long without, it hangs or has died."""


class Health:
    """Liveness and readiness; reads and writes are single assignments, so threads need no lock.

    `cycle_deadline_seconds` is how long a cycle may take before the loop counts as stuck.
    """

    def __init__(self, monotonic: Callable[[], float], cycle_deadline_seconds: float) -> None:
        self._monotonic = monotonic
        self._cycle_deadline_seconds = cycle_deadline_seconds
        self._scheduler_seen_at = monotonic()
        self._cycle_began_at: float | None = None
        self._observed = False
        self._standby = False

    def scheduler_runs(self) -> None:
        """The scheduler still does its work."""
        self._scheduler_seen_at = self._monotonic()

    def cycle_began(self) -> None:
        """A cycle is running from now on."""
        self._cycle_began_at = self._monotonic()

    def cycle_ended(self, *, observed: bool) -> None:
        """The cycle is over; `observed` if it saw the cluster and its load."""
        self._cycle_began_at = None
        self._observed = self._observed or observed

    def standby(self) -> None:
        """The lease was read: another replica acts, and this one is ready to take over."""
        self._standby = True

    @property
    def has_observed(self) -> bool:
        """Whether any cycle has seen the cluster and its load."""
        return self._observed

    def why_not_alive(self) -> str | None:
        """What is stuck, None if nothing is."""
        now = self._monotonic()
        began_at = self._cycle_began_at
        if began_at is not None and now - began_at > self._cycle_deadline_seconds:
            return (
                f"the running cycle began {now - began_at:.0f} s ago; "
                f"it should take no longer than {self._cycle_deadline_seconds:.0f} s"
            )
        silence_seconds = now - self._scheduler_seen_at
        if silence_seconds > SCHEDULER_SILENCE_SECONDS:
            return f"the scheduler has not been heard of for {silence_seconds:.0f} s"
        return None

    def why_not_ready(self) -> str | None:
        """What is missing before the service does its work, None if nothing is."""
        if self._observed or self._standby:
            return None
        return "no cycle has seen the cluster and its load yet; the log says why"
