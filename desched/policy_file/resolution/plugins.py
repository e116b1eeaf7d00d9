"""Which plugins a policy runs, and with which arguments."""

from collections.abc import Mapping

import msgspec

from desched.policy.compatibility import Defaults, SteeringMode, defaults_of
from desched.policy_file.document.default_evictor import DefaultEvictorArgs
from desched.policy_file.document.gpu_fragmentation import GpuFragmentationArgs
from desched.policy_file.document.load_aware import LoadAwareArgs
from desched.policy_file.document.root import (
    DefaultEvictorConfig,
    DeschedulerPolicy,
    GpuFragmentationConfig,
    LoadAwareConfig,
    Plugins,
    PluginSet,
    Profile,
    UpstreamPluginConfig,
)
from desched.policy_file.document.sections import names
from desched.policy_file.document.upstream_plugins import (
    COUNTERPARTS,
    DEFAULT_EVICTOR,
    GPU_FRAGMENTATION,
    LOAD_AWARE,
    UPSTREAM_PLUGINS,
    no_such_plugin,
)
from desched.policy_file.document.values import written
from desched.policy_file.reading.problems import Notes

_ACTS_AT: Mapping[str, tuple[str, ...]] = {
    LOAD_AWARE: ("balance", "filter", "preevictionfilter", "preEvictionFilter"),
    GPU_FRAGMENTATION: ("balance",),
    DEFAULT_EVICTOR: ("filter", "preevictionfilter", "preEvictionFilter"),
}


class ChosenProfile(msgspec.Struct, frozen=True):
    """A configuration of LoadAware that desched runs; the notes are for the args of each plugin."""

    name: str
    load_aware: LoadAwareArgs
    notes: Notes
    evictor: DefaultEvictorArgs
    evictor_notes: Notes

    @property
    def plugins(self) -> tuple[tuple[LoadAwareArgs | DefaultEvictorArgs, Notes], ...]:
        """The args of both plugins, for keys that both have."""
        return (self.load_aware, self.notes), (self.evictor, self.evictor_notes)

    @property
    def defaults(self) -> Defaults:
        """The defaults, replaced by the values of LoadAware's args; margins and limits excepted."""
        args = self.load_aware
        evicts = args.evict_single_replica
        price = args.eviction_price
        given = written(
            eviction_price_minutes=None if price is None else price / 60,
            deviation_floor=args.deviation_floor,
            max_landing_risk=args.max_landing_risk,
            max_grace_period_seconds=args.max_grace_period,
            steering=args.steering and SteeringMode(args.steering),
            gpu_pods=args.gpu_pods,
            relieve_staying_excess=args.relieve_staying_excess,
            cache_affinity=args.cache_affinity,
            single_replicas=None if evicts is None else not evicts,
        )
        return msgspec.structs.replace(defaults_of(args.compatibility), **given)


def choose_profiles(document: DeschedulerPolicy, notes: Notes) -> list[ChosenProfile]:
    """Every LoadAware that is enabled, in order; none, with problems noted, if none is."""
    if not document.profiles:
        notes.refuse("there is no profile; one must enable LoadAware.", "profiles")
        return []
    chosen: list[ChosenProfile] = []
    for index, profile in enumerate(document.profiles):
        at = notes.below("profiles", index)
        _check_plugins(profile, at)
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
            "add it to plugins.balance.enabled of one.",
            "profiles",
        )
    return chosen


def choose_gpu_fragmentation(
    document: DeschedulerPolicy, notes: Notes
) -> tuple[GpuFragmentationArgs, Notes] | None:
    """The arguments of GpuFragmentation with their notes, None if no profile enables it."""
    chosen: tuple[GpuFragmentationArgs, Notes] | None = None
    for index, profile in enumerate(document.profiles):
        at = notes.below("profiles", index)
        enabled = _balancing(profile)
        if GPU_FRAGMENTATION in enabled:
            listed = at.below("plugins", "balance", "enabled", enabled.index(GPU_FRAGMENTATION))
            if LOAD_AWARE not in enabled and not _configures_load_aware(profile):
                listed.refuse("GpuFragmentation needs LoadAware in the same profile; enable both.")
            if chosen:
                listed.refuse(
                    "GpuFragmentation is enabled in an earlier profile, and counts for all nodes; "
                    "enable it once."
                )
            chosen = _fragmentation_args(profile, at, listed) or chosen
            continue
        for position, config in enumerate(profile.plugin_config or ()):
            if isinstance(config, GpuFragmentationConfig):
                at.refuse(
                    "GpuFragmentation is configured but not enabled, so no node would be drained; "
                    "add it to plugins.balance.enabled, or remove it.",
                    *("pluginConfig", position),
                )
    return chosen


def _fragmentation_args(
    profile: Profile, notes: Notes, listed: Notes
) -> tuple[GpuFragmentationArgs, Notes] | None:
    found: tuple[GpuFragmentationArgs, Notes] | None = None
    for index, config in enumerate(profile.plugin_config or ()):
        if isinstance(config, GpuFragmentationConfig):
            at = notes.below("pluginConfig", index)
            if found:
                at.refuse(f"{GPU_FRAGMENTATION} is configured twice; remove one of the two.")
            found = config.args or GpuFragmentationArgs(), at.below("args")
    if found is None:
        listed.refuse(
            "GpuFragmentation is enabled but not configured; add it to pluginConfig with demand or "
            "reserve."
        )
    return found


def _balancing(profile: Profile) -> tuple[str, ...]:
    """The plugins that are enabled at their extension point `balance`."""
    balance = profile.plugins and profile.plugins.balance
    return (balance and balance.enabled) or ()


def _configures_load_aware(profile: Profile) -> bool:
    return any(isinstance(config, LoadAwareConfig) for config in profile.plugin_config or ())


def _check_plugins(profile: Profile, notes: Notes) -> None:
    for key, name in names(Plugins).items():
        plugin_set = getattr(profile.plugins, name, None) or PluginSet()
        at = notes.below("plugins", key)
        for index, plugin in enumerate(plugin_set.enabled or ()):
            if problem := _why_not(plugin, key, plugin_set):
                at.refuse(problem, "enabled", index)
        for index, plugin in enumerate(plugin_set.disabled or ()):
            if plugin == DEFAULT_EVICTOR:
                at.warn("DefaultEvictor's protections hold all the same.", "disabled", index)
    for index, config in enumerate(profile.plugin_config or ()):
        if isinstance(config, UpstreamPluginConfig):
            runs = UPSTREAM_PLUGINS[config.name]
            text = f"{config.name} is a plugin of {runs}; its configuration has no effect here."
            notes.warn(text, "pluginConfig", index)


def _why_not(name: str, key: str, plugin_set: PluginSet) -> str:
    """Why a plugin cannot be enabled here, empty if it can."""
    if name in UPSTREAM_PLUGINS:
        advice = ", which can run it beside desched; desched does not have it, so remove it here."
        if name in COUNTERPARTS:
            advice = "; `desched policy convert` translates it to LoadAware."
        return f"{name} is a plugin of {UPSTREAM_PLUGINS[name]}{advice}"
    if name not in _ACTS_AT:
        return no_such_plugin(name)
    if key not in _ACTS_AT[name]:
        return f"{name} does nothing at this extension point; enable it at {_ACTS_AT[name][0]}."
    if name in (plugin_set.disabled or ()) and name != DEFAULT_EVICTOR:
        return f"{name} is enabled and disabled at once; remove it from one of the lists."
    return ""


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
