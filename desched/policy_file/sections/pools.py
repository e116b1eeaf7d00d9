"""Pools of nodes with thresholds of their own."""

from msgspec.structs import replace
from pydantic import Field

from desched.policy.policy import NodePool
from desched.policy_file.sections.thresholds import Lines, ResourcePercentages, rules_between
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, optional, written
from desched.policy_keys.values import Percent, SelectorText


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


def node_pools(
    sections: tuple[NodePoolSection, ...], lines: Lines, notes: Notes
) -> tuple[NodePool, ...]:
    """The pools in their order; what is wrong with them is noted."""
    pools: dict[str, NodePool] = {}
    for index, section in enumerate(sections):
        at = notes.below(index)
        if section.name in pools:
            at.refuse("is the name of an earlier pool; give each its own.", "name")
        _check_resources(section, lines, at)
        rules = rules_between(_with_pool(lines, section), at)
        pools[section.name] = NodePool(section.name, section.node_selector, rules)
    return tuple(pools.values())


def _with_pool(lines: Lines, pool: NodePoolSection) -> Lines:
    """The lines of the nodes of a pool."""
    return replace(
        lines,
        thresholds=_merged(lines.thresholds, pool.thresholds),
        target_thresholds=_merged(lines.target_thresholds, pool.target_thresholds),
        **written(stop_margin=pool.stop_margin, ceiling_margin=pool.ceiling_margin),
    )


def _merged(base: ResourcePercentages, own: ResourcePercentages | None) -> ResourcePercentages:
    return base.model_copy(update=own.model_dump(exclude_unset=True) if own else {})


def _check_resources(pool: NodePoolSection, lines: Lines, notes: Notes) -> None:
    watched = lines.target_thresholds.model_fields_set
    for key, own in {
        "thresholds": pool.thresholds,
        "targetThresholds": pool.target_thresholds,
    }.items():
        for name in own.model_fields_set - watched if own else ():
            notes.refuse(
                f"has no effect, because LoadAware's own targetThresholds has no {name}; add it "
                "there, because a pool only changes numbers.",
                key,
                name,
            )
