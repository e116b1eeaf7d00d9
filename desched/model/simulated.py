"""What policies would do from a snapshot on, side by side."""

from datetime import datetime
from enum import StrEnum

import msgspec

from desched.model.backtest import PolicyFigures

SIMULATION_VERSION = "desched.io/simulation/v1"


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
