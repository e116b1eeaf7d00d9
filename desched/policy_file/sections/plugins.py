"""Which plugins a profile runs, and the configuration of each."""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Tag, WithJsonSchema

from desched.policy_file.sections.default_evictor import DefaultEvictorArgs
from desched.policy_file.sections.load_aware import LoadAwareArgs
from desched.policy_file.upstream_plugins import (
    COUNTERPARTS,
    DEFAULT_EVICTOR,
    LOAD_AWARE,
    OF_HOUSE,
    OWN_PLUGINS,
    UPSTREAM_PLUGINS,
    no_such_plugin,
)
from desched.policy_keys.notes import Notes
from desched.policy_keys.profile_plugin import ProfilePlugin
from desched.policy_keys.section import Section, names, refusal
from desched.policy_keys.values import Form

_ACTS_AT: Mapping[str, tuple[str, ...]] = {
    LOAD_AWARE: ("balance", "filter", "preevictionfilter", "preEvictionFilter"),
    **dict.fromkeys(OF_HOUSE, ("balance",)),
    DEFAULT_EVICTOR: ("filter", "preevictionfilter", "preEvictionFilter"),
}


def _plugin_name(value: Any) -> Any:
    """`{name: LoadAware}`, as Koordinator writes it, is `LoadAware`."""
    if isinstance(value, dict) and value.keys() == {"name"}:
        return value["name"]
    return value


def _name_schema(name: dict[str, Any]) -> dict[str, Any]:
    named = {
        "type": "object",
        "properties": {"name": name},
        "required": ["name"],
        "additionalProperties": False,
    }
    return {"anyOf": [name, named]}


RunPluginName = Annotated[
    str,
    BeforeValidator(_plugin_name),
    WithJsonSchema(_name_schema({"enum": list(OWN_PLUGINS)})),
]
AnyPluginName = Annotated[
    str, BeforeValidator(_plugin_name), WithJsonSchema(_name_schema({"type": "string"}))
]


class PluginSet(Section):
    """Which plugins run at one extension point."""

    enabled: tuple[RunPluginName, ...] | None = None
    """Plugins that run, as names or as `{name: …}`."""
    disabled: tuple[AnyPluginName, ...] | None = None
    """Accepted; what is not enabled does not run."""


class Plugins(Section):
    """Which plugins run; `balance` is the extension point of LoadAware and GpuFragmentation."""

    presort: PluginSet | None = None
    """Accepted and not used."""
    sort: PluginSet | None = None
    """Accepted and not used."""
    deschedule: PluginSet | None = None
    """Accepted and not used."""
    balance: PluginSet | None = None
    """Enable `LoadAware` here, and `GpuFragmentation` beside it if nodes are to be drained for
    GPUs."""
    filter: PluginSet | None = None
    """Accepted; `DefaultEvictor` always filters."""
    preevictionfilter: PluginSet | None = None
    """Accepted; `DefaultEvictor` always filters."""
    pre_eviction_filter: PluginSet | None = None
    """Another spelling of `preevictionfilter`."""


def _upstream_plugin(value: object) -> object:
    if isinstance(value, str) and value in UPSTREAM_PLUGINS:
        return value
    raise refusal(no_such_plugin(value))


class LoadAwareConfig(Section):
    """The configuration of LoadAware."""

    name: Literal["LoadAware"]
    """The plugin."""
    args: LoadAwareArgs
    """Its arguments."""


class DefaultEvictorConfig(Section):
    """The configuration of DefaultEvictor."""

    name: Literal["DefaultEvictor"]
    """The plugin."""
    args: DefaultEvictorArgs | None = None
    """Its arguments."""


class UpstreamPluginConfig(Section):
    """The configuration of a plugin that desched does not run; it has no effect."""

    name: Annotated[str, Form(_upstream_plugin, {"type": "string", "enum": list(UPSTREAM_PLUGINS)})]
    """The plugin."""
    args: dict[str, Any] | None = None
    """Not read."""


def _config_section(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    # OWN_PLUGINS is no set: a mapping may be in place of the name.
    return f"{name}Config" if name in OWN_PLUGINS else UpstreamPluginConfig.__name__


if TYPE_CHECKING:
    PluginConfig = LoadAwareConfig | ProfilePlugin | DefaultEvictorConfig | UpstreamPluginConfig
else:  # only the list of plugins says which there are
    _CONFIGS = (LoadAwareConfig, *OF_HOUSE.values(), DefaultEvictorConfig, UpstreamPluginConfig)
    _tagged = (Annotated[config, Tag(config.__name__)] for config in _CONFIGS)
    PluginConfig = Annotated[reduce(or_, _tagged), Discriminator(_config_section)]


def check_plugins(plugins: Plugins | None, notes: Notes) -> None:
    """Note what cannot be enabled, or disabled, where it is."""
    for key, name in names(Plugins).items():
        plugin_set = getattr(plugins, name, None) or PluginSet()
        at = notes.below(key)
        for index, plugin in enumerate(plugin_set.enabled or ()):
            if problem := _why_not(plugin, key, plugin_set):
                at.refuse(problem, "enabled", index)
        for index, plugin in enumerate(plugin_set.disabled or ()):
            if plugin == DEFAULT_EVICTOR:
                at.warn("DefaultEvictor's protections hold all the same.", "disabled", index)


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
