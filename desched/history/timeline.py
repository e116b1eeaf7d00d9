"""What happened to the nodes of a cluster over time; simulations, backtests and pages share it."""

from collections import Counter
from datetime import datetime
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.history.overload import Overload, overload_of
from desched.model.cluster import PodRef
from desched.model.plan import HoldReason, NodeClass, NodeReason, RefusalReason
from desched.model.report import CycleReport, NotActing
from desched.model.resources import Resource
from desched.model.state import MoveResult

_MINUTE_SECONDS = 60.0


class Lines(msgspec.Struct, frozen=True, gc=False):
    """The lines of a node for one resource, as shares of capacity."""

    target_ratio: float
    stop_ratio: float
    ceiling_ratio: float


class LoadOverTime(msgspec.Struct, frozen=True, dict=True):
    """The load of one resource: for each node one mean for each step, None where it is unknown.

    `lines` has an entry for each node, None where the policy has no rule for it.
    """

    resource: Resource
    lines: tuple[Lines | None, ...]
    ratios: tuple[tuple[float | None, ...], ...]

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """The ratios as an array, NaN where they are unknown; callers must not change it."""
        return np.array(self.ratios, dtype=np.float64).reshape(len(self.lines), -1)

    @cached_property
    def overloaded(self) -> NDArray[np.bool_]:
        """Whether the load is above the target, node x step; unknown counts as no."""
        above: NDArray[np.bool_] = self.values > self.targets
        return above

    @property
    def targets(self) -> NDArray[np.float64]:
        """The target of each node, node x 1; infinite where there is none."""
        targets = [np.inf if lines is None else lines.target_ratio for lines in self.lines]
        return np.array(targets)[:, None]

    def highest_ratios(self) -> tuple[float | None, ...]:
        """The highest load of each node, None where it is never known."""
        highest = np.fmax.reduce(self.values, axis=1, initial=-np.inf).tolist()
        return tuple(None if ratio == -np.inf else ratio for ratio in highest)


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


IdleReason = HoldReason | NotActing | NodeReason | RefusalReason
"""Why a cycle evicts nothing: the whole of it, all its nodes, or the pods on them."""


def why_idle(report: CycleReport) -> IdleReason | None:
    """Why the cycle evicted nothing; None if no node was overloaded."""
    plan = report.plan
    if plan.hold is not None:
        return plan.hold
    overloaded = [v for v in plan.nodes if v.node_class is NodeClass.OVERLOADED]
    if not overloaded:
        return None
    if report.not_acting is not None:
        return report.not_acting
    nodes = Counter(v.reason for v in overloaded if isinstance(v.reason, NodeReason))
    if nodes:
        (reason, _), *_ = nodes.most_common(1)
        return reason
    refused = Counter(refusal.reason for refusal in plan.refusals)
    return refused.most_common(1)[0][0] if refused else None


class IdleTotal(msgspec.Struct, frozen=True, gc=False):
    """How many cycles evicted nothing for this reason although nodes were overloaded."""

    reason: IdleReason
    cycles: int


class Timeline(msgspec.Struct, frozen=True, dict=True, kw_only=True, omit_defaults=True):
    """The load of each node in steps of equal length, and what was done meanwhile.

    `name` tells it from others beside it, such as `no descheduler` or the file of a policy.
    `nodes` gives the order of all tuples with an entry for each node. `overloaded_shares` has for
    each step of each node the share of cycles that found it overloaded; without it, a step is
    overloaded if its mean load is above a target. `evictions` are in the order
    of time, `refusals` with most pods first.
    """

    name: str
    started_at: datetime
    step_seconds: float
    nodes: tuple[str, ...]
    loads: tuple[LoadOverTime, ...]
    overloaded_shares: tuple[tuple[float, ...], ...] = ()
    evictions: tuple[TimelineEviction, ...] = ()
    refusals: tuple[RefusalTotal, ...] = ()
    idle: tuple[IdleTotal, ...] = ()

    def load(self, resource: Resource) -> LoadOverTime:
        """The load of a resource that the timeline has."""
        return next(load for load in self.loads if load.resource is resource)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return max((load.values.shape[1] for load in self.loads), default=0)

    @property
    def overloaded_minutes(self) -> tuple[float, ...]:
        """For each node the time above a target of any resource."""
        steps = self.overloaded.sum(axis=1).tolist()
        return tuple(step * self.step_seconds / _MINUTE_SECONDS for step in steps)

    @cached_property
    def overload(self) -> Overload:
        """How long, and how far, nodes were above their targets."""
        return self.overload_in(self.step_seconds / _MINUTE_SECONDS)

    def overload_in(self, minutes: float | NDArray[np.float64]) -> Overload:
        """Return a copy with other lengths of steps; see `overload_of`."""
        loads = {load.resource: (load.values, load.targets) for load in self.loads}
        return overload_of(loads, minutes, self.overloaded * minutes)

    @cached_property
    def overloaded(self) -> NDArray[np.float64]:
        """The share of each step with any resource above its target, node x step."""
        shape = len(self.nodes), self.steps
        if self.overloaded_shares:
            return np.array(self.overloaded_shares, dtype=np.float64).reshape(shape)
        mask = np.zeros(shape, dtype=bool)
        for load in self.loads:
            mask |= load.overloaded
        return mask.astype(np.float64)
