"""A plan as a value: the evictions, and the reasons for everything else."""

from abc import ABC
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import msgspec

from desched.model.cluster import PodRef
from desched.model.extras import PluginPlan
from desched.model.landing import LandingChance, expected_on
from desched.model.load import UnknownReason
from desched.model.resources import Resource


class NodeClass(StrEnum):
    """The class of a node by its load."""

    OVERLOADED = "overloaded"
    BALANCED = "balanced"
    UNDERLOADED = "underloaded"
    UNKNOWN = "unknown"
    OUT_OF_SCOPE = "out_of_scope"


class NodeReason(StrEnum):
    """Why a node is out of scope, is not overloaded although it seems so, or is not relieved."""

    NOT_SELECTED = "not_selected"
    NOT_READY = "not_ready"
    NOT_LINUX = "not_linux"
    VIRTUAL = "virtual"
    TOO_YOUNG = "too_young"
    BEING_REMOVED = "being_removed"
    CORDONED = "cordoned"
    UNDER_PRESSURE = "under_pressure"
    WITHOUT_DOMAIN = "without_domain"
    DEPARTED_LOAD = "departed_load"
    SETTLING = "settling"
    LOAD_NOT_SHOWN = "load_not_shown"
    OVERLOAD_PASSES = "overload_passes"
    RECURRING_OVERLOAD = "recurring_overload"
    POOL_SATURATED = "pool_saturated"
    STAYING_EXCESS = "staying_excess"
    DESTINATION_UNKNOWN = "destination_unknown"
    EXCESS_NOT_MOVABLE = "excess_not_movable"
    COOLING_DOWN = "cooling_down"
    POOL_PAUSED = "pool_paused"


if TYPE_CHECKING:
    from desched.model.state import State

    VerdictReason = NodeReason | UnknownReason
else:  # msgspec decodes no union of enums, so `verdict_reason` decodes this

    class VerdictReason(ABC):  # noqa: B024  (it only stands for the two)
        """Why a node is out of scope, not relieved or unknown."""

    VerdictReason.register(NodeReason)
    VerdictReason.register(UnknownReason)


def verdict_reason(code: str) -> VerdictReason:
    """The reason with this code.

    Raises:
        ValueError: there is none.
    """
    return NodeReason(code) if code in set(NodeReason) else UnknownReason(code)


class HoldReason(StrEnum):
    """Why a whole cycle evicts nothing although nodes may be overloaded."""

    CLUSTER_IN_TROUBLE = "cluster_in_trouble"
    TOO_MANY_UNKNOWN_NODES = "too_many_unknown_nodes"
    PARTIAL_DATA = "partial_data"
    SEVERAL_CLUSTERS = "several_clusters"
    CLUSTER_SATURATED = "cluster_saturated"
    TOO_FEW_UNDERLOADED_NODES = "too_few_underloaded_nodes"
    NO_NODE_IN_SCOPE = "no_node_in_scope"
    JUST_STARTED = "just_started"
    CLOCKS_DIFFER = "clocks_differ"
    PLANNING_TOO_SLOW = "planning_too_slow"


