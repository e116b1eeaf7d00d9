"""The deadline of planning, and the share of a namespace: pods may be made to take long."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from desched.model.cluster import Pod

OutOfTime = Callable[[], bool]
"""Whether the time for planning is over; planning itself reads no clock."""

NAMESPACE_SHARE = 2_000_000
"""The comparisons that the constraints of a namespace's pods may cost in a plan: about two seconds.

They are counted, not timed, so that a plan is the same on every machine.
"""


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


class ComparisonCounts:
    """Counts comparisons of constraints with nodes and pods, for the namespace in work.

    All namespaces of one owner have one share, as far as `owners` has it.
    """

    def __init__(self, owners: Mapping[str, str] = MappingProxyType({})) -> None:
        self._owners = owners
        self._of_owner = Counter[str]()
        self._owner = ""

    @contextmanager
    def of(self, namespace: str) -> Iterator[None]:
        """Count for this namespace from here on, later for the one before again."""
        before, self._owner = self._owner, self._owners.get(namespace, namespace)
        try:
            yield
        finally:
            self._owner = before

    def add(self, comparisons: int) -> None:
        """Count comparisons for the namespace in work."""
        self._of_owner[self._owner] += comparisons

    @property
    def share_is_used(self) -> bool:
        """Whether the namespace in work has used its share; then no node passes for its pods."""
        return self._of_owner[self._owner] > NAMESPACE_SHARE
