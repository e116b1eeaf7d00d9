"""Which plugins a policy runs, and with which arguments."""

from collections.abc import Iterator, Mapping

import msgspec

from desched.policy.document.default_evictor import DefaultEvictorArgs
from desched.policy.document.load_aware import LoadAwareArgs
from desched.policy.document.root import (
    DefaultEvictorConfig,
    DeschedulerPolicy,
    LoadAwareConfig,
    Plugins,
    PluginSet,
    Profile,
    UpstreamPluginConfig,
)
from desched.policy.document.sections import keys
from desched.policy.document.upstream_plugins import (
    COUNTERPARTS,
    DEFAULT_EVICTOR,
    LOAD_AWARE,
    UpstreamPlugin,
)
from desched.policy.reading.problems import Notes
from desched.policy.reading.yaml_source import KeyPath
from desched.policy.wording import did_you_mean, quoted

_ACTS_AT: Mapping[str, tuple[str, ...]] = {
    LOAD_AWARE: ("balance", "filter", "preevictionfilter", "preEvictionFilter"),
    DEFAULT_EVICTOR: ("filter", "preevictionfilter", "preEvictionFilter"),
}


class ChosenProfile(msgspec.Struct, frozen=True):
    """A configuration of LoadAware that desched runs, with where it stands in the document."""

    name: str
    load_aware: LoadAwareArgs
    load_aware_path: KeyPath
    evictor: DefaultEvictorArgs
    evictor_path: KeyPath


def choose_profiles(document: DeschedulerPolicy, notes: Notes) -> list[ChosenProfile]:
    """Every LoadAware that is enabled, in order; none, with problems noted, if none is."""
    if not document.profiles:
        notes.refuse(("profiles",), "there is no profile; one must enable LoadAware.")
        return []
    chosen: list[ChosenProfile] = []
    for index, profile in enumerate(document.profiles):
        path: KeyPath = ("profiles", index)
        _check_plugins(profile, path, notes)
        if LOAD_AWARE in _enabled_at(profile.plugins, "balance"):
            chosen += _configured(profile, path, notes)
        elif any(isinstance(config, LoadAwareConfig) for config in profile.plugin_config or ()):
            notes.refuse(
                (*path, "plugins"),
                "LoadAware is configured but not enabled, so nothing would happen; "
                "add it to plugins.balance.enabled.",
            )
    if not chosen and not notes.problems:
        notes.refuse(
            ("profiles",),
            "no profile enables LoadAware, so nothing would happen; "
            "add it to plugins.balance.enabled of one.",
        )
    return chosen


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
        if isinstance(config, UpstreamPluginConfig):
            notes.warn(
                (*path, "pluginConfig", index),
                f"{config.name} is a plugin of {config.name.run_by}; its configuration has no "
                "effect here.",
            )


def _why_not(name: str, key: str, plugin_set: PluginSet) -> str:
    """Why a plugin cannot be enabled here, empty if it can."""
    if name in set(UpstreamPlugin):
        advice = (
            "; its counterpart here is LoadAware, so enable that instead, as "
            "policies/cautious.yaml does."
            if name in COUNTERPARTS
            else ", which can run it beside desched; desched runs LoadAware only, so remove it "
            "here."
        )
        return f"{name} is a plugin of {UpstreamPlugin(name).run_by}{advice}"
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


def _configured(profile: Profile, path: KeyPath, notes: Notes) -> list[ChosenProfile]:
    load_aware: list[tuple[KeyPath, LoadAwareArgs]] = []
    evictor: list[tuple[KeyPath, DefaultEvictorArgs]] = []
    for index, config in enumerate(profile.plugin_config or ()):
        at: KeyPath = (*path, "pluginConfig", index)
        if isinstance(config, LoadAwareConfig):
            load_aware.append(((*at, "args"), config.args))
        elif isinstance(config, DefaultEvictorConfig):
            evictor.append(((*at, "args"), config.args or DefaultEvictorArgs()))
    if len(evictor) > 1:
        notes.refuse(
            evictor[1][0][:-1], f"{DEFAULT_EVICTOR} is configured twice; remove one of the two."
        )
    if not load_aware:
        notes.refuse(
            path,
            "LoadAware is enabled but not configured; "
            "add it to pluginConfig with its thresholds and metrics.",
        )
    evictor_path, evictor_args = evictor[0] if evictor else (path, DefaultEvictorArgs())
    return [
        ChosenProfile(profile.name or "", args, at, evictor_args, evictor_path)
        for at, args in load_aware
    ]
