"""Pools of nodes with thresholds of their own."""

from collections.abc import Collection, Sequence
from itertools import count

from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.policy.document.load_aware import LoadAwareArgs
from desched.policy.document.sections import keys
from desched.policy.document.thresholds import NodePoolSection, ResourcePercentages
from desched.policy.policy import NodePool
from desched.policy.reading.problems import Notes
from desched.policy.reading.yaml_source import KeyPath
from desched.policy.resolution.plugins import ChosenProfile
from desched.policy.resolution.rules import rules_between

_OF_A_POOL = frozenset(
    {
        "node_selector",
        "thresholds",
        "target_thresholds",
        "stop_margin",
        "ceiling_margin",
        "node_pools",
    }
)
_ALL_THE_SAME = "one cycle serves all of them, so they must name the same."
_MAY_DIFFER = (
    "from that of the first LoadAware entry; one cycle serves all of them, so they may differ only "
    "in nodeSelector, thresholds, targetThresholds, stopMargin and ceilingMargin."
)


def node_pools(args: LoadAwareArgs, path: KeyPath, notes: Notes) -> tuple[NodePool, ...]:
    """The pools in their order; what is wrong with them is noted."""
    found: dict[str, NodePool] = {}
    for index, section in enumerate(args.node_pools or ()):
        at: KeyPath = (*path, "nodePools", index)
        if section.name in found:
            notes.refuse((*at, "name"), "is the name of an earlier pool; give each its own.")
        _check_resources(section, args, at, notes)
        rules = rules_between(_with_pool(args, section), at, notes)
        found[section.name] = NodePool(section.name, section.node_selector, rules)
    return tuple(found.values())


def as_pools(profiles: Sequence[ChosenProfile], notes: Notes) -> tuple[NodePool, ...]:
    """Several configurations of LoadAware as pools: the first that selects a node has it.

    They may only differ in which nodes they are for and in their lines.
    """
    first = profiles[0]
    found: dict[str, NodePool] = {}
    for profile in profiles:
        args, path = profile.load_aware, profile.load_aware_path
        _check_alike(profile, first, notes)
        if not args.node_selector and profile is not profiles[-1]:
            notes.refuse(
                path,
                "has no nodeSelector, so the LoadAware entries after it would never have a node; "
                "give it one, or put it last.",
            )
        name = _unused(profile.name or "profile", found)
        rules = rules_between(args, path, notes)
        found[name] = NodePool(name, args.node_selector or LabelSelector(), rules)
    return tuple(found.values())


def _check_alike(profile: ChosenProfile, first: ChosenProfile, notes: Notes) -> None:
    for key, name in zip(keys(LoadAwareArgs), LoadAwareArgs.model_fields, strict=True):
        same = getattr(profile.load_aware, name) == getattr(first.load_aware, name)
        if not same and name not in _OF_A_POOL:
            notes.refuse((*profile.load_aware_path, key), f"differs {_MAY_DIFFER}")
    if profile.load_aware.node_pools:
        notes.refuse(
            (*profile.load_aware_path, "nodePools"),
            "cannot stand beside a second LoadAware entry; write all pools here, or none.",
        )
    resources = first.load_aware.target_thresholds.model_fields_set
    if profile.load_aware.target_thresholds.model_fields_set != resources:
        notes.refuse(
            (*profile.load_aware_path, "targetThresholds"),
            f"names other resources than that of the first LoadAware entry; {_ALL_THE_SAME}",
        )
    if profile.evictor != first.evictor:
        notes.refuse(profile.evictor_path, f"differs {_MAY_DIFFER}")


def _unused(name: str, taken: Collection[str]) -> str:
    numbered = (f"{name}-{i}" for i in count(2))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _with_pool(args: LoadAwareArgs, pool: NodePoolSection) -> LoadAwareArgs:
    """The arguments as they are for the nodes of a pool."""
    margins = {
        name: value
        for name in ("stop_margin", "ceiling_margin")
        if (value := getattr(pool, name)) is not None
    }
    return args.model_copy(
        update={
            "thresholds": _merged(args.thresholds, pool.thresholds),
            "target_thresholds": _merged(args.target_thresholds, pool.target_thresholds),
            **margins,
        }
    )


def _merged(base: ResourcePercentages, own: ResourcePercentages | None) -> ResourcePercentages:
    given = {name: getattr(own, name) for name in own.model_fields_set} if own else {}
    return base.model_copy(update=given)


def _check_resources(
    pool: NodePoolSection, args: LoadAwareArgs, path: KeyPath, notes: Notes
) -> None:
    watched = args.target_thresholds.model_fields_set
    for key, own in (
        ("thresholds", pool.thresholds),
        ("targetThresholds", pool.target_thresholds),
    ):
        for resource in Resource:
            if own is not None and resource.value in own.model_fields_set - watched:
                notes.refuse(
                    (*path, key, resource.value),
                    f"has no effect, because LoadAware's own targetThresholds has no "
                    f"{resource.value}; add it there, for a pool only changes numbers.",
                )
