"""How kube-scheduler is configured, and whether soft taints may steer what it does."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_pascal

from desched.policy.compatibility import SteeringMode
from desched.policy.document.values import Section, optional
from desched.policy.policy import SchedulerRules

Weight = Annotated[int, Field(ge=0, le=100)]

_DEFAULTS = SchedulerRules()
_WEIGHTS = _DEFAULTS.weights


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


class SchedulerSection(Section):
    """What differs from kube-scheduler's defaults; needed only where they were changed."""

    strategy: Literal["LeastAllocated", "MostAllocated"] | None = optional(
        _DEFAULTS.strategy.value, example="MostAllocated"
    )
    """Its scoring strategy for resources: `LeastAllocated` or `MostAllocated`."""
    weights: ScoreWeightsSection | None = optional(
        example={"NodeResourcesFit": 5, "ImageLocality": 0}
    )
    """Weights of its score plugins."""
