"""What one cycle did, as one value from which every output is made."""

from datetime import datetime
from enum import StrEnum

import msgspec

from desched.model.cluster import PodRef
from desched.model.plan import Plan, RefusalReason
from desched.model.state import EvictionRecord, State

REPORT_VERSION = "desched.io/report/v1"


class Mode(StrEnum):
    """Whether a cycle may act."""

    DRY_RUN = "dry_run"
    EVICT = "evict"


class EvictionVerdict(StrEnum):
    """What became of the request to evict a pod."""

    EVICTED = "evicted"
    TAKEN_OVER = "taken_over"  # an admission webhook moves the workload itself
    BLOCKED_BY_BUDGET = "blocked_by_budget"
    SEVERAL_BUDGETS = "several_budgets"
    THROTTLED = "throttled"
    FORBIDDEN = "forbidden"
    GONE = "gone"
    REPLACED = "replaced"  # another pod has the name now
    NOT_CONFIRMED = "not_confirmed"  # the fresh look found a reason to leave it
    NOT_BEGUN = "not_begun"  # stopped before its turn
    UNREADABLE = "unreadable"  # the fresh look failed; it was not asked for
    UNKNOWN = "unknown"  # the answer was not understood; it may or may not be evicted


class Outcome(msgspec.Struct, frozen=True):
    """What became of one planned eviction; `at` is when that was known."""

    pod: PodRef
    node: str
    verdict: EvictionVerdict
    at: datetime
    detail: str = ""
    refusal: RefusalReason | None = None


class NotActing(StrEnum):
    """Why nothing is evicted now although evictions may be planned."""

    PAUSED = "paused"
    OUTSIDE_WINDOW = "outside_window"  # of maintenance, or in one in which nothing may be moved
    NOT_LEADING = "not_leading"  # another instance acts
    TAINT_STAYED = "taint_stayed"  # a soft taint that the plan counts as gone is still there


class TaintChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A soft taint that a node got (or kept for longer), or lost; `detail` says why it did not."""

    node: str
    tainted: bool
    why: str
    done: bool = True
    detail: str = ""


class CycleResult(StrEnum):
    """A cycle in one word."""

    NOTHING_TO_DO = "nothing_to_do"  # no node is overloaded
    HELD = "held"  # the data or the state of the cluster forbids acting
    NOTHING_MOVABLE = "nothing_movable"  # nodes are overloaded, but no move is right
    PLANNED = "planned"  # a dry run that would evict
    EVICTED = "evicted"  # at least one eviction was accepted
    NOT_EVICTED = "not_evicted"  # evictions were planned, none was accepted
    NOT_ACTING = "not_acting"  # evictions are planned, but none may be made now
    STOPPED = "stopped"  # an answer was not understood


class Observed(msgspec.Struct, frozen=True):
    """How much was looked at."""

    nodes: int
    pods: int
    pods_measured: int
    unresolved_series: int


class CycleReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pass through observe, plan, confirm, evict and report.

    Durations are in seconds; `policy` is the file that was in force. `settled` are evictions of
    this or earlier cycles of which it became known now what became of them; `state` is what the
    next cycle starts from. `taints` are the soft taints that were set and taken away. `not_acting`
    says why no eviction may be made now, whatever is planned.
    `other_deschedulers` are those of other makers in the cluster, by maker and namespace.
    """

    version: str = REPORT_VERSION
    cycle: int
    started_at: datetime
    duration_seconds: float
    observe_seconds: float
    plan_seconds: float
    mode: Mode
    target: str
    policy: str
    result: CycleResult
    observed: Observed
    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    not_acting: NotActing | None = None
    not_acting_detail: str = ""
    taints: tuple[TaintChange, ...] = ()
    settled: tuple[EvictionRecord, ...] = ()
    state: State = State()
    other_deschedulers: tuple[str, ...] = ()
