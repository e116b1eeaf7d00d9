"""The figures of policies side by side: of a simulation, and of a backtest."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from desched.history.overload import Overload
from desched.history.timeline import IdleReason, Timeline
from desched.lab.recorded_past import Doubt

BACKTEST_VERSION = "desched.io/backtest/v1"
BACKTESTS_VERSION = "desched.io/backtests/v1"
SIMULATION_VERSION = "desched.io/simulation/v1"


class NodeFigures(msgspec.Struct, frozen=True, gc=False):
    """One node: time above its targets and highest load, before (really) and after (replayed).

    The peaks are of the resource that came closest to its target, as shares of that target.
    """

    node: str
    overloaded_minutes_before: float
    overloaded_minutes_after: float
    peak_before: float
    peak_after: float
    evictions: int
    landings: int


class WorkloadFigures(msgspec.Struct, frozen=True, gc=False):
    """One workload: evictions of its pods, and the most of its replicas at a time."""

    workload: str
    evictions: int
    replicas: int


class IdleHours(msgspec.Struct, frozen=True, gc=False):
    """The hours with overloaded nodes and without an eviction, mostly for this reason."""

    reason: IdleReason
    hours: int


class Hours(msgspec.Struct, frozen=True, gc=False):
    """All hours of the time, by what was done: evictions, nothing because of a reason, nothing."""

    evicting: int
    quiet: int
    idle: tuple[IdleHours, ...]


class PolicyFigures(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One policy over the past; the lines of both timelines are those of the policy.

    `avoided_share` is that of the overloaded node-minutes, negative if there were more; None if
    there were none. `replicas_moved_again` are evictions of a replacement within an hour.
    `came_back` are replacements that landed on the node that the pod had left, `landed_overloaded`
    those whose other node was overloaded three minutes later. `pending_minutes` is the time for
    which replacements had no node, all together. `most_of_a_workload_within_an_hour` is the largest
    share of a workload's replicas that moved within an hour. `figures_before` and `figures_after`
    are what plugins count in the first and the last cycle, by what it is; a backtest has none.
    """

    policy: str
    evictions: int
    evictions_per_day: float
    without: Overload
    with_policy: Overload
    avoided_share: float | None
    replicas_moved_again: int
    came_back: int
    landed_overloaded: int
    pending_minutes: float
    most_of_a_workload_within_an_hour: float
    hours: Hours
    workloads: tuple[WorkloadFigures, ...]
    nodes: tuple[NodeFigures, ...]
    before: Timeline
    after: Timeline
    figures_before: Mapping[str, float] = {}
    figures_after: Mapping[str, float] = {}


class Backtest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The whole result; `assumed` and `unknown` limit what it can show.

    `covered_share` is the share of the nodes' time for which load is known. `step_seconds` is that
    of the figures; timelines may have longer steps.
    """

    version: str = BACKTEST_VERSION
    started_at: datetime
    ended_at: datetime
    interval_seconds: float
    step_seconds: float
    nodes: int
    pods: int
    workloads: int
    covered_share: float
    policies: tuple[PolicyFigures, ...]
    assumed: tuple[Doubt, ...]
    unknown: tuple[Doubt, ...]


class ClusterBacktest(msgspec.Struct, frozen=True, gc=False):
    """The result in one of several clusters."""

    cluster: str
    backtest: Backtest


class Backtests(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The results in several clusters, with the same policies and the same time."""

    version: str = BACKTESTS_VERSION
    clusters: tuple[ClusterBacktest, ...]


class Assumption(StrEnum):
    """What a simulation assumes."""

    LOAD_STAYS = "load_stays"
    LOAD_FOLLOWS_PODS = "load_follows_pods"
    SCHEDULER_SIMULATED = "scheduler_simulated"
    READY_AT_ONCE = "ready_at_once"
    NOTHING_ELSE_CHANGES = "nothing_else_changes"
    BUDGETS_STAY = "budgets_stay"
    PODS_NOT_MEASURED = "pods_not_measured"
    NODES_UNKNOWN = "nodes_unknown"
    GPUS_UNKNOWN = "gpus_unknown"


class Assumed(msgspec.Struct, frozen=True, gc=False):
    """An assumption with the numbers of this case."""

    assumption: Assumption
    detail: str = ""


class Simulated(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The figures of each policy, beside the same time without desched.

    `target` is what was simulated. Cycles begin at `started_at` and follow each other by the
    interval; the figures are in steps of `step_seconds`. `seed` decides which nodes the scheduler
    compares in large clusters.
    """

    version: str = SIMULATION_VERSION
    target: str
    started_at: datetime
    ended_at: datetime
    interval_seconds: float
    step_seconds: float
    seed: int
    nodes: int
    pods: int
    policies: tuple[PolicyFigures, ...]
    assumed: tuple[Assumed, ...]
