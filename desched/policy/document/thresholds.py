"""The parts of LoadAware's arguments that say when a node is overloaded, and over which times."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from desched.policy.document.values import (
    DURATION_SCHEMA,
    Percent,
    Seconds,
    Section,
    SelectorText,
    one_or_many,
    refusal,
)
from desched.policy.wording import quoted


class ResourcePercentages(Section):
    """A percentage for each resource that is watched; at least one."""

    key_noun = "resource"

    cpu: Percent | None = Field(default=None, description="CPU, percent of the node's capacity.")
    memory: Percent | None = Field(
        default=None, description="Memory, percent of the node's capacity."
    )
    pods: Percent | None = Field(
        default=None, description="Number of pods, percent of the node's allocatable pods."
    )


WindowList = Annotated[
    tuple[Seconds, ...],
    BeforeValidator(one_or_many),
    Field(min_length=1),
    WithJsonSchema(
        {"anyOf": [DURATION_SCHEMA, {"type": "array", "items": DURATION_SCHEMA, "minItems": 1}]}
    ),
]


class Windows(Section):
    """Over which times load is measured; a node is overloaded only if it is in all of them."""

    cpu: WindowList | None = Field(
        default=None,
        description="Windows for CPU, one or several. Default: `duration`.",
        examples=[["5m", "15m"]],
    )
    memory: WindowList | None = Field(
        default=None,
        description="Windows for memory, one or several. Default: `duration`.",
        examples=["10m"],
    )


def _statistic(value: object) -> str:
    text = value.lower() if isinstance(value, str) else ""
    if text in {"max", "avg"} or re.fullmatch(r"p[1-9][0-9]?", text):
        return text
    raise refusal(
        f'found {quoted(value)}, allowed are "max", "avg" and percentiles from "p1" to "p99"'
    )


class DestinationWindowSection(Section):
    """A further time over which a destination is judged."""

    window: Seconds = Field(description="How far it looks back.", examples=["1h"])
    statistic: Annotated[
        str,
        BeforeValidator(_statistic),
        WithJsonSchema({"type": "string", "pattern": "^(max|avg|p[1-9][0-9]?)$"}),
    ] = Field(
        default="p95",
        description="What counts of the means over the shortest window within that time: `max`, "
        "`avg` or a percentile such as `p95`.",
        examples=["max"],
    )


class DestinationWindows(Section):
    """By which longer times destinations are judged beside `windows`; sources never are."""

    cpu: tuple[DestinationWindowSection, ...] | None = Field(
        default=None, description="For CPU.", examples=[[{"window": "1h", "statistic": "p95"}]]
    )
    memory: tuple[DestinationWindowSection, ...] | None = Field(
        default=None,
        description="For memory.",
        examples=[[{"window": "24h", "statistic": "max"}]],
    )


class NodePoolSection(Section):
    """Nodes with thresholds of their own, which are compared with each other only.

    What a pool does not set it has from LoadAware.
    """

    name: str = Field(min_length=1, description="What reports call the pool.", examples=["batch"])
    node_selector: SelectorText = Field(
        description="Label selector of its nodes; the first pool that matches has a node.",
        examples=["pool=batch"],
    )
    thresholds: ResourcePercentages | None = Field(
        default=None,
        description="As `thresholds`, for the same resources.",
        examples=[{"cpu": 40}],
    )
    target_thresholds: ResourcePercentages | None = Field(
        default=None,
        description="As `targetThresholds`, for the same resources.",
        examples=[{"cpu": 90}],
    )
    stop_margin: Percent | None = Field(default=None, description="As `stopMargin`.", examples=[4])
    ceiling_margin: Percent | None = Field(
        default=None, description="As `ceilingMargin`.", examples=[15]
    )
