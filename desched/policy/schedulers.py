"""The schedulers of a cluster as planning reads them: how they score nodes.

All of them are part of the core: a second kube-scheduler, whose landings are forecast without any
plugin, is named by the same key as one of Volcano or KAI.
"""

from collections.abc import Container, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from desched.model.cluster import DEFAULT_SCHEDULER, SpreadConstraint
from desched.model.volcano_scheduler import VolcanoConfiguration


class ScoringStrategy(StrEnum):
    """What kube-scheduler's NodeResourcesFit prefers: free nodes, or full ones."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"


class ScoreWeights(Struct, frozen=True):
    """How much each score plugin of kube-scheduler counts; the defaults are its own."""

    taint_toleration: int = 3
    node_affinity: int = 2
    pod_topology_spread: int = 2
    inter_pod_affinity: int = 2
    node_resources_fit: int = 1
    node_resources_balanced_allocation: int = 1
    image_locality: int = 1


class SchedulerProfile(StrEnum):
    """How another scheduler scores nodes."""

    KUBE_SCHEDULER = "KubeScheduler"
    VOLCANO = "Volcano"
    KAI = "KAI"


VOLCANO_ARGUMENTS: Mapping[str, str] = {
    "leastrequested.weight": "least_requested",
    "mostrequested.weight": "most_requested",
    "nodeaffinity.weight": "node_affinity",
    "podaffinity.weight": "pod_affinity",
    "balancedresource.weight": "balanced_resource",
    "tainttoleration.weight": "taint_toleration",
    "imagelocality.weight": "image_locality",
    "podtopologyspread.weight": "pod_topology_spread",
    "binpack.weight": "binpack",
    "binpack.cpu": "binpack_cpu",
    "binpack.memory": "binpack_memory",
}
"""Arguments of nodeorder and binpack in volcano-scheduler.conf, and the weights that they set."""


NETWORK_TOPOLOGY_AWARE = "network-topology-aware"
"""The plugin by which Volcano keeps hard topologies."""


class VolcanoWeights(Struct, frozen=True):
    """Weights of Volcano's plugins nodeorder and binpack; the defaults are those of its chart.

    Sources: volcano pkg/scheduler/plugins/nodeorder/nodeorder.go (`calculateWeight`),
    pkg/scheduler/plugins/binpack/binpack.go (`calculateWeight`), and
    installer/helm/chart/volcano/config/volcano-scheduler.conf, which adds binpack.
    """

    least_requested: int = 1
    most_requested: int = 0
    node_affinity: int = 2
    pod_affinity: int = 2
    balanced_resource: int = 1
    taint_toleration: int = 3
    image_locality: int = 1
    pod_topology_spread: int = 2
    binpack: int = 1
    binpack_cpu: int = 1
    binpack_memory: int = 1

    @classmethod
    def of(cls, arguments: Mapping[str, int]) -> "VolcanoWeights":
        """The weights that these arguments set; the others are as in the chart."""
        return cls(**{VOLCANO_ARGUMENTS[key]: weight for key, weight in arguments.items()})

    @property
    def arguments(self) -> Mapping[str, int]:
        """The weights by the arguments that set them."""
        return {key: getattr(self, name) for key, name in VOLCANO_ARGUMENTS.items()}


class OtherScheduler(Struct, frozen=True):
    """How a scheduler beside the default one scores nodes, as far as that is known.

    `strategy`, `weights` and `default_spread`, as in `SchedulerRules`, are a KubeScheduler's, and
    `volcano` are a Volcano's, which may give a node `further_points` by other plugins. With
    `packs_others`, its binpack counts more than CPU and memory. `config_map` has its configuration,
    by namespace and name: what it says replaces all `volcano` but the weights that the policy has
    `written`. `unclear` is why that is not known, so that nothing is known of its scores;
    `differing` is where the policy contradicts it. `network_topology_aware` is whether its plugin
    of that name is on, by which it keeps hard topologies.
    """

    profile: SchedulerProfile
    strategy: ScoringStrategy = ScoringStrategy.LEAST_ALLOCATED
    weights: ScoreWeights = ScoreWeights()
    volcano: VolcanoWeights = VolcanoWeights()
    further_points: int = 0
    network_topology_aware: bool = False
    packs_others: bool = False
    config_map: str = ""
    written: Mapping[str, int] = {}
    unclear: str = ""
    differing: str = ""
    default_spread: tuple[SpreadConstraint, ...] | None = None

    def by(self, configurations: Mapping[str, VolcanoConfiguration]) -> "OtherScheduler":
        """Return a copy with what its configuration says, of those that were read."""
        if not self.config_map:
            return self
        of = f"ConfigMap {self.config_map}"
        configuration = configurations.get(
            self.config_map, VolcanoConfiguration(unclear="it was not read")
        )
        further = configuration.further
        unclear = configuration.unclear
        if further and not self.further_points:
            unclear = f"it has {', '.join(further)}, and the policy has no furtherPoints for that"
        if unclear:
            return replace(self, unclear=f"{of}: {unclear}", network_topology_aware=False)
        weights = {**configuration.weights, **self.written}
        differing = [
            f"{argument} is {weight} in the policy and {configuration.weights[argument]} in {of}"
            for argument, weight in self.written.items()
            if weight != configuration.weights[argument]
        ]
        is_aware = NETWORK_TOPOLOGY_AWARE in further
        if self.network_topology_aware and not is_aware:
            plugin = f"the plugin {NETWORK_TOPOLOGY_AWARE} is not in {of}"
            differing.append(f"networkTopologyAware is true in the policy and {plugin}")
        return replace(
            self,
            network_topology_aware=self.network_topology_aware and is_aware,
            volcano=VolcanoWeights.of(weights),
            packs_others=configuration.packs_others,
            differing=", ".join(differing),
        )

    def knowing(self, profiles: Container[SchedulerProfile]) -> "OtherScheduler":
        """The same, if scores of its profile are known: kube-scheduler's, or one of these."""
        if self.profile is SchedulerProfile.KUBE_SCHEDULER or self.profile in profiles:
            return self
        why = f"no plugin knows the scores of {self.profile.value}"
        return replace(self, unclear=why, network_topology_aware=False)

    @property
    def honours_soft_taints(self) -> bool:
        """Whether it prefers nodes without the taint; KAI's scheduler only filters by taints."""
        if self.profile is SchedulerProfile.VOLCANO:
            return self.volcano.taint_toleration > 0
        return self.profile is SchedulerProfile.KUBE_SCHEDULER and self.weights.taint_toleration > 0


