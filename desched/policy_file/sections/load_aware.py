"""The arguments of the plugin LoadAware: Volcano's keys, and desched's own."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from pydantic import Field, create_model

from desched.model.resources import Resource
from desched.plugins import HOUSE
from desched.policy.compatibility import (
    EXTENDED,
    Compatibility,
    Defaults,
    SteeringMode,
    defaults_of,
)
from desched.policy.durations import duration_text
from desched.policy.eviction_price import MOST_PRICE_MINUTES
from desched.policy.policy import (
    MOST_STEERED_NODES,
    OtherDescheduler,
    Policy,
    ResourceRule,
)
from desched.policy_file.sections.acting_window import ActingWindowSection
from desched.policy_file.sections.follow_up import FollowUpSection
from desched.policy_file.sections.limits import EvictionLimitsSection
from desched.policy_file.sections.metrics import Metrics, averaged_seconds
from desched.policy_file.sections.pools import NodePoolSection
from desched.policy_file.sections.scheduler import SchedulerSection, SteeringWord
from desched.policy_file.sections.thresholds import Lines, ResourcePercentages, rules_between
from desched.policy_file.sections.windows import DestinationWindows, Windows
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import PluginArgs, Section, given, optional, written
from desched.policy_keys.values import (
    Count,
    CountOrShare,
    LabelKey,
    LabelSelectorSection,
    NamespaceName,
    OwnerKind,
    Percent,
    PriorityThresholdSection,
    Ratio,
    Seconds,
    SelectorText,
)

DEFAULT_WINDOW_SECONDS = 300
"""Five samples where Prometheus scrapes once a minute, as its community chart does."""


class EvictableNamespaces(Section):
    """Whose pods may move: those of some namespaces, or of all but some."""

    include: tuple[NamespaceName, ...] | None = None
    """Only pods of these namespaces may move; instead of `exclude`."""
    exclude: tuple[NamespaceName, ...] | None = None
    """Pods of these namespaces stay."""


class LoadAwareArgs(PluginArgs):
    """When a node is overloaded, and which of its pods may move."""

    compatibility: Compatibility | None = optional(Compatibility.EXTENDED, example="Strict")
    """`Strict` turns off the defaults that other deschedulers lack, for comparisons with them; see
    below."""
    use_deviation_thresholds: bool | None = optional(default=False)
    """Read both thresholds as distances in percentage points below and above the mean load of all
    nodes."""
    thresholds: ResourcePercentages
    """Load in percent below which, in every resource, a node counts as underloaded."""
    target_thresholds: ResourcePercentages
    """Load in percent above which, in any resource, a node is overloaded. The same resources as in
    `thresholds`."""
    number_of_nodes: Count | None = optional(0)
    """Evict only while more nodes than this are underloaded; 0: always."""
    node_selector: SelectorText | None = None
    """Label selector of the nodes that are looked at, as sources and destinations."""
    evict_local_storage_pods: bool | None = optional(default=False)
    """Whether pods with an emptyDir on disk may move; those with a hostPath move only if an
    annotation requests it. If DefaultEvictor has the same key, the more protective value
    applies."""
    evict_system_critical_pods: bool | None = optional(default=False)
    """Whether pods of system-critical priority may move; `priorityThreshold` still applies."""
    ignore_pvc_pods: bool | None = optional(default=False)
    """Whether pods with a PersistentVolumeClaim stay."""
    evict_failed_bare_pods: bool | None = optional(default=False)
    """Accepted; a failed pod makes no load that a move could relieve."""
    label_selector: LabelSelectorSection | None = None
    """Only pods with these labels may move."""
    priority_threshold: PriorityThresholdSection | None = optional(example={"name": "high"})
    """Pods of this priority and above stay; the lower one of both plugins applies."""
    node_fit: bool | None = None
    """Accepted; whether a pod fits elsewhere is always checked."""
    evictable_namespaces: EvictableNamespaces | None = None
    """Whose pods may move. Default: those of all namespaces but kube-system, kube-public,
    kube-node-lease and desched-system, which only `include` lets go."""
    evict_single_replica: bool | None = optional(not EXTENDED.single_replicas, example=True)
    """Whether the only replica of a workload may move. The workload is then unavailable until the
    replacement is Ready."""
    balance_scope: LabelKey | None = optional(example="cloud.google.com/gke-placement-group")
    """A label of nodes, or `topology.volcano.sh/tier-1` for the HyperNodes of tier 1. Load is then
    compared, and pods move, only between nodes with the same value; if the label is one of the
    `levels` of `placementDomains`, also of all wider levels. Nodes without a value are left out."""
    max_grace_period: Seconds | None = optional(
        seconds=EXTENDED.max_grace_period_seconds, example="30m"
    )
    """Pods with a longer `terminationGracePeriodSeconds` stay."""
    understood_owner_kinds: tuple[OwnerKind, ...] | None = optional(example=["argoproj.io/Rollout"])
    """Further kinds of controllers, as group and kind, that replace an evicted pod with a new one
    elsewhere. Their pods move only within a PodDisruptionBudget, and if desched may list them."""
    metrics: Metrics
    """Where load comes from."""
    duration: Seconds | None = optional(seconds=DEFAULT_WINDOW_SECONDS)
    """One window for each resource, unless `windows` sets others."""
    windows: Windows | None = optional(example={"cpu": ["5m", "15m"]})
    """The times over which load is measured, by resource."""
    eviction_price: Seconds | None = optional(
        seconds=round(60 * EXTENDED.eviction_price_minutes), example="10m"
    )
    """How many minutes of expected overload the move of an ordinary pod must save in the next hour,
    on its node less what it costs where the pod may land. A minute far above the target counts for
    more, and so does the move of an important pod. With a higher price fewer pods move, and more
    overload stays; `0s` moves whatever helps at all."""
    sustained_for: Seconds | None = optional(example="30m")
    """Accepted; it has no effect any more. `evictionPrice` is in its place."""
    sustained_for_at_least: Seconds | None = optional(example="2m")
    """Accepted; it has no effect any more. `evictionPrice` is in its place."""
    destination_windows: DestinationWindows | None = optional(
        example={"cpu": [{"window": "1h", "statistic": "p95"}]}
    )
    """Longer times by which destinations are judged as well, such as the 95th percentile of an hour
    for hourly batch jobs. They cost queries over that time, unless a recording rule provides the
    values (`metrics.queries`)."""
    node_pools: tuple[NodePoolSection, ...] | None = optional(
        example=[{"name": "batch", "nodeSelector": "pool=batch", "targetThresholds": {"cpu": 90}}]
    )
    """Groups of nodes with thresholds of their own. A node belongs to the first pool that matches
    it; a node that matches none has the thresholds above."""
    deviation_floor: Percent | None = optional(EXTENDED.deviation_floor, example=40)
    """With `useDeviationThresholds`: no node whose load is below this percentage is overloaded,
    however idle the others are."""
    eviction_limits: EvictionLimitsSection | None = optional(
        example={"total": "2%", "workload": "10%", "inFlight": {"total": 10}}
    )
    """The most evictions of one cycle, at a time, and by the minute."""
    maintenance_windows: Annotated[tuple[ActingWindowSection, ...], Field(min_length=1)] | None = (
        optional(example=[{"start": "0 22 * * *", "duration": "6h", "timeZone": "Europe/Berlin"}])
    )
    """Pods are evicted only while one of these windows is open. Default: at any time."""
    blackout_windows: tuple[ActingWindowSection, ...] | None = optional(
        example=[{"start": "0 8 24 12 *", "duration": "72h"}]
    )
    """No pod is evicted while one of these windows is open, not even in a maintenance window."""
    follow_up: FollowUpSection | None = optional(
        example={"patience": "20m", "coolDown": {"first": "30m"}}
    )
    """What happens after evictions: how long replacements may take, and what is left alone for a
    while after failures."""
    stop_margin: Percent | None = optional(EXTENDED.stop_margin, example=4)
    """Percentage points under the target at which a node counts as relieved. The default is half of
    the target where that is less."""
    ceiling_margin: Percent | None = optional(EXTENDED.ceiling_margin, example=15)
    """A pod moves only if another node stays so many percentage points under its target; at least
    `stopMargin`. The default is the target where that is less."""
    max_landing_risk: Ratio | None = optional(EXTENDED.max_landing_risk, example=0.3)
    """The highest accepted probability, from 0 to 1, that a pod's replacement lands badly: on the
    same node, on one that it would overload, or on one whose load is not known. Above it the pod
    stays."""
    scheduler: SchedulerSection | None = optional(example={"strategy": "MostAllocated"})
    """How kube-scheduler is configured here, for the forecast of landings."""
    steering: SteeringWord | None = optional(EXTENDED.steering.value, example="Off")
    """When nodes get the soft taint `desched.io/overloaded` (PreferNoSchedule), which the scheduler
    avoids while another node fits. `WhenNeeded`: the fewest nodes that keep a replacement from
    landing badly, until its landing is known. `Always`: also each overloaded node. Without the
    right to patch nodes, desched plans as with `Off`."""
    relieve_staying_excess: bool | None = optional(EXTENDED.relieve_staying_excess, example=True)
    """Whether pods leave a node for the load of others that opt out of moves, as far as that is
    above the requests of these. By default only the rest of the load counts, so that a pod that
    opts out does not drive its neighbours away."""
    chained_moves: bool | None = optional(example=False)
    """Accepted; it has no effect any more."""
    steering_max_nodes: CountOrShare | None = optional(
        f"{MOST_STEERED_NODES.ratio:.0%}", example="10%"
    )
    """The most nodes that have that taint at a time, also as a percentage of the nodes that are
    looked at, rounded down, and never less than one."""
    acknowledged_deschedulers: tuple[OtherDescheduler, ...] | None = optional(
        example=["kubernetes-sigs"]
    )
    """Other deschedulers that run in this cluster on purpose, for example for nodes of their own.
    The warnings and the alert about them fall silent."""

    @property
    def lines(self) -> Lines:
        """What makes a node overloaded that is in no pool."""
        usual = DEFAULT_WINDOW_SECONDS + averaged_seconds(self.metrics)
        return Lines(
            self.thresholds,
            self.target_thresholds,
            self.stop_margin,
            self.ceiling_margin,
            is_deviation=bool(self.use_deviation_thresholds),
            windows=self.windows,
            usual_window_seconds=usual if self.duration is None else self.duration,
            destination_windows=self.destination_windows,
            defaults=self.defaults,
        )

    @property
    def defaults(self) -> Defaults:
        """The defaults, replaced by the values of these keys; margins and limits excepted."""
        evicts = self.evict_single_replica
        price = self.eviction_price
        given = written(
            eviction_price_minutes=None if price is None else price / 60,
            deviation_floor=self.deviation_floor,
            max_landing_risk=self.max_landing_risk,
            max_grace_period_seconds=self.max_grace_period,
            steering=self.steering and SteeringMode(self.steering),
            relieve_staying_excess=self.relieve_staying_excess,
            single_replicas=None if evicts is None else not evicts,
        )
        return msgspec.structs.replace(defaults_of(self.compatibility), **given)


if not TYPE_CHECKING:  # only the list of plugins says which further keys there are
    _of_plugins = (plugin.keys for plugin in HOUSE if plugin.keys is not None)
    _bases = (*reversed(tuple(_of_plugins)), LoadAwareArgs)  # the keys of the last come first
    LoadAwareArgs = create_model("LoadAwareArgs", __base__=_bases, __doc__=LoadAwareArgs.__doc__)


_LASTING = (
    "desched forecasts how long an overload lasts, and evictionPrice says how many minutes of it a "
    "move must save."
)
_FORMER = {
    "sustainedFor": _LASTING,
    "sustainedForAtLeast": _LASTING,
    "chainedMoves": "each move relieves its own node.",
}
"""What replaces the keys of earlier versions."""

_INERT_ELSEWHERE = {
    "evictLocalStoragePods",
    "evictSystemCriticalPods",
    "ignorePvcPods",
    "labelSelector",
    "priorityThreshold",
}
"""Keys that Volcano's LoadAware accepts and never reads."""


