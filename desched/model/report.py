"""The report of a cycle; all outputs are made from this value."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from desched.model.cluster import LargeObjects, PodRef
from desched.model.facts import Facts
from desched.model.plan import Plan, RefusalReason
from desched.model.resources import Resource
from desched.model.state import EvictionRecord, State

REPORT_VERSION = "desched.io/report/v2"


class Mode(StrEnum):
    """Whether a cycle may act."""

    DRY_RUN = "dry_run"
    EVICT = "evict"


class EvictionVerdict(StrEnum):
    """The result of the request to evict a pod."""

    EVICTED = "evicted"
    TAKEN_OVER = "taken_over"  # an admission webhook moves the workload itself
    BLOCKED_BY_BUDGET = "blocked_by_budget"
    SEVERAL_BUDGETS = "several_budgets"
    THROTTLED = "throttled"
    FORBIDDEN = "forbidden"
    GONE = "gone"
    REPLACED = "replaced"  # another pod has the name now
    NOT_CONFIRMED = "not_confirmed"  # the fresh look found a reason to refuse it
    NOT_BEGUN = "not_begun"  # the cycle ended before it
    UNREADABLE = "unreadable"  # the fresh look failed; no request was sent
    GANG_BROKEN = "gang_broken"  # others of its gang were evicted, this pod was not
    UNKNOWN = "unknown"  # the response was not understood; the pod may or may not be evicted


MAY_HAVE_BEGUN = frozenset(
    {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER, EvictionVerdict.UNKNOWN}
)
"""After these verdicts the pod left its node, or may have."""


class Outcome(msgspec.Struct, frozen=True):
    """What happened to one planned eviction, and when.

    `detail` is the message of the API server, `refusal` the rule behind `not_confirmed`.
    """

    pod: PodRef
    node: str
    verdict: EvictionVerdict
    at: datetime
    detail: str = ""
    refusal: RefusalReason | None = None


class NotActing(StrEnum):
    """Why nothing is evicted now although evictions may be planned."""

    PAUSED = "paused"
    LIMIT_ZERO = "limit_zero"  # the policy allows 0 evictions
    OUTSIDE_WINDOW = "outside_window"  # outside maintenance windows, or in a blackout window
    NOT_LEADING = "not_leading"  # another instance acts
    TAINT_STAYED = "taint_stayed"  # a soft taint that the plan assumes to be gone remains


class TaintChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A soft taint that was set, renewed or removed; `detail` is the error if not `done`."""

    node: str
    tainted: bool
    why: str
    done: bool = True
    detail: str = ""


class CycleResult(StrEnum):
    """A cycle in one word."""

    NOTHING_TO_DO = "nothing_to_do"  # no node is overloaded
    HELD = "held"  # the data or the state of the cluster forbids acting
    NOTHING_MOVABLE = "nothing_movable"  # nodes are overloaded, but no pod may move
    PLANNED = "planned"  # a dry run that would evict
    EVICTED = "evicted"  # at least one eviction was accepted
    NOT_EVICTED = "not_evicted"  # evictions were planned, none was accepted
    NOT_ACTING = "not_acting"  # evictions are planned, but none may be made now
    STOPPED = "stopped"  # a response was not understood


class ObservedCounts(msgspec.Struct, frozen=True):
    """The size of the snapshot; usage is asked for only of pods on nodes where it decides.

    `pods` includes pending ones. `unresolved_series` are load series that match no known node.
    """

    nodes: int
    pods: int
    pods_asked: int
    pods_measured: int
    unresolved_series: int


class RecentLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource of a node at regular points of the recent past; the last is now.

    Each ratio is the mean over the shortest window that ends there, None where it is unknown.
    """

    node: str
    resource: Resource
    step_seconds: int
    ratios: tuple[float | None, ...]


class NodeDeviceLoad(msgspec.Struct, frozen=True, gc=False):
    """The mean load of the devices of a node over a window; None if unknown, with the reason."""

    node: str
    resource: Resource
    ratio: float | None
    window_seconds: int = 0
    detail: str = ""


class CycleReport(msgspec.Struct, frozen=True, kw_only=True):
    """One pass through observe, plan, confirm, evict and report.

    `policy` is the file that was in force. `settled` are the earlier evictions whose result became
    known in this cycle. `state` is the start of the next cycle. `taints` are the soft taints that
    were set and removed. `not_acting` is the reason why no eviction is allowed now.
    `other_deschedulers` names them by product and namespace, without those that the policy
    acknowledges. `recent_loads` covers the last hour, in a service the time by which the policy
    judges how long load lasts; nodes without any data have none. `device_loads` has the nodes with
    devices that a plugin measures. `too_large` has the objects that are too large to be kept, by
    namespace. `unmet` is what the policy asks of plugins that this
    cluster cannot give. `facts` is what each plugin has observed beside load, by its name.
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
    observed: ObservedCounts
    plan: Plan
    outcomes: tuple[Outcome, ...] = ()
    not_acting: NotActing | None = None
    not_acting_detail: str = ""
    taints: tuple[TaintChange, ...] = ()
    settled: tuple[EvictionRecord, ...] = ()
    state: State = State()
    other_deschedulers: tuple[str, ...] = ()
    acknowledged_deschedulers: tuple[str, ...] = ()
    recent_loads: tuple[RecentLoad, ...] = ()
    device_loads: tuple[NodeDeviceLoad, ...] = ()
    too_large: Mapping[str, LargeObjects] = {}
    unmet: tuple[str, ...] = ()
    facts: Mapping[str, Facts] = {}
