"""Profiles: which configurations of LoadAware run, beside which of the other plugins."""

from collections.abc import Sequence
from itertools import count

import msgspec

from desched.model.selectors import LabelSelector
from desched.policy.policy import NodePool
from desched.policy_file.sections.default_evictor import DefaultEvictorArgs
from desched.policy_file.sections.load_aware import LoadAwareArgs
from desched.policy_file.sections.plugins import (
    DefaultEvictorConfig,
    LoadAwareConfig,
    PluginConfig,
    Plugins,
    UpstreamPluginConfig,
    check_plugins,
)
from desched.policy_file.sections.thresholds import rules_between
from desched.policy_file.upstream_plugins import (
    DEFAULT_EVICTOR,
    LOAD_AWARE,
    UPSTREAM_PLUGINS,
)
from desched.policy_keys.notes import Notes
from desched.policy_keys.profile_plugin import ProfilePlugin
from desched.policy_keys.section import PluginArgs, Section, names

_OF_A_POOL = ("nodeSelector", "thresholds", "targetThresholds", "stopMargin", "ceilingMargin")
_ALL_THE_SAME = "one cycle serves all of them, so they must name the same."
_MAY_DIFFER = (
    "from that of the first LoadAware entry; one cycle serves all of them, so they may differ only "
    f"in {', '.join(_OF_A_POOL[:-1])} and {_OF_A_POOL[-1]}."
)


class Profile(Section):
    """A set of plugins and their configuration."""

    name: str | None = None
    """For logs and reports."""
    plugin_config: tuple[PluginConfig, ...] | None = None
    """The configuration of plugins, one entry for each."""
    plugins: Plugins | None = None
    """Which plugins run."""


class ChosenProfile(msgspec.Struct, frozen=True):
    """A configuration of LoadAware that desched runs; the notes are for the args of each plugin."""

    name: str
    load_aware: LoadAwareArgs
    notes: Notes
    evictor: DefaultEvictorArgs
    evictor_notes: Notes


def choose_profiles(profiles: Sequence[Profile], notes: Notes) -> list[ChosenProfile]:
    """Every LoadAware that is enabled, in order; none, with problems noted, if none is."""
    if not profiles:
        notes.refuse("there is no profile; one must enable LoadAware.")
        return []
    chosen: list[ChosenProfile] = []
    for index, profile in enumerate(profiles):
        at = notes.below(index)
        check_plugins(profile.plugins, at.below("plugins"))
        for position, config in enumerate(profile.plugin_config or ()):
            if isinstance(config, UpstreamPluginConfig):
                runs = UPSTREAM_PLUGINS[config.name]
                text = f"{config.name} is a plugin of {runs}; its configuration has no effect here."
                at.warn(text, "pluginConfig", position)
        if LOAD_AWARE in _balancing(profile):
            chosen += _configured(profile, at)
        elif _configures_load_aware(profile):
            at.refuse(
                "LoadAware is configured but not enabled, so nothing would happen; "
                "add it to plugins.balance.enabled.",
                "plugins",
            )
            chosen += _configured(profile, at)  # for the problems of its args
    if not chosen and not notes.refused:
        notes.refuse(
            "no profile enables LoadAware, so nothing would happen; "
            "add it to plugins.balance.enabled of one."
        )
    return chosen


def choose_enabled(
    plugin: type[ProfilePlugin], profiles: Sequence[Profile], notes: Notes
) -> tuple[PluginArgs, Notes] | None:
    """The arguments of a plugin beside LoadAware with their notes, None if it is not enabled."""
    chosen: tuple[PluginArgs, Notes] | None = None
    name = plugin.plugin_name()
    for index, profile in enumerate(profiles):
        at = notes.below(index)
        enabled = _balancing(profile)
        if name in enabled:
            listed = at.below("plugins", "balance", "enabled", enabled.index(name))
            if LOAD_AWARE not in enabled and not _configures_load_aware(profile):
                listed.refuse(f"{name} needs LoadAware in the same profile; enable both.")
            if chosen:
                listed.refuse(
                    f"{name} is enabled in an earlier profile, and counts for all nodes; "
                    "enable it once."
                )
            chosen = _args_of(plugin, profile, at, listed) or chosen
            continue
        for position, config in enumerate(profile.plugin_config or ()):
            if isinstance(config, plugin):
                at.refuse(
                    f"{name} is configured but not enabled, so {plugin.idle}; "
                    "add it to plugins.balance.enabled, or remove it.",
                    *("pluginConfig", position),
                )
    return chosen


def _args_of(
    plugin: type[ProfilePlugin], profile: Profile, notes: Notes, listed: Notes
) -> tuple[PluginArgs, Notes] | None:
    args: tuple[PluginArgs, Notes] | None = None
    name = plugin.plugin_name()
    for index, config in enumerate(profile.plugin_config or ()):
        if isinstance(config, plugin):
            at = notes.below("pluginConfig", index)
            if args:
                at.refuse(f"{name} is configured twice; remove one of the two.")
            args = config.args or plugin.args_section()(), at.below("args")
    if args is None:
        listed.refuse(
            f"{name} is enabled but not configured; add it to pluginConfig with {plugin.needs}."
        )
    return args


def _balancing(profile: Profile) -> tuple[str, ...]:
    """The plugins that are enabled at their extension point `balance`."""
    balance = profile.plugins and profile.plugins.balance
    return (balance and balance.enabled) or ()


def _configures_load_aware(profile: Profile) -> bool:
    return any(isinstance(config, LoadAwareConfig) for config in profile.plugin_config or ())


def _configured(profile: Profile, notes: Notes) -> list[ChosenProfile]:
    load_aware: list[tuple[LoadAwareArgs, Notes]] = []
    evictor, evictor_notes = None, notes
    for index, config in enumerate(profile.plugin_config or ()):
        at = notes.below("pluginConfig", index)
        if isinstance(config, LoadAwareConfig):
            load_aware.append((config.args, at.below("args")))
        elif isinstance(config, DefaultEvictorConfig):
            if evictor:
                at.refuse(f"{DEFAULT_EVICTOR} is configured twice; remove one of the two.")
            evictor, evictor_notes = config.args or DefaultEvictorArgs(), at.below("args")
    if not load_aware:
        notes.refuse(
            "LoadAware is enabled but not configured; "
            "add it to pluginConfig with its thresholds and metrics."
        )
    evictor = evictor or DefaultEvictorArgs()
    return [
        ChosenProfile(profile.name or "", args, at, evictor, evictor_notes)
        for args, at in load_aware
    ]


def as_pools(profiles: Sequence[ChosenProfile]) -> tuple[NodePool, ...]:
    """Several configurations of LoadAware as pools: the first that selects a node has it.

    They may differ only in their nodes and in the thresholds of these.
    """
    pools_by_name: dict[str, NodePool] = {}
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
        while name in pools_by_name:
            name = next(numbered)
        rules = rules_between(args.lines, notes)
        pools_by_name[name] = NodePool(name, args.node_selector or LabelSelector(), rules)
    return tuple(pools_by_name.values())


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
