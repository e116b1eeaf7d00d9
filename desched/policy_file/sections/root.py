"""The policy as people write it: DeschedulerPolicy of descheduler/v1alpha2, and what it means."""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from desched.planning.plugins import Plugin
from desched.plugins import HOUSE
from desched.policy.compatibility import Compatibility
from desched.policy.policy import Policy, Protections, SteeringRules
from desched.policy_file.sections.default_evictor import resolve_protections
from desched.policy_file.sections.follow_up import follow_up_rules
from desched.policy_file.sections.limits import LIMITS_OF_POLICY, eviction_limits
from desched.policy_file.sections.load_aware import LoadAwareArgs, check_load_aware, resource_rules
from desched.policy_file.sections.metrics import check_kept_windows, metrics_source
from desched.policy_file.sections.out_of_tree_plugins import (
    OutOfTreePlugin,
    out_of_tree_plugins,
)
from desched.policy_file.sections.pools import node_pools
from desched.policy_file.sections.profiles import (
    Profile,
    as_pools,
    choose_enabled,
    choose_profiles,
)
from desched.policy_file.sections.scheduler import SchedulerSection, scheduler_rules
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import PluginArgs, Section, names, optional, written
from desched.policy_keys.values import Count, SelectorText, all_of


class DeschedulerPolicy(Section):
    """What may be disturbed, and when."""

    api_version: Literal["descheduler/v1alpha2"]
    """The version of this format."""
    kind: Literal["DeschedulerPolicy"]
    """The kind of document."""
    node_selector: SelectorText | None = None
    """Label selector of the nodes that are looked at, as sources and destinations."""
    max_no_of_pods_to_evict_per_node: Count | None = None
    """The most evictions from one node in one cycle. If `evictionLimits` sets the limit too, the
    smaller applies; so for the next two keys."""
    max_no_of_pods_to_evict_per_namespace: Count | None = None
    """The most evictions from one namespace in one cycle."""
    max_no_of_pods_to_evict_total: Count | None = None
    """The most evictions in one cycle."""
    profiles: tuple[Profile, ...]
    """Profiles; at least one of them enables LoadAware. Several, with different `nodeSelector`, are
    pools of nodes; a node belongs to the first that selects it."""
    out_of_tree_plugins: tuple[OutOfTreePlugin, ...] | None = optional(
        example=[{"name": "oncall", "args": {"teams": ["payments"]}}]
    )
    """[Plugins of your own](plugins/your-own.md) that take part, in their order. They must be
    installed where desched runs."""


def resolve(document: DeschedulerPolicy, source: str, digest: str, notes: Notes) -> Policy | None:
    """The policy that the document defines.

    None, with the reasons in `notes`, if it defines none.
    """
    profiles = choose_profiles(document.profiles, notes.below("profiles"))
    own_args = {
        plugin: choose_enabled(plugin.in_profiles, document.profiles, notes.below("profiles"))
        for plugin in HOUSE
        if plugin.in_profiles is not None
    }
    if not profiles:
        return None
    profile, alone = profiles[0], len(profiles) == 1
    args, at, defaults = profile.load_aware, profile.notes, profile.load_aware.defaults
    of_policy = {key: getattr(document, names(DeschedulerPolicy)[key]) for key in LIMITS_OF_POLICY}
    others = out_of_tree_plugins(
        document.out_of_tree_plugins or (), notes.below("outOfTreePlugins")
    )
    house = (_configured(plugin, args, at, own_args.get(plugin)) for plugin in HOUSE)
    plugins = (*house, *others)
    protections = resolve_protections(args, at, profile.evictor, profile.evictor_notes)
    policy = Policy(
        source=source,
        digest=digest,
        rules=resource_rules(args, at),
        metrics=metrics_source(args.metrics, at.below("metrics")),
        limits=eviction_limits(
            args.eviction_limits, at.below("evictionLimits"), of_policy, notes, defaults
        ),
        protections=_understanding(protections, plugins),
        deviation=bool(args.use_deviation_thresholds),
        min_underloaded_nodes=args.number_of_nodes or 0,
        node_selector=all_of(document.node_selector, args.node_selector if alone else None),
        destination_selector=all_of(profile.evictor.node_selector),
        eviction_price_minutes=defaults.eviction_price_minutes,
        deviation_floor_ratio=defaults.deviation_floor / 100,
        pools=node_pools(args.node_pools or (), args.lines, at.below("nodePools"))
        if alone
        else as_pools(profiles),
        only_pools=not alone,
        dead_band_ratio=defaults.dead_band / 100,
        max_landing_risk=defaults.max_landing_risk,
        scheduler=scheduler_rules(args.scheduler or SchedulerSection(), at.below("scheduler")),
        maintenance_windows=tuple(s.window() for s in args.maintenance_windows or ()),
        blackout_windows=tuple(s.window() for s in args.blackout_windows or ()),
        follow_up=follow_up_rules(args.follow_up, at.below("followUp")),
        steering=SteeringRules(defaults.steering, **written(most_nodes=args.steering_max_nodes)),
        relieves_staying_excess=defaults.relieve_staying_excess,
        balance_scope=args.balance_scope or "",
        plugins=plugins,
        acknowledged_deschedulers=tuple(sorted(set(args.acknowledged_deschedulers or ()))),
    )
    check_kept_windows(policy, at)
    check_load_aware(args, policy, at)
    for plugin in policy.plugins:
        plugin.check(policy, at)
    return None if notes.refused else policy


def _configured(
    plugin: Plugin, args: LoadAwareArgs, notes: Notes, own: tuple[PluginArgs, Notes] | None
) -> Plugin:
    """The plugin with what is written of its keys, and with its own arguments if it has any."""
    by_default = plugin.strict() if args.compatibility is Compatibility.STRICT else plugin
    configured = by_default.configured(args, notes)
    return configured if own is None else configured.enabled(*own)


def _understanding(protections: Protections, plugins: Sequence[Plugin]) -> Protections:
    """Return a copy with the kinds of owners whose pods plugins let move."""
    kinds = (*protections.understood_owner_kinds, *(k for p in plugins for k in p.owner_kinds))
    return replace(protections, understood_owner_kinds=tuple(dict.fromkeys(kinds)))
