"""The parts of LoadAware's arguments that define when a node is overloaded."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from desched.policy_file.document.values import (
    DURATION_SCHEMA,
    Percent,
    Seconds,
    Section,
    SelectorText,
    matching,
    one_or_many,
    optional,
)


class ResourcePercentages(Section):
    """A percentage for each resource that is watched; at least one."""

    key_noun = "resource"

    cpu: Percent | None = None
    """CPU, percent of the node's capacity."""
    memory: Percent | None = None
    """Memory, percent of the node's capacity."""
    gpu: Percent | None = None
    """GPUs of NVIDIA that pods share, percent of the time that they are busy, by DCGM's
    exporter; beside `cpu` or `memory`."""
    pods: Percent | None = None
    """Number of pods, percent of the node's allocatable pods."""


WindowList = Annotated[
    tuple[Seconds, ...],
    BeforeValidator(one_or_many),
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [DURATION_SCHEMA, {"type": "array", "items": DURATION_SCHEMA, "minItems": 1}]}
    ),
]


class Windows(Section):
    """The times over which load is measured; a node is overloaded only if it is in all of them."""

    cpu: WindowList | None = optional(example=["5m", "15m"])
    """Windows for CPU, one or several. Default: `duration`."""
    memory: WindowList | None = optional(example="10m")
    """Windows for memory, one or several. Default: `duration`."""
    gpu: WindowList | None = optional(example="10m")
    """Windows for GPUs, one or several. Default: `duration`."""


Statistic = Annotated[
    str,
    matching(
        "^(max|avg|p[1-9][0-9]?)$",
        'allowed are "max", "avg" and percentiles from "p1" to "p99"',
    ),
]


class DestinationWindowSection(Section):
    """A further time over which a destination is judged."""

    window: Seconds = Field(examples=["1h"])
    """How far it looks back."""
    statistic: Statistic = Field("p95", examples=["max"])
    """How the means over the shortest window within that time are combined: `max`, `avg` or a
    percentile such as `p95`."""


_Several = tuple[DestinationWindowSection, ...]


class DestinationWindows(Section):
    """Longer times by which destinations, never sources, are judged beside `windows`."""

    absent: ClassVar[Mapping[str, str]] = {
        "gpu": "GPUs have no such windows; remove it, destinations are judged by windows.gpu."
    }

    cpu: _Several | None = optional(example=[{"window": "1h", "statistic": "p95"}])
    """For CPU."""
    memory: _Several | None = optional(example=[{"window": "24h", "statistic": "max"}])
    """For memory."""


class NodePoolSection(Section):
    """Nodes with thresholds of their own, compared only with each other.

    A pool takes from LoadAware what it does not set.
    """

    name: str = Field(min_length=1, examples=["batch"])
    """The pool's name in reports."""
    node_selector: SelectorText = Field(examples=["pool=batch"])
    """Label selector of its nodes; a node belongs to the first pool that matches."""
    thresholds: ResourcePercentages | None = optional(example={"cpu": 40})
    """As `thresholds`, for the same resources."""
    target_thresholds: ResourcePercentages | None = optional(example={"cpu": 90})
    """As `targetThresholds`, for the same resources."""
    stop_margin: Percent | None = optional(example=4)
    """As `stopMargin`."""
    ceiling_margin: Percent | None = optional(example=15)
    """As `ceilingMargin`."""
