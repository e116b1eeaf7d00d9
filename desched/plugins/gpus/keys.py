"""The arguments of GpuFragmentation: for whose GPUs nodes are drained, and how far."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from desched.model.resources import Resource
from desched.network.placement_domains import NO_TIER, names_no_tier
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.policy.durations import duration_text
from desched.policy.policy import MetricsType, Policy
from desched.policy.wording import quoted
from desched.policy_keys.notes import Notes
from desched.policy_keys.profile_plugin import ProfilePlugin
from desched.policy_keys.section import PluginArgs, Section, optional, written
from desched.policy_keys.values import (
    WEEK_SECONDS,
    LabelKey,
    NamespaceName,
    Priority,
    Span,
    UpTo1000,
    lasting,
)

_RULES = GpuDrainRules()
_RESERVE = Reserve(gpus=8)
LEAST_DEADLINE_SECONDS = 300
"""Pods need their grace period to leave, and the demand the time until it is scheduled."""


class GpuPods(StrEnum):
    """Whether pods that request a GPU may move."""

    PROTECT = "Protect"
    ALLOW = "Allow"


class GpuKeys(Section):
    """Whether pods with GPUs count as others do."""

    gpu_pods: GpuPods | None = optional(GpuPods.PROTECT.value, example="Allow")
    """`Protect`: pods that request a GPU stay, and pods without one leave their nodes instead.
    `Allow`: they move as others do. Where GpuFragmentation drains a node, they move in both
    cases."""


class DemandSection(Section):
    """Pods that wait for GPUs and for which nodes are drained, by namespace and by priority."""

    namespaces: tuple[NamespaceName, ...] | None = optional(example=["train"])
    """Pods of these namespaces, whatever their priority. List only namespaces that nodes may be
    drained for: who creates pods there makes others move."""
    min_priority: Priority | None = optional(example=1000)
    """Pods of this priority and above, in all namespaces."""
    pending_for: Span | None = optional(seconds=_RULES.pending_seconds, example="10m")
    """How long they must have been unschedulable, from 10s to 168h."""


class ReserveSection(Section):
    """Nodes with idle GPUs that are kept free although no pod waits for them."""

    gpus: UpTo1000 = Field(examples=[8])
    """The number of idle GPUs on each of the nodes."""
    nodes: UpTo1000 | None = optional(_RESERVE.nodes, example=2)
    """The number of such nodes."""
    domain: LabelKey | None = optional(example="topology.kubernetes.io/zone")
    """All nodes of the reserve are then in one domain of this label of nodes, or of
    `topology.volcano.sh/tier-1` for the HyperNodes of tier 1; as for `balanceScope`."""
    max_priority: Priority | None = optional(_RESERVE.priority, example=1000)
    """Only pods of this priority and below leave for it."""


class DrainLimitsSection(Section):
    """How much drains may disturb, and for how long; `evictionLimits` hold as well."""

    moves: UpTo1000 | None = optional(_RULES.most_moves, example=20)
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


class GpuFragmentationConfig(ProfilePlugin):
    """The configuration of GpuFragmentation."""

    needs: ClassVar[str] = "demand or reserve"
    idle: ClassVar[str] = "no node would be drained"
    name: Literal["GpuFragmentation"]
    """The plugin."""
    args: GpuFragmentationArgs | None = None
    """Its arguments."""


def gpu_drain_rules(args: GpuFragmentationArgs, notes: Notes) -> GpuDrainRules:
    """The rules of the plugin's arguments; what is wrong with them is noted."""
    demand = args.demand or DemandSection()
    limits = args.drain_limits or DrainLimitsSection()
    if not args.demand and not args.reserve:
        notes.refuse(
            "has neither demand nor reserve, so no node would be drained; write one of them, for "
            'example "demand: {namespaces: [train]}".'
        )
    if args.demand and not demand.namespaces and demand.min_priority is None:
        notes.refuse(
            "is missing, and so is minPriority, so no pod would count; write one of them.",
            *("demand", "namespaces"),
        )
    return GpuDrainRules(
        namespaces=tuple(dict.fromkeys(demand.namespaces or ())),
        least_priority=demand.min_priority,
        reserves=tuple(_reserves(args.reserve or (), notes)),
        **written(
            pending_seconds=demand.pending_for,
            longest_seconds=limits.deadline,
            most_moves=limits.moves,
            daily_moves=limits.moves_daily,
        ),
    )


def _reserves(sections: tuple[ReserveSection, ...], notes: Notes) -> Iterator[Reserve]:
    earlier: dict[tuple[int, str], int] = {}
    for index, section in enumerate(sections):
        key = section.gpus, section.domain or ""
        if key in earlier:
            notes.refuse(
                f"has the gpus and the domain of reserve[{earlier[key]}]; write one entry with "
                "all the nodes.",
                *("reserve", index),
            )
        earlier.setdefault(key, index)
        if names_no_tier(section.domain or ""):
            text = f"found {quoted(section.domain)}, which {NO_TIER}"
            notes.refuse(text, "reserve", index, "domain")
        yield Reserve(
            section.gpus,
            place=notes.place("reserve", index),
            **written(nodes=section.nodes, domain=section.domain, priority=section.max_priority),
        )


def drain_settings(rules: GpuDrainRules) -> Iterator[tuple[tuple[str, ...], str]]:
    """The rules by the keys that set them, as people read them."""
    of, demand, limits = GpuFragmentationConfig.plugin_name(), "demand", "drainLimits"
    yield (of, demand, "namespaces"), ", ".join(rules.namespaces) or "none"
    least = rules.least_priority
    yield (of, demand, "minPriority"), "none" if least is None else str(least)
    yield (of, demand, "pendingFor"), duration_text(rules.pending_seconds)
    yield (of, "reserve"), "; ".join(map(_reserve, rules.reserves)) or "none"
    yield (of, limits, "moves"), str(rules.most_moves)
    yield (of, limits, "movesDaily"), str(rules.daily_moves)
    yield (of, limits, "deadline"), duration_text(rules.longest_seconds)


def _reserve(reserve: Reserve) -> str:
    domain = f", domain {reserve.domain}" if reserve.domain else ""
    return f"gpus {reserve.gpus}, nodes {reserve.nodes}{domain}, maxPriority {reserve.priority}"


def check_target(policy: Policy, gpu_pods: GpuPods, notes: Notes) -> None:
    """Note why a target for gpu would move nothing, or move it to nodes without other room."""
    watched = {rule.resource for rule in policy.rules}
    if Resource.GPU not in watched:
        return
    if not watched & {Resource.CPU, Resource.MEMORY}:
        text = "has gpu alone; add cpu or memory, of which a destination must have room as well."
        notes.refuse(text, "targetThresholds")
    if policy.metrics.type is not MetricsType.PROMETHEUS:
        text = "relieves no node: only Prometheus has what pods use of GPUs."
        notes.warn(text, "targetThresholds", "gpu")
    elif gpu_pods is not GpuPods.ALLOW:
        text = (
            'relieves nodes only of pods with desched.io/evict: "true"; set gpuPods: Allow, so '
            "that all pods with a GPU may move."
        )
        notes.warn(text, "targetThresholds", "gpu")