def resource_rules(args: LoadAwareArgs, notes: Notes) -> tuple[ResourceRule, ...]:
    """The rules in the order of relief; what is wrong with them is noted."""
    rules = rules_between(args.lines, notes)
    watched = {rule.resource.value for rule in rules}
    windows = {"windows": args.windows, "destinationWindows": args.destination_windows}
    for key, section in windows.items():
        for name, _, value in given(section):
            if value and name not in watched:
                text = f"has no effect, because targetThresholds has no {name}."
                notes.warn(text, key, name)
    if Resource.PODS in watched:
        text = "is read as a percentage of the node's allocatable pods, not as a number of pods."
        notes.warn(text, "targetThresholds", "pods")
    return rules


def check_load_aware(args: LoadAwareArgs, policy: Policy, notes: Notes) -> None:
    """Note what is wrong with keys of LoadAware itself, or worth knowing of them."""
    _check_price(policy, notes)
    _warn_of_other_meanings(args, notes)


def _check_price(policy: Policy, notes: Notes) -> None:
    if policy.eviction_price_minutes > MOST_PRICE_MINUTES:
        notes.refuse(
            f'found "{duration_text(round(60 * policy.eviction_price_minutes))}", allowed is at '
            f'most "{MOST_PRICE_MINUTES}m": more overload is hardly ever expected of an hour.',
            "evictionPrice",
        )


def _warn_of_other_meanings(args: LoadAwareArgs, notes: Notes) -> None:
    """Where the same file would act differently under another descheduler, or not at all."""
    if args.compatibility is Compatibility.STRICT:
        notes.warn(
            "is Strict: what is not written has no default that other deschedulers lack, so that "
            "more pods move, sooner, and less surely for the better; docs/policy-reference.md has "
            "the list.",
            "compatibility",
        )
    if args.deviation_floor is not None and not args.use_deviation_thresholds:
        notes.warn("has no effect, because useDeviationThresholds is not set.", "deviationFloor")
    for key, _, _ in given(args):
        if key in _FORMER:
            notes.warn(f"has no effect any more; {_FORMER[key]}", key)
        elif key in _INERT_ELSEWHERE:
            notes.warn("has no effect in Volcano's LoadAware; here it has one.", key)
    if args.node_selector is not None and args.node_selector.requirements:
        here = "here it selects the nodes that are looked at, as sources and destinations."
        notes.warn(f"limits only destinations in Volcano's LoadAware; {here}", "nodeSelector")
