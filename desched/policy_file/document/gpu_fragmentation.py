"""The arguments of the plugin GpuFragmentation: for whose GPUs nodes are drained, and how far."""

from typing import Annotated

from pydantic import Field

from desched.policy.gpu_drains import GpuDrainRules, Reserve
from desched.policy.policy import HIGHEST_PRIORITY_THRESHOLD
from desched.policy_file.document.limits import Span
from desched.policy_file.document.placement_domains import LabelKey
from desched.policy_file.document.values import (
    WEEK_SECONDS,
    NamespaceName,
    PluginArgs,
    Section,
    lasting,
    optional,
)

_RULES = GpuDrainRules()
_RESERVE = Reserve(gpus=8)
LEAST_DEADLINE_SECONDS = 300
"""Pods need their grace period to leave, and the demand the time until it is scheduled."""

_Priority = Annotated[int, Field(ge=-(2**31), le=HIGHEST_PRIORITY_THRESHOLD)]
_UpTo1000 = Annotated[int, Field(ge=1, le=1000)]


class DemandSection(Section):
    """Pods that wait for GPUs and for which nodes are drained, by namespace and by priority."""

    namespaces: tuple[NamespaceName, ...] | None = optional(example=["train"])
    """Pods of these namespaces, whatever their priority. List only namespaces that nodes may be
    drained for: who creates pods there makes others move."""
    min_priority: _Priority | None = optional(example=1000)
    """Pods of this priority and above, in all namespaces."""
    pending_for: Span | None = optional(seconds=_RULES.pending_seconds, example="10m")
    """How long they must have been unschedulable, from 10s to 168h."""


class ReserveSection(Section):
    """Nodes with idle GPUs that are kept free although no pod waits for them."""

    gpus: _UpTo1000 = Field(examples=[8])
    """The number of idle GPUs on each of the nodes."""
    nodes: _UpTo1000 | None = optional(_RESERVE.nodes, example=2)
    """The number of such nodes."""
    domain: LabelKey | None = optional(example="topology.kubernetes.io/zone")
    """All nodes of the reserve are then in one domain of this label of nodes, or of
    `topology.volcano.sh/tier-1` for the HyperNodes of tier 1; as for `balanceScope`."""
    max_priority: _Priority | None = optional(_RESERVE.priority, example=1000)
    """Only pods of this priority and below leave for it."""


class DrainLimitsSection(Section):
    """How much drains may disturb, and for how long; `evictionLimits` hold as well."""

    moves: _UpTo1000 | None = optional(_RULES.most_moves, example=20)
    """The most evictions of one drain; a drain that needs more does not begin."""
    moves_daily: Annotated[int, Field(ge=1, le=100_000)] | None = optional(
        _RULES.daily_moves, example=50
    )
    """The most evictions within a day for the pods of one namespace, and for all reserves
    together."""
    deadline: Annotated[int, lasting(LEAST_DEADLINE_SECONDS, WEEK_SECONDS)] | None = optional(
        seconds=_RULES.longest_seconds, example="2h"
    )
    """When a drain ends and its nodes are no longer held, whatever has landed; from 5m to 168h."""


class GpuFragmentationArgs(PluginArgs):
    """For whose GPUs nodes are drained. At least one of `demand` and `reserve` is necessary."""

    demand: DemandSection | None = optional(example={"namespaces": ["train"]})
    """Pods that wait for GPUs and for which nodes are drained; at least one of `namespaces` and
    `minPriority`. Pods of a higher priority than theirs stay."""
    reserve: tuple[ReserveSection, ...] | None = optional(example=[{"gpus": 8, "nodes": 2}])
    """Nodes with idle GPUs that are kept free although no pod waits for them."""
    drain_limits: DrainLimitsSection | None = optional(example={"moves": 20})
    """How much drains may disturb, and for how long."""
