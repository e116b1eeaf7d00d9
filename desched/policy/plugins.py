"""Which plugins a policy runs, and with which arguments."""

from collections.abc import Iterator, Mapping

import msgspec

from desched.policy.peers import DEFAULT_EVICTOR, LOAD_AWARE, PeerPlugin
from desched.policy.problems import Notes
from desched.policy.schema import (
    DefaultEvictorConfig,
    DeschedulerPolicy,
    LoadAwareConfig,
    PeerPluginConfig,
    Plugins,
    PluginSet,
    Profile,
)
from desched.policy.schema_default_evictor import DefaultEvictorArgs
from desched.policy.schema_load_aware import LoadAwareArgs
from desched.policy.sections import keys
from desched.policy.wording import did_you_mean, quoted
from desched.policy.yaml_source import KeyPath

_ACTS_AT: Mapping[str, tuple[str, ...]] = {
    LOAD_AWARE: ("balance", "filter", "preevictionfilter", "preEvictionFilter"),
    DEFAULT_EVICTOR: ("filter", "preevictionfilter", "preEvictionFilter"),
}
_SEVERAL = "several profiles that enable LoadAware are not supported yet"


class ChosenProfile(msgspec.Struct, frozen=True):
    """The profile that desched runs, with where its arguments stand in the document."""

    name: str
    load_aware: LoadAwareArgs
    load_aware_path: KeyPath
    evictor: DefaultEvictorArgs
    evictor_path: KeyPath


def choose_profile(document: DeschedulerPolicy, notes: Notes) -> ChosenProfile | None:
    """The one profile that enables LoadAware; None, with problems noted, if there is not one."""
    if not document.profiles:
        notes.refuse(("profiles",), "there is no profile; one must enable LoadAware.")
        return None
    chosen: list[ChosenProfile | None] = []
    for index, profile in enumerate(document.profiles):
        path: KeyPath = ("profiles", index)
        _check_plugins(profile, path, notes)
        if LOAD_AWARE in _enabled_at(profile.plugins, "balance"):
            chosen.append(_configured(profile, path, notes))
        elif any(isinstance(config, LoadAwareConfig) for config in profile.plugin_config or ()):
            notes.refuse(
                (*path, "plugins"),
                "LoadAware is configured but not enabled, so nothing would happen; "
                "add it to plugins.balance.enabled.",
            )
    if len(chosen) > 1:
        notes.refuse(
            ("profiles",), f"{len(chosen)} profiles enable LoadAware; {_SEVERAL}: keep one of them."
        )
    elif not chosen and not notes.problems:
        notes.refuse(
            ("profiles",),
            "no profile enables LoadAware, so nothing would happen; "
            "add it to plugins.balance.enabled of one.",
        )
    return chosen[0] if chosen else None


def _sets(plugins: Plugins | None) -> Iterator[tuple[str, PluginSet]]:
    for key in keys(Plugins):
        found = getattr(plugins, _FIELD_OF_KEY[key], None)
        if found is not None:
            yield key, found


_FIELD_OF_KEY = {field.alias or name: name for name, field in Plugins.model_fields.items()}


def _enabled_at(plugins: Plugins | None, wanted: str) -> tuple[str, ...]:
    return next((found.enabled or () for key, found in _sets(plugins) if key == wanted), ())


def _check_plugins(profile: Profile, path: KeyPath, notes: Notes) -> None:
    for key, plugin_set in _sets(profile.plugins):
        at = (*path, "plugins", key)
        for index, name in enumerate(plugin_set.enabled or ()):
            problem = _why_not(name, key, plugin_set)
            if problem:
                notes.refuse((*at, "enabled", index), problem)
        for index, name in enumerate(plugin_set.disabled or ()):
            if name == DEFAULT_EVICTOR:
                notes.warn(
                    (*at, "disabled", index), "DefaultEvictor's protections hold all the same."
                )
    for index, config in enumerate(profile.plugin_config or ()):
        if isinstance(config, PeerPluginConfig):
            notes.warn(
                (*path, "pluginConfig", index),
                f"{config.name} is a plugin of {config.name.run_by}; its configuration has no "
                "effect here.",
            )


def _why_not(name: str, key: str, plugin_set: PluginSet) -> str:
    """Why a plugin cannot be enabled here, empty if it can."""
    if name in set(PeerPlugin):
        return (
            f"{name} is a plugin of {PeerPlugin(name).run_by}, which can run it beside desched; "
            "desched runs LoadAware only, so remove it here."
        )
    if name not in _ACTS_AT:
        allowed = " and ".join(_ACTS_AT)
        return (
            f"found {quoted(name)}, which is no plugin that desched knows; allowed are "
            f"{allowed}{did_you_mean(name, _ACTS_AT) or '.'}"
        )
    if key not in _ACTS_AT[name]:
        return f"{name} does nothing at this extension point; enable it at {_ACTS_AT[name][0]}."
    if name in (plugin_set.disabled or ()) and name == LOAD_AWARE:
        return "LoadAware is enabled and disabled at once; remove it from one of the lists."
    return ""


def _configured(profile: Profile, path: KeyPath, notes: Notes) -> ChosenProfile | None:
    load_aware: list[tuple[KeyPath, LoadAwareArgs]] = []
    evictor: list[tuple[KeyPath, DefaultEvictorArgs]] = []
    for index, config in enumerate(profile.plugin_config or ()):
        at: KeyPath = (*path, "pluginConfig", index)
        if isinstance(config, LoadAwareConfig):
            load_aware.append(((*at, "args"), config.args))
        elif isinstance(config, DefaultEvictorConfig):
            evictor.append(((*at, "args"), config.args or DefaultEvictorArgs()))
    for name, found in ((LOAD_AWARE, load_aware), (DEFAULT_EVICTOR, evictor)):
        if len(found) > 1:
            notes.refuse(found[1][0][:-1], f"{name} is configured twice; remove one of the two.")
    if not load_aware:
        notes.refuse(
            path,
            "LoadAware is enabled but not configured; "
            "add it to pluginConfig with its thresholds and metrics.",
        )
        return None
    evictor_path, evictor_args = evictor[0] if evictor else (path, DefaultEvictorArgs())
    return ChosenProfile(
        profile.name or "", load_aware[0][1], load_aware[0][0], evictor_args, evictor_path
    )
