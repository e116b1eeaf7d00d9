"""Which labels name the domains that pods stay in."""

from typing import Annotated

from desched.policy.compatibility import EXTENDED, DomainMode
from desched.policy.document.values import Section, matching, optional
from desched.policy.placement_domains import KNOWN_DOMAINS, PlacementDomains

LabelKey = Annotated[
    str,
    matching(
        "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        'the key of a label is allowed, such as "example.com/rack"',
    ),
]


class PlacementDomainsSection(Section):
    """Labels of nodes; each list replaces the known ones, which docs/ai-clusters.md has."""

    mode: DomainMode | None = optional(EXTENDED.domains.value, example="Ignore")
    """`Require`: a pod moves only to nodes in the same domains. `Ignore`: domains do not count."""
    groups: tuple[LabelKey, ...] | None = optional(example=["example.com/rack"])
    """Each pod stays on nodes with the same value."""
    accelerator_groups: tuple[LabelKey, ...] | None = optional(example=["nvidia.com/gpu.clique"])
    """Each pod with a GPU stays on nodes with the same value."""
    equivalence: tuple[LabelKey, ...] | None = optional(
        example=["node.kubernetes.io/instance-type"]
    )
    """Each pod with a fast network stays on nodes with the same value."""
    levels: tuple[tuple[LabelKey, ...], ...] | None = optional(
        example=[["topology.kubernetes.io/zone"], ["example.com/block"], ["example.com/rack"]]
    )
    """The levels of the network from the widest to the narrowest, each with alternative labels, of
    which the first that a node has counts. A pod of a gang stays as close to its nearest peer."""


def placement_domains(section: PlacementDomainsSection, mode: DomainMode) -> PlacementDomains:
    """The domains that a policy requires."""
    if (section.mode or mode) is DomainMode.IGNORE:
        return PlacementDomains()
    known = KNOWN_DOMAINS

    def given(keys: tuple[str, ...] | None, default: tuple[str, ...]) -> tuple[str, ...]:
        return default if keys is None else keys

    return PlacementDomains(
        known.rungs if section.levels is None else section.levels,
        given(section.groups, known.groups),
        given(section.accelerator_groups, known.accelerator_groups),
        given(section.equivalence, known.equivalence),
        by_network=True,
    )
