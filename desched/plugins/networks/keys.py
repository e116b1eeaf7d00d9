"""The keys of the policy about the domains that pods stay in."""

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace
from pydantic import Field

from desched.network.placement_domains import (
    KNOWN_DOMAINS,
    NO_TIER,
    DomainMode,
    PlacementDomains,
    names_no_tier,
    tier_of,
)
from desched.policy.wording import did_you_mean
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, optional, written
from desched.policy_keys.values import LabelKey

_Level = Annotated[tuple[LabelKey, ...], Field(min_length=1)]


class PlacementDomainsSection(Section):
    """Labels of nodes; each list replaces the known ones, which docs/plugins/networks.md has."""

    mode: DomainMode | None = optional(KNOWN_DOMAINS.mode.value, example="Ignore")
    """`Require`: a pod moves only to nodes in the same domains. `Prefer`: it leaves them if it
    cannot move inside, level by level. `Ignore`: domains do not count."""
    modes: dict[LabelKey, DomainMode] | None = optional(
        example={"topology.kubernetes.io/zone": "Prefer", "topology.volcano.sh/tier-1": "Ignore"}
    )
    """The mode of single levels and groups instead, by one of their labels, or by
    `topology.volcano.sh/tier-1` for the HyperNodes of tier 1."""
    groups: tuple[LabelKey, ...] | None = optional(example=["example.com/rack"])
    """Each pod stays on nodes with the same value."""
    accelerator_groups: tuple[LabelKey, ...] | None = optional(example=["nvidia.com/gpu.clique"])
    """Each pod with a GPU stays on nodes with the same value."""
    equivalence: tuple[LabelKey, ...] | None = optional(
        example=["node.kubernetes.io/instance-type"]
    )
    """Each pod with a fast network stays on nodes with the same value."""
    levels: tuple[_Level, ...] | None = optional(
        example=[["topology.kubernetes.io/zone"], ["example.com/block"], ["example.com/rack"]]
    )
    """The levels of the network from the widest to the narrowest, each with alternative labels, of
    which the first that a node has counts. A pod of a gang stays as close to its nearest peer."""


class NetworkKeys(Section):
    """Whether pods stay in the parts of the network where they are."""

    placement_domains: PlacementDomainsSection | None = optional(example={"mode": "Prefer"})
    """Which labels of nodes name domains, such as racks, that pods stay in."""


def placement_domains(section: PlacementDomainsSection, mode: DomainMode) -> PlacementDomains:
    """The domains that a policy requires or prefers."""
    known_domains, default = KNOWN_DOMAINS, section.mode or mode
    levels = known_domains.rungs if section.levels is None else section.levels
    modes = dict(section.modes or {})
    for keys in levels:  # all labels of a level have the strictest mode that is written for one
        of_keys = {modes[key] for key in keys if key in modes}
        modes |= dict.fromkeys(keys, min(of_keys, key=list(DomainMode).index)) if of_keys else {}

    def counting(keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(key for key in keys if modes.get(key, default) is not DomainMode.IGNORE)

    def given(keys: tuple[str, ...] | None, by_default: tuple[str, ...]) -> tuple[str, ...]:
        return counting(by_default if keys is None else keys)

    return PlacementDomains(
        levels if any(map(counting, levels)) else (),
        given(section.groups, known_domains.groups),
        given(section.accelerator_groups, known_domains.accelerator_groups),
        given(section.equivalence, known_domains.equivalence),
        default,
        tuple(sorted(modes.items())),
    )


def check_modes(section: PlacementDomainsSection, notes: Notes) -> None:
    """Note the keys of `modes` that stand for no tier and no label."""
    labels, at = _named_labels(section), notes.below("modes")
    for key in section.modes or {}:
        if names_no_tier(key):
            at.refuse(NO_TIER, key)
        elif tier_of(key) is None and key not in labels:
            hint = did_you_mean(key, labels) or "."
            at.warn(
                "is a label of no level and no group, so that it counts only in Topologies of "
                f"Kueue and KAI{hint}",
                key,
            )


def _named_labels(section: PlacementDomainsSection) -> frozenset[str]:
    """All labels of levels and groups, also of those that are ignored."""
    lists = written(
        rungs=section.levels,
        groups=section.groups,
        accelerator_groups=section.accelerator_groups,
        equivalence=section.equivalence,
    )
    return replace(KNOWN_DOMAINS, **lists).keys


def domain_settings(domains: PlacementDomains) -> Iterator[tuple[tuple[str, ...], str]]:
    """The domains by the keys that set them, as people read them."""
    at = "placementDomains"
    yield (at, "mode"), domains.mode.value
    modes = (f"{key}: {mode.value}" for key, mode in domains.modes)
    yield (at, "modes"), ", ".join(modes) or "none"
    yield (at, "groups"), ", ".join(domains.groups) or "none"
    yield (at, "acceleratorGroups"), ", ".join(domains.accelerator_groups) or "none"
    yield (at, "equivalence"), ", ".join(domains.equivalence) or "none"
    yield (at, "levels"), " > ".join("|".join(rung) for rung in domains.rungs) or "none"
