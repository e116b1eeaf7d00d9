"""For whose GPUs nodes are drained: GpuFragmentation, resolved."""

from collections.abc import Iterator

from desched.policy.compatibility import SteeringMode
from desched.policy.gpu_drains import GpuDrainRules, Reserve
from desched.policy.placement_domains import NO_TIER, names_no_tier
from desched.policy.wording import quoted
from desched.policy_file.document.gpu_fragmentation import (
    DemandSection,
    DrainLimitsSection,
    GpuFragmentationArgs,
    ReserveSection,
)
from desched.policy_file.document.values import written
from desched.policy_file.reading.problems import Notes
from desched.policy_file.resolution.plugins import ChosenProfile


def gpu_drain_rules(
    found: tuple[GpuFragmentationArgs, Notes] | None, profile: ChosenProfile
) -> GpuDrainRules | None:
    """The rules of the plugin's arguments, None without any; what is wrong with them is noted."""
    if found is None:
        return None
    args, notes = found
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
    _check_steering(profile)
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


def _check_steering(profile: ChosenProfile) -> None:
    if profile.defaults.steering is SteeringMode.OFF:
        profile.notes.refuse(
            "is Off, but GpuFragmentation holds the nodes that it drains with soft taints, and "
            "drains none without them; set steering: WhenNeeded.",
            "steering",
        )
