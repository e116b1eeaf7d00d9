"""How schedulers are configured, and whether soft taints may steer what they do."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_pascal

from desched.model.cluster import DEFAULT_SCHEDULER, SpreadConstraint
from desched.policy.compatibility import SteeringMode
from desched.policy.schedulers import (
    VOLCANO_ARGUMENTS,
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
    ScoreWeights,
    ScoringStrategy,
    VolcanoWeights,
)
from desched.policy_file.sections.kube_scheduler_configuration import configured_schedulers
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, given, optional, values_of, written
from desched.policy_keys.values import LabelKey, matching

Weight = Annotated[int, Field(ge=0, le=100)]

SchedulerName = Annotated[
    str,
    matching(
        "^[a-z0-9]([-a-z0-9./]*[a-z0-9])?$",
        'allowed is the name of a scheduler, as pods have it in schedulerName, such as "volcano"',
    ),
]

VolcanoArgument = Annotated[
    str, matching("|".join(VOLCANO_ARGUMENTS), f"allowed are {', '.join(VOLCANO_ARGUMENTS)}")
]

ConfigMapPlace = Annotated[
    str,
    matching(
        "^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        "allowed is the namespace and the name of a ConfigMap, with a slash between them",
    ),
]

_DEFAULTS = SchedulerRules()
_WEIGHTS = _DEFAULTS.weights
_VOLCANO = OtherScheduler(SchedulerProfile.VOLCANO)


def _off_is_a_word(value: object) -> object:
    """YAML reads a bare `Off` as false."""
    return SteeringMode.OFF.value if value is False else value


SteeringWord = Annotated[Literal["Off", "WhenNeeded", "Always"], BeforeValidator(_off_is_a_word)]
"""One of the words of `SteeringMode`."""


class ScoreWeightsSection(Section):
    """Weights of score plugins, by the plugins' names in a KubeSchedulerConfiguration.

    0 stands for a plugin that is disabled there.
    """

    model_config = ConfigDict(alias_generator=to_pascal)

    taint_toleration: Weight | None = optional(_WEIGHTS.taint_toleration, example=5)
    """Soft taints (PreferNoSchedule)."""
    node_affinity: Weight | None = optional(_WEIGHTS.node_affinity, example=1)
    """Preferred node affinity."""
    pod_topology_spread: Weight | None = optional(_WEIGHTS.pod_topology_spread, example=5)
    """Soft spread constraints, the system's defaults among them."""
    inter_pod_affinity: Weight | None = optional(_WEIGHTS.inter_pod_affinity, example=1)
    """Preferred pod affinity and anti-affinity."""
    node_resources_fit: Weight | None = optional(_WEIGHTS.node_resources_fit, example=5)
    """Free or full nodes, see `strategy`."""
    node_resources_balanced_allocation: Weight | None = optional(
        _WEIGHTS.node_resources_balanced_allocation, example=0
    )
    """Nodes whose CPU and memory are requested alike."""
    image_locality: Weight | None = optional(_WEIGHTS.image_locality, example=0)
    """Nodes that have the images."""


class OtherSchedulerSection(Section):
    """How one other scheduler scores nodes. A part that is not known widens the forecast."""

    profile: SchedulerProfile = Field(examples=["Volcano"])
    """`KubeScheduler`: a second kube-scheduler. `Volcano`: with the configuration of its Helm
    chart; soft taints steer it. `KAI`: it prefers full nodes and ignores soft taints."""
    strategy: Literal["LeastAllocated", "MostAllocated"] | None = optional(
        _DEFAULTS.strategy.value, example="MostAllocated"
    )
    """The scoring strategy of a `KubeScheduler`."""
    weights: ScoreWeightsSection | None = optional(example={"TaintToleration": 5})
    """The weights of a `KubeScheduler`."""
    arguments: dict[VolcanoArgument, Weight] | None = optional(example={"binpack.weight": 0})
    """Arguments of the plugins nodeorder and binpack of a `Volcano`, as in its
    volcano-scheduler.conf. Without binpack there, write `binpack.weight: 0`."""
    further_points: Annotated[int, Field(ge=0, le=1_000_000)] | None = optional(0, example=100)
    """The most points that further plugins of a `Volcano` give a node, such as 100 for
    network-topology-aware. Soft taints count for 300 by default."""
    network_topology_aware: bool | None = optional(_VOLCANO.network_topology_aware, example=True)
    """Whether the plugin network-topology-aware of a `Volcano` is on. Then a gang with a hard
    topology that moves whole may enter another HyperNode. Without `configMap`, `furtherPoints`
    is then 100 by default."""
    config_map: ConfigMapPlace | None = optional(
        example="volcano-system/volcano-scheduler-configmap"
    )
    """The namespace and the name of the ConfigMap with the volcano-scheduler.conf of a `Volcano`.
    It is read in each cycle, in place of the weights of the Helm chart; `arguments` that are
    written count before it. It requires the right to read that ConfigMap. What cannot be read, or
    is not understood, leaves all scores unknown: soft taints then steer no pod of this
    scheduler."""