class RefusalReason(StrEnum):
    """Why a pod on an overloaded node is not evicted."""

    # Never, whatever the policy says.
    MIRROR_POD = "mirror_pod"
    STATIC_POD = "static_pod"
    DAEMONSET_POD = "daemonset_pod"
    DESCHED_ITSELF = "desched_itself"
    TERMINATING = "terminating"
    NOT_RUNNING = "not_running"
    NOT_READY = "not_ready"
    BARE_POD = "bare_pod"
    OWNER_NOT_UNDERSTOOD = "owner_not_understood"
    OBJECTS_TOO_LARGE = "objects_too_large"
    OPTED_OUT = "opted_out"
    # By policy.
    SYSTEM_CRITICAL = "system_critical"
    PRIORITY_THRESHOLD = "priority_threshold"
    SYSTEM_NAMESPACE = "system_namespace"
    NAMESPACE_EXCLUDED = "namespace_excluded"
    NAMESPACE_NOT_SELECTED = "namespace_not_selected"
    LABELS_NOT_SELECTED = "labels_not_selected"
    DEVICES_SUMMED = "devices_summed"
    GPU_POD = "gpu_pod"
    PVC_POD = "pvc_pod"
    NODE_NAMED = "node_named"
    NODE_BOUND_VOLUME = "node_bound_volume"
    SHARED_CLAIM = "shared_claim"
    LOCAL_STORAGE = "local_storage"
    HOST_PATH = "host_path"
    RESOURCE_CLAIMS = "resource_claims"
    NETWORKS_UNKNOWN = "networks_unknown"
    POD_GROUP = "pod_group"
    NOT_MIGRATABLE = "not_migratable"
    WITHOUT_BUDGET = "without_budget"
    SINGLE_REPLICA = "single_replica"
    TOO_FEW_REPLICAS = "too_few_replicas"
    JOB_COUNTS_EVICTION = "job_counts_eviction"
    LONG_GRACE_PERIOD = "long_grace_period"
    TOO_YOUNG = "too_young"
    PREFERS_NO_EVICTION = "prefers_no_eviction"
    PLUGIN_RULE = "plugin_rule"
    PLUGIN_FAILED = "plugin_failed"
    # For now.
    ROLLOUT_UNDER_WAY = "rollout_under_way"
    SCALING_UNDER_WAY = "scaling_under_way"
    AUTOSCALER_AT_MAXIMUM = "autoscaler_at_maximum"
    RESIZE_UNDER_WAY = "resize_under_way"
    MIGRATION_UNDER_WAY = "migration_under_way"
    REQUESTS_UNKNOWN = "requests_unknown"
    QUEUE_BUSY = "queue_busy"
    QUEUE_UNKNOWN = "queue_unknown"
    REPLICAS_NOT_READY = "replicas_not_ready"
    BUDGET_EXHAUSTED = "budget_exhausted"
    BUDGET_NOT_CURRENT = "budget_not_current"
    SEVERAL_BUDGETS = "several_budgets"
    PAUSED = "paused"
    IN_FLIGHT = "in_flight"
    COOLING_DOWN = "cooling_down"
    MOVED_RECENTLY = "moved_recently"
    USAGE_UNKNOWN = "usage_unknown"
    # The move is not possible, not useful, or not needed.
    CONSTRAINT_NOT_EVALUATED = "constraint_not_evaluated"
    PLANNING_SHARE_USED = "planning_share_used"
    NO_NODE_FITS = "no_node_fits"
    PLACEMENT_DOMAIN = "placement_domain"
    MODEL_CACHE = "model_cache"
    PLUGIN_LIMIT = "plugin_limit"
    NO_NODE_UNDER_CEILING = "no_node_under_ceiling"
    LANDING_RISK = "landing_risk"
    ROOM_AWAITED = "room_awaited"
    NO_RELIEF = "no_relief"
    NOT_NEEDED = "not_needed"
    NODE_SETTLING = "node_settling"
    LOAD_NOT_SHOWN = "load_not_shown"
    OVERLOAD_PASSES = "overload_passes"
    POOL_SATURATED = "pool_saturated"
    STAYING_EXCESS = "staying_excess"
    NODE_COOLING_DOWN = "node_cooling_down"
    POOL_PAUSED = "pool_paused"
    PROBE_FIRST = "probe_first"
    LIMIT_TOTAL = "limit_total"
    LIMIT_NODE = "limit_node"
    LIMIT_NAMESPACE = "limit_namespace"
    LIMIT_WORKLOAD = "limit_workload"
    LIMIT_HOURLY = "limit_hourly"
    LIMIT_IN_FLIGHT = "limit_in_flight"
    LIMIT_MIGRATIONS = "limit_migrations"
    CYCLE_HELD = "cycle_held"
    CONFIRMATION_FAILED = "confirmation_failed"
    LOAD_TOO_OLD = "load_too_old"


Reason = TypeVar("Reason", bound=StrEnum)


class Finding(msgspec.Struct, Generic[Reason], frozen=True, gc=False):
    """A reason with the details of this case."""

    reason: Reason
    detail: str = ""


