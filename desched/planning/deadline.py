"""The deadline of planning: objects of tenants may be made to take long."""

from collections.abc import Callable

from desched.model.cluster import Pod

OutOfTime = Callable[[], bool]
"""Whether the time for planning is over; planning itself reads no clock."""


class PlanningTooSlowError(Exception):
    """The time for planning is over; its text is where it ended."""


class PlanningTime:
    """Ends planning between two steps."""

    def __init__(self, out_of_time: OutOfTime = lambda: False) -> None:
        self._out_of_time = out_of_time

    def check(self, pod: Pod) -> None:
        """Raise PlanningTooSlowError if the time is over; the pod is the one in work."""
        if self._out_of_time():
            raise PlanningTooSlowError(f"it ended at the constraints of pod {pod.ref}")
