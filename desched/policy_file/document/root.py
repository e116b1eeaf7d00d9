"""The policy document as people write it: DeschedulerPolicy of descheduler/v1alpha2."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Tag, WithJsonSchema

from desched.policy_file.document.default_evictor import DefaultEvictorArgs
from desched.policy_file.document.gpu_fragmentation import GpuFragmentationArgs
from desched.policy_file.document.load_aware import LoadAwareArgs
from desched.policy_file.document.upstream_plugins import (
    OWN_PLUGINS,
    UPSTREAM_PLUGINS,
    no_such_plugin,
)
from desched.policy_file.document.values import Count, Form, Section, SelectorText, refusal

API_VERSION = "descheduler/v1alpha2"
KIND = "DeschedulerPolicy"


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


class GpuFragmentationConfig(Section):
    """The configuration of GpuFragmentation."""

    name: Literal["GpuFragmentation"]
    """The plugin."""
    args: GpuFragmentationArgs | None = None
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


PluginConfig = Annotated[
    Annotated[LoadAwareConfig, Tag(LoadAwareConfig.__name__)]
    | Annotated[GpuFragmentationConfig, Tag(GpuFragmentationConfig.__name__)]
    | Annotated[DefaultEvictorConfig, Tag(DefaultEvictorConfig.__name__)]
    | Annotated[UpstreamPluginConfig, Tag(UpstreamPluginConfig.__name__)],
    Discriminator(_config_section),
]


class Profile(Section):
    """A set of plugins and their configuration."""

    name: str | None = None
    """For logs and reports."""
    plugin_config: tuple[PluginConfig, ...] | None = None
    """The configuration of plugins, one entry for each."""
    plugins: Plugins | None = None
    """Which plugins run."""


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