class ResourcePressure(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource of one node, with its thresholds; ratios are shares of capacity.

    A node is underloaded below `low_ratio` in every resource, and overloaded above `target_ratio`.
    It counts as relieved at `stop_ratio`; no destination is filled above `ceiling_ratio`.
    `lowest_ratio` and `highest_ratio` are those of the lowest and the highest window, corrected for
    changes that the windows do not show yet. The lowest judges a source, the highest a destination.
    `measured` has the uncorrected levels as (window in seconds, ratio), shortest window first, and
    `departed_ratio` is the part of the first one that pods used that ended, left or are leaving.
    `after_ratio` is the highest ratio after the plan by the forecast: without the pods that leave,
    and with each replacement by the probability that it lands here. `recurring` is true if the node
    is relieved although it is not overloaded now, because it was again and again.
    """

    resource: Resource
    measured: tuple[tuple[int, float], ...]
    lowest_ratio: float
    highest_ratio: float
    low_ratio: float
    target_ratio: float
    stop_ratio: float
    ceiling_ratio: float
    overloaded: bool = False
    after_ratio: float | None = None
    departed_ratio: float = 0.0
    recurring: bool = False

    @property
    def hot(self) -> bool:
        """Whether its node is relieved because of it."""
        return self.overloaded or self.recurring


class UnjudgedLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource of a node that is not judged, as far as there is any.

    `measured` has (window in seconds, ratio), `age_seconds` is the age of the newest sample.
    """

    resource: Resource
    measured: tuple[tuple[int, float], ...]
    age_seconds: float | None = None


class NodeOutlook(msgspec.Struct, frozen=True, gc=False):
    """The overload of a node in the next hour by its forecast, all in minutes.

    `above_before` is for how long it would have been above a target in the last hour with the pods
    that are on it now, `above_expected` for how long it is expected to be in the next. `overload`
    counts a minute for more the further it is above; `overload_after` is that after the plan.
    """

    above_before: float
    above_expected: float
    overload: float
    overload_after: float | None = None

    @property
    def in_words(self) -> str:
        """The minutes above a target, before and expected."""
        return (
            f"above a target for {self.above_before:.0f} of the last 60 minutes, and is expected "
            f"to be for {self.above_expected:.0f} of the next 60"
        )


class NodeVerdict(msgspec.Struct, frozen=True, gc=False):
    """The class of a node and its numbers; `pool` is empty outside every pool.

    A node that is unknown or out of scope has `unjudged` loads in place of `pressures`. `until` is
    when the reason ends by itself, as far as that is known.
    """

    node: str
    node_class: NodeClass
    pressures: tuple[ResourcePressure, ...] = ()
    reason: VerdictReason | None = None
    detail: str = ""
    pool: str = ""
    unjudged: tuple[UnjudgedLoad, ...] = ()
    until: datetime | None = None
    outlook: NodeOutlook | None = None

    @property
    def hot(self) -> bool:
        """Whether it may be relieved: it is overloaded now, or was and is expected to be again."""
        return any(pressure.hot for pressure in self.pressures)


class ResourceRelief(msgspec.Struct, frozen=True, gc=False):
    """The relief of a source by a move, as a share of the source's capacity."""

    resource: Resource
    ratio: float


RELIEF = "relief"
"""The purpose of an eviction whose node is overloaded; plugins have others."""


class Undertaking(msgspec.Struct, frozen=True):
    """What a plugin moves several pods for, perhaps over several cycles.

    The rules of the reasons in `waived` keep no pod from moving for it.
    """

    waived: ClassVar[frozenset[RefusalReason]] = frozenset()

    @property
    def awaited_by(self) -> tuple[PodRef, ...]:
        """The pods of which one must still wait for a node; empty if none needs to."""
        return ()

    def why_held(self, node: str) -> str:  # noqa: ARG002  (none is held)
        """Why other pods are kept off the node; empty if they are not."""
        return ""

    def with_move(self, state: "State") -> "State":
        """The state once one more pod is about to leave for it."""
        return state

    def without_move(self, state: "State") -> "State":
        """The state if that pod did not leave."""
        return state


class PlannedEviction(msgspec.Struct, frozen=True, gc=False):
    """A move: which pod leaves which node, why, and where its replacement is expected.

    `destinations` counts the nodes where it fits under the ceiling. `landing` has the likeliest of
    the `landing_nodes` where the replacement may land, likeliest first; `landing_risk` is the
    probability of a harmful landing. `cost` is 1 for the disruption plus bounded surcharges.
    `replicas` is the number that the workload desires. A `probe` is the first move after a pause.
    `steered` names the nodes that must have their soft taint before the eviction; the forecast
    depends on it. `scheduler` is the pod's scheduler if it is not the default one, and
    `scheduler_profile` how the policy describes its scores; without one, all feasible nodes are
    equally likely. `scheduler_note` is why its configuration is not known, or where the policy
    contradicts it. `gang` is the one that moves whole with this eviction, as in
    `gang train/llama (Volcano)`; empty if the pod moves alone. `purpose` is what it is for, and
    `undertaking` has the details if a plugin needs some. `queue` is in which queue the replacement
    waits again, and what could happen there. In a saturated pool `levelled_to` is what the node is
    left with, as a share of its capacity; the destination must not be fuller. `saved_minutes` is
    the expected overload that the node loses, `cost_minutes` what the likely nodes gain.
    """

    pod: PodRef
    node: str
    workload: str
    workload_uid: str
    priority: int
    cpu_millicores: float
    memory_bytes: float
    relief: tuple[ResourceRelief, ...]
    landing: tuple[LandingChance, ...]
    destinations: int
    reason: str
    landing_nodes: int = 1
    landing_risk: float = 0.0
    pool: str = ""
    replicas: int = 0
    grace_period_seconds: int = 0
    probe: bool = False
    cost: float = 1.0
    steered: tuple[str, ...] = ()
    scheduler: str = ""
    scheduler_profile: str = ""
    scheduler_note: str = ""
    gang: str = ""
    devices: float = 0.0
    levelled_to: tuple[ResourceRelief, ...] = ()
    purpose: str = RELIEF
    undertaking: Undertaking | None = None
    queue: str = ""
    saved_minutes: float = 0.0
    cost_minutes: float = 0.0

    @property
    def expected_node(self) -> str:
        """The likeliest node."""
        return self.landing[0].node

    @property
    def likely_nodes(self) -> frozenset[str]:
        """The nodes that the plan names for its replacement."""
        return frozenset(chance.node for chance in self.landing)

    @property
    def expected_on(self) -> str:
        """The likeliest nodes in words."""
        return expected_on(self.landing, self.landing_nodes)

    @property
    def waived(self) -> frozenset[RefusalReason]:
        """The reasons of the rules that do not keep its pod."""
        return self.undertaking.waived if self.undertaking is not None else frozenset()

    @property
    def saving(self) -> str:
        """What overload the move saves and costs, in words; empty if it is for something else."""
        if not self.saved_minutes:
            return ""
        saved = round(self.saved_minutes)
        minutes = "minute" if saved == 1 else "minutes"
        return f"saves {saved} {minutes} of overload and costs {self.cost_minutes:.0f}"

    @property
    def grounds(self) -> str:
        """Why the pod moves, and what that saves."""
        return "; ".join(filter(None, (self.reason, self.saving)))


class PlannedTaint(msgspec.Struct, frozen=True, gc=False):
    """A node that needs a soft taint, new or renewed, so that replacements land elsewhere.

    `until_landed_of` is the pod whose replacement it steers; None if the node is overloaded.
    """

    node: str
    why: str
    until_landed_of: PodRef | None = None


class TaintRemoval(msgspec.Struct, frozen=True, gc=False):
    """A node that loses its soft taint before the first eviction."""

    node: str
    why: str


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A pod on an overloaded node that is not evicted, and the reason."""

    pod: PodRef
    node: str
    reason: RefusalReason
    detail: str = ""


class UnreservedReason(StrEnum):
    """Why no room is reserved for a pending pod: nobody binds it soon, or it is one of many."""

    UNKNOWN_SCHEDULER = "unknown_scheduler"
    RESOURCE_CLAIMS = "resource_claims"
    POD_GROUP = "pod_group"
    NODES_HELD = "nodes_held"
    LONG_PENDING = "long_pending"
    NAMESPACE_SHARE = "namespace_share"
    PLANNING_SHARE = "planning_share"


class Unreserved(msgspec.Struct, frozen=True, gc=False, order=True):
    """The pending pods of a namespace for which no room is reserved, for one reason."""

    namespace: str
    reason: UnreservedReason
    pods: int


class Unsteered(msgspec.Struct, frozen=True, gc=False):
    """How many more pods a plan with soft taints would evict, and from how many nodes."""

    pods: int
    nodes: int


class Plan(msgspec.Struct, frozen=True, gc=False):
    """All decisions of one cycle.

    Each pod on an overloaded node is in `evictions` or in `refusals`. `hold` is the reason why the
    whole cycle evicts nothing. Evictions of one gang are adjacent, and each prefix of `evictions`
    that splits no gang is safe to execute alone. `taints` are in
    the order of need; a node that several moves need occurs for each of them. `removed_taints` are
    removed before the first eviction. `unsteered` is what the missing right to set soft taints
    costs; None if it costs nothing. `extras` are what plugins say, by the name of the plugin.
    """

    nodes: tuple[NodeVerdict, ...]
    evictions: tuple[PlannedEviction, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    hold: HoldReason | None = None
    hold_detail: str = ""
    taints: tuple[PlannedTaint, ...] = ()
    removed_taints: tuple[TaintRemoval, ...] = ()
    unreserved: tuple[Unreserved, ...] = ()
    unsteered: Unsteered | None = None
    extras: Mapping[str, PluginPlan] = {}
