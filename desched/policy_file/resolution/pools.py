"""Pools of nodes with thresholds of their own."""

from collections.abc import Sequence
from itertools import count

from desched.model.selectors import LabelSelector
from desched.policy.policy import NodePool
from desched.policy_file.document.load_aware import LoadAwareArgs
from desched.policy_file.document.sections import names
from desched.policy_file.document.thresholds import NodePoolSection, ResourcePercentages
from desched.policy_file.document.values import written
from desched.policy_file.reading.problems import Notes
from desched.policy_file.resolution.plugins import ChosenProfile
from desched.policy_file.resolution.rules import rules_between

_OF_A_POOL = ("nodeSelector", "thresholds", "targetThresholds", "stopMargin", "ceilingMargin")
_ALL_THE_SAME = "one cycle serves all of them, so they must name the same."
_MAY_DIFFER = (
    "from that of the first LoadAware entry; one cycle serves all of them, so they may differ only "
    f"in {', '.join(_OF_A_POOL[:-1])} and {_OF_A_POOL[-1]}."
)


def node_pools(args: LoadAwareArgs, notes: Notes) -> tuple[NodePool, ...]:
    """The pools in their order; what is wrong with them is noted."""
    found: dict[str, NodePool] = {}
    for index, section in enumerate(args.node_pools or ()):
        at = notes.below("nodePools", index)
        if section.name in found:
            at.refuse("is the name of an earlier pool; give each its own.", "name")
        _check_resources(section, args, at)
        rules = rules_between(_with_pool(args, section), at)
        found[section.name] = NodePool(section.name, section.node_selector, rules)
    return tuple(found.values())


def as_pools(profiles: Sequence[ChosenProfile]) -> tuple[NodePool, ...]:
    """Several configurations of LoadAware as pools: the first that selects a node has it.

    They may differ only in their nodes and in the thresholds of these.
    """
    found: dict[str, NodePool] = {}
    for profile in profiles:
        args, notes = profile.load_aware, profile.notes
        _check_alike(profile, profiles[0])
        if not args.node_selector and profile is not profiles[-1]:
            notes.refuse(
                "has no nodeSelector, so the LoadAware entries after it would never have a node; "
                "give it one, or put it last."
            )
        name = profile.name or "profile"
        numbered = (f"{name}-{i}" for i in count(2))
        while name in found:
            name = next(numbered)
        rules = rules_between(args, notes)
        found[name] = NodePool(name, args.node_selector or LabelSelector(), rules)
    return tuple(found.values())


def _check_alike(profile: ChosenProfile, first: ChosenProfile) -> None:
    args, notes = profile.load_aware, profile.notes
    for key, name in names(LoadAwareArgs).items():
        same = getattr(args, name) == getattr(first.load_aware, name)
        if not same and key not in {*_OF_A_POOL, "nodePools"}:
            notes.refuse(f"differs {_MAY_DIFFER}", key)
    if args.node_pools:
        notes.refuse(
            "cannot be combined with a second LoadAware entry; write all pools here, or none.",
            "nodePools",
        )
    resources = first.load_aware.target_thresholds.model_fields_set
    if args.target_thresholds.model_fields_set != resources:
        notes.refuse(
            f"names other resources than that of the first LoadAware entry; {_ALL_THE_SAME}",
            "targetThresholds",
        )
    if profile.evictor != first.evictor:
        profile.evictor_notes.refuse(f"differs {_MAY_DIFFER}")


def _with_pool(args: LoadAwareArgs, pool: NodePoolSection) -> LoadAwareArgs:
    """The arguments as they are for the nodes of a pool."""
    return args.model_copy(
        update={
            "thresholds": _merged(args.thresholds, pool.thresholds),
            "target_thresholds": _merged(args.target_thresholds, pool.target_thresholds),
            **written(stop_margin=pool.stop_margin, ceiling_margin=pool.ceiling_margin),
        }
    )


def _merged(base: ResourcePercentages, own: ResourcePercentages | None) -> ResourcePercentages:
    return base.model_copy(update=own.model_dump(exclude_unset=True) if own else {})


def _check_resources(pool: NodePoolSection, args: LoadAwareArgs, notes: Notes) -> None:
    watched = args.target_thresholds.model_fields_set
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
