"""What happened to the nodes of a cluster over time; simulations, backtests and pages share it."""

from datetime import datetime

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.model.cluster import PodRef
from desched.model.plan import HoldReason, NodeReason, RefusalReason
from desched.model.report import NotActing
from desched.model.resources import Resource
from desched.model.state import MoveResult

_MINUTE_SECONDS = 60.0


class Lines(msgspec.Struct, frozen=True, gc=False):
    """The lines of a node for one resource, as shares of capacity."""

    target_ratio: float
    stop_ratio: float
    ceiling_ratio: float


class LoadOverTime(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource: for each node one mean for each step, None where it is unknown.

    `lines` has an entry for each node, None where the policy has no rule for it.
    """

    resource: Resource
    lines: tuple[Lines | None, ...]
    ratios: tuple[tuple[float | None, ...], ...]

    def overloaded(self) -> NDArray[np.bool_]:
        """Whether the load is above the target, node x step; unknown counts as no."""
        targets = [np.inf if lines is None else lines.target_ratio for lines in self.lines]
        ratios = np.array(self.ratios, dtype=float).reshape(len(targets), -1)
        above: NDArray[np.bool_] = ratios > np.array(targets)[:, None]
        return above


class TimelineEviction(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An eviction, and the landing of the replacement as far as it is known.

    `landed_on` is empty, and `landed_at` None, before the landing. `result` is None where nobody
    judged it.
    """

    at: datetime
    pod: PodRef
    node: str
    workload: str = ""
    landed_at: datetime | None = None
    landed_on: str = ""
    result: MoveResult | None = None
    reason: str = ""


class RefusalTotal(msgspec.Struct, frozen=True, gc=False):
    """How many different pods were refused for a reason, and in how many cycles all together."""

    reason: RefusalReason
    pods: int
    decisions: int


class IdleTotal(msgspec.Struct, frozen=True, gc=False):
    """How many cycles evicted nothing for this reason although nodes were overloaded."""

    reason: HoldReason | NodeReason | NotActing
    cycles: int


class Timeline(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The load of each node in steps of equal length, and what was done meanwhile.

    `name` tells it from others beside it, such as `no descheduler` or the file of a policy.
    `nodes` gives the order of all tuples with an entry for each node. `evictions` are in the order
    of time, `refusals` with most pods first.
    """

    name: str
    started_at: datetime
    step_seconds: float
    nodes: tuple[str, ...]
    loads: tuple[LoadOverTime, ...]
    evictions: tuple[TimelineEviction, ...] = ()
    refusals: tuple[RefusalTotal, ...] = ()
    idle: tuple[IdleTotal, ...] = ()

    @property
    def steps(self) -> int:
        """The number of steps."""
        return max((len(row) for load in self.loads for row in load.ratios), default=0)

    @property
    def overloaded_node_minutes(self) -> float:
        """The time above a target of any resource, of all nodes together."""
        return float(self._overloaded().sum()) * self.step_seconds / _MINUTE_SECONDS

    @property
    def longest_episode_minutes(self) -> float:
        """The longest time for which one node stayed above a target without a break."""
        longest = 0
        for row in self._overloaded():
            # Each step below the targets ends an episode; so do both ends of the timeline.
            (calm,) = np.nonzero(np.concatenate(([False], row, [False])) == 0)
            longest = max(longest, int(np.diff(calm).max()) - 1)
        return longest * self.step_seconds / _MINUTE_SECONDS

    def _overloaded(self) -> NDArray[np.bool_]:
        found = np.zeros((len(self.nodes), self.steps), dtype=bool)
        for load in self.loads:
            found |= load.overloaded()
        return found