class SchedulerRules(Struct, frozen=True):
    """How the cluster's schedulers are configured, as far as landings depend on it.

    `others` has those that are known beside the default one, by the name that pods give.
    `default_spread` has the constraints of pods without any, each with no selector; None stands for
    those of the system.
    """

    strategy: ScoringStrategy = ScoringStrategy.LEAST_ALLOCATED
    weights: ScoreWeights = ScoreWeights()
    others: Mapping[str, OtherScheduler] = {}
    default_spread: tuple[SpreadConstraint, ...] | None = None

    @property
    def volcano_configurations(self) -> tuple[str, ...]:
        """The ConfigMaps that have the configurations of Volcano schedulers."""
        places = (other.config_map for other in self.others.values())
        return tuple(sorted({place for place in places if place}))

    def by(self, configurations: Mapping[str, VolcanoConfiguration]) -> "SchedulerRules":
        """Return a copy with what these configurations say."""
        others = {name: other.by(configurations) for name, other in self.others.items()}
        return replace(self, others=others)

    def knowing(self, profiles: Container[SchedulerProfile]) -> "SchedulerRules":
        """Return a copy with only these profiles beside kube-scheduler's."""
        others = {name: other.knowing(profiles) for name, other in self.others.items()}
        return replace(self, others=others)

    def default_spread_of(self, name: str) -> tuple[SpreadConstraint, ...] | None:
        """The default constraints of a scheduler; None stands for those of the system."""
        if name == DEFAULT_SCHEDULER:
            return self.default_spread
        other = self.known(name)
        return None if other is None else other.default_spread

    def known(self, name: str) -> OtherScheduler | None:
        """The scheduler beside the default one, if something is known of its scores."""
        other = self.others.get(name)
        return None if other is None or other.unclear else other

    def unclear(self, name: str) -> str:
        """Why nothing is known of its scores though the policy names it; empty otherwise."""
        return self.others[name].unclear if name in self.others else ""