class DefaultConstraintSection(Section):
    """A spread constraint of pods without any, as in kube-scheduler's PodTopologySpreadArgs."""

    max_skew: Annotated[int, Field(ge=1, le=1_000)] = Field(examples=[1])
    """By how many pods domains may differ."""
    topology_key: LabelKey = Field(examples=["topology.kubernetes.io/zone"])
    """The label of nodes whose values are the domains."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = Field(
        examples=["DoNotSchedule"]
    )
    """Whether the scheduler refuses other nodes, or only prefers even domains."""


class SchedulerSection(Section):
    """What differs from kube-scheduler's defaults, and what other schedulers do."""

    strategy: Literal["LeastAllocated", "MostAllocated"] | None = optional(
        _DEFAULTS.strategy.value, example="MostAllocated"
    )
    """Its scoring strategy for resources: `LeastAllocated` or `MostAllocated`."""
    weights: ScoreWeightsSection | None = optional(
        example={"NodeResourcesFit": 5, "ImageLocality": 0}
    )
    """Weights of its score plugins."""
    default_constraints: tuple[DefaultConstraintSection, ...] | None = optional(
        example=[
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ]
    )
    """The `defaultConstraints` of its plugin PodTopologySpread with `defaultingType: List`; without
    this key, those of the system."""
    configuration: dict[str, Any] | None = optional(
        example={
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}},
                }
            ],
        }
    )
    """The KubeSchedulerConfiguration of the cluster as it is, in place of the keys above. Each
    profile stands for the scheduler of its name. A warning names what the forecast of landings does
    not know, such as plugins of its own."""
    others: dict[SchedulerName, OtherSchedulerSection] | None = optional(
        example={"volcano": {"profile": "Volcano"}}
    )
    """Other schedulers by the name that pods have in `schedulerName`. Landings of their pods are
    then forecast and steered; without it, such a pod may land on any node where it fits."""


_KEYS_OF = {
    "strategy": SchedulerProfile.KUBE_SCHEDULER,
    "weights": SchedulerProfile.KUBE_SCHEDULER,
    "arguments": SchedulerProfile.VOLCANO,
    "furtherPoints": SchedulerProfile.VOLCANO,
    "networkTopologyAware": SchedulerProfile.VOLCANO,
    "configMap": SchedulerProfile.VOLCANO,
}


def scheduler_rules(section: SchedulerSection, notes: Notes) -> SchedulerRules:
    """The rules of all schedulers that are known."""
    others: dict[str, OtherScheduler] = {}
    if section.configuration is not None:
        others |= configured_schedulers(section.configuration, notes.below("configuration"))
    for name, other in (section.others or {}).items():
        at = notes.below("others", name)
        if name in others:
            at.refuse("is in the configuration, too; remove one of them.")
        others[name] = _other(name, other, at)
    default = others.pop(DEFAULT_SCHEDULER, None)
    if default is None:
        scores = _scores(section.strategy, section.weights)
        spread = _default_spread(section.default_constraints)
        return SchedulerRules(**scores, default_spread=spread, others=dict(sorted(others.items())))
    for key, _, _ in given(section):
        if key not in {"configuration", "others"}:
            notes.refuse("is in the configuration, too; remove one of them.", key)
    return SchedulerRules(
        default.strategy, default.weights, dict(sorted(others.items())), default.default_spread
    )


def _other(name: str, section: OtherSchedulerSection, notes: Notes) -> OtherScheduler:
    if name == DEFAULT_SCHEDULER:
        notes.refuse("is kube-scheduler itself; write its strategy and weights in scheduler.")
    for key, _, _ in given(section):
        if (profile := _KEYS_OF.get(key, section.profile)) is not section.profile:
            notes.refuse(f"has no effect here; it is for profile: {profile}.", key)
    arguments = section.arguments or {}
    aware, points = bool(section.network_topology_aware), section.further_points
    if points is None:  # the configuration, where it is named, may have further plugins
        points = 100 * (aware and not section.config_map)
    return OtherScheduler(
        section.profile,
        **_scores(section.strategy, section.weights),
        volcano=VolcanoWeights.of(arguments),
        further_points=points,
        network_topology_aware=aware,
        config_map=section.config_map or "",
        written=arguments if section.config_map else {},
    )


def _default_spread(
    constraints: Sequence[DefaultConstraintSection] | None,
) -> tuple[SpreadConstraint, ...] | None:
    if constraints is None:
        return None
    return tuple(
        SpreadConstraint(c.topology_key, c.max_skew, c.when_unsatisfiable == "DoNotSchedule", None)
        for c in constraints
    )


def _scores(strategy: str | None, weights: ScoreWeightsSection | None) -> dict[str, Any]:
    return written(
        strategy=strategy and ScoringStrategy(strategy),
        weights=weights and ScoreWeights(**values_of(weights, ScoreWeights)),
    )
