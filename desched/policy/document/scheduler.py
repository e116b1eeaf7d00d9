"""How the cluster's kube-scheduler is configured, as far as landings depend on it."""

from typing import Annotated, Literal

from pydantic import Field

from desched.policy.document.values import Section, default_is
from desched.policy.policy import SchedulerRules, ScoreWeights, ScoringStrategy

Weight = Annotated[int, Field(ge=0, le=100)]

_DEFAULTS = ScoreWeights()


class ScoreWeightsSection(Section):
    """Weights of score plugins, by the plugins' names in a KubeSchedulerConfiguration.

    0 stands for a plugin that is disabled there.
    """

    taint_toleration: Weight | None = Field(
        default=_DEFAULTS.taint_toleration,
        alias="TaintToleration",
        description="Soft taints (PreferNoSchedule).",
        examples=[5],
    )
    node_affinity: Weight | None = Field(
        default=_DEFAULTS.node_affinity,
        alias="NodeAffinity",
        description="Preferred node affinity.",
        examples=[1],
    )
    pod_topology_spread: Weight | None = Field(
        default=_DEFAULTS.pod_topology_spread,
        alias="PodTopologySpread",
        description="Soft spread constraints, the system's defaults among them.",
        examples=[5],
    )
    inter_pod_affinity: Weight | None = Field(
        default=_DEFAULTS.inter_pod_affinity,
        alias="InterPodAffinity",
        description="Preferred pod affinity and anti-affinity.",
        examples=[1],
    )
    node_resources_fit: Weight | None = Field(
        default=_DEFAULTS.node_resources_fit,
        alias="NodeResourcesFit",
        description="Free or full nodes, see `strategy`.",
        examples=[5],
    )
    node_resources_balanced_allocation: Weight | None = Field(
        default=_DEFAULTS.node_resources_balanced_allocation,
        alias="NodeResourcesBalancedAllocation",
        description="Nodes whose CPU and memory are requested alike.",
        examples=[0],
    )
    image_locality: Weight | None = Field(
        default=_DEFAULTS.image_locality,
        alias="ImageLocality",
        description="Nodes that have the images.",
        examples=[0],
    )


class SchedulerSection(Section):
    """What differs from kube-scheduler's defaults; needed only where they were changed."""

    strategy: Literal["LeastAllocated", "MostAllocated"] | None = Field(
        default=None,
        description="Its scoring strategy for resources: `LeastAllocated` or `MostAllocated`.",
        json_schema_extra=default_is(ScoringStrategy.LEAST_ALLOCATED.value),
        examples=["MostAllocated"],
    )
    weights: ScoreWeightsSection | None = Field(
        default=None,
        description="Weights of its score plugins.",
        examples=[{"NodeResourcesFit": 5, "ImageLocality": 0}],
    )


def scheduler_rules(section: SchedulerSection | None) -> SchedulerRules:
    """The section with the scheduler's own defaults for what it leaves open."""
    if section is None:
        return SchedulerRules()
    weights = section.weights or ScoreWeightsSection()
    given = {name: value for name, value in weights if value is not None}
    strategy = section.strategy or ScoringStrategy.LEAST_ALLOCATED
    return SchedulerRules(ScoringStrategy(strategy), ScoreWeights(**given))
