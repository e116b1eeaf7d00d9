"""The arguments of the plugin LoadAware: Volcano's keys, and desched's own."""

from typing import Annotated

from pydantic import Field

from desched.policy.compatibility import (
    EXTENDED,
    CacheAffinity,
    Compatibility,
    GangMode,
    GpuPods,
    Queues,
    VolcanoJobs,
)
from desched.policy.policy import MOST_STEERED_NODES, OtherDescheduler
from desched.policy_file.document.limits import (
    ActingWindowSection,
    CountOrShare,
    EvictionLimitsSection,
    FollowUpSection,
)
from desched.policy_file.document.metrics import Metrics
from desched.policy_file.document.placement_domains import LabelKey, PlacementDomainsSection
from desched.policy_file.document.scheduler import SchedulerSection, SteeringWord
from desched.policy_file.document.thresholds import (
    DestinationWindows,
    NodePoolSection,
    ResourcePercentages,
    Windows,
)
from desched.policy_file.document.values import (
    Count,
    LabelSelectorSection,
    NamespaceName,
    OwnerKind,
    Percent,
    PluginArgs,
    PriorityThresholdSection,
    Ratio,
    Seconds,
    Section,
    SelectorText,
    optional,
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
    gpu_pods: GpuPods | None = optional(EXTENDED.gpu_pods.value, example="Allow")
    """`Protect`: pods that request a GPU stay, and pods without one leave their nodes instead.
    `Allow`: they move as others do. Where GpuFragmentation drains a node, they move in both
    cases."""
    placement_domains: PlacementDomainsSection | None = optional(example={"mode": "Prefer"})
    """Which labels of nodes name domains, such as racks, that pods stay in."""
    balance_scope: LabelKey | None = optional(example="cloud.google.com/gke-placement-group")
    """A label of nodes, or `topology.volcano.sh/tier-1` for the HyperNodes of tier 1. Load is then
    compared, and pods move, only between nodes with the same value; if the label is one of the
    `levels` of `placementDomains`, also of all wider levels. Nodes without a value are left out."""
    cache_affinity: CacheAffinity | None = optional(EXTENDED.cache_affinity.value, example="Prefer")
    """`Require`: a pod with a model or dataset in a cache of its node moves only to nodes that hold
    it, too. `Prefer`: it moves elsewhere if it cannot move to one of these, as the last choice.
    `Ignore`: caches do not count."""
    gang_mode: GangMode | None = optional(GangMode.SURPLUS.value, example="Whole")
    """`Surplus`: of a gang only the pods move that it does not need. `Whole`: if nothing else
    relieves a node, a gang may also move with all its pods at once, and then loses its work since
    the last checkpoint. `evictionLimits` must have room for all of them, `workloadHourly` included;
    only `workload`, `inFlight.workload` and the number of replicas that must stay do not hold
    it."""
    volcano_jobs: VolcanoJobs | None = optional(VolcanoJobs.STAY.value, example="Surplus")
    """`Surplus`: pods of Volcano Jobs move that neither `minAvailable` of the job nor that of their
    task needs, if no policy of the job acts on an eviction. It requires the rights to read Volcano
    Jobs and PodGroups. `Stay`: they never move."""
    queues: Queues | None = optional(Queues.RESPECT.value, example="Ignore")
    """`Respect`: a pod whose replacement waits in a queue of Kueue or Volcano again stays while
    something else waits there, or while that is not known. It requires the rights to read queues;
    without them such pods move. `Ignore`: queues do not count."""
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
