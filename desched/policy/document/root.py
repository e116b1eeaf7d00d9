"""The policy document as people write it: DeschedulerPolicy of descheduler/v1alpha2."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from desched.policy.document.default_evictor import DefaultEvictorArgs
from desched.policy.document.load_aware import LoadAwareArgs
from desched.policy.document.upstream_plugins import DEFAULT_EVICTOR, LOAD_AWARE, PeerPlugin
from desched.policy.document.values import Count, Section, SelectorText, refusal
from desched.policy.wording import did_you_mean, quoted

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
    WithJsonSchema(_name_schema({"enum": [LOAD_AWARE, DEFAULT_EVICTOR]})),
]
AnyPluginName = Annotated[
    str, BeforeValidator(_plugin_name), WithJsonSchema(_name_schema({"type": "string"}))
]


class PluginSet(Section):
    """Which plugins run at one extension point."""

    enabled: tuple[RunPluginName, ...] | None = Field(
        default=None, description="Plugins that run, as names or as `{name: …}`."
    )
    disabled: tuple[AnyPluginName, ...] | None = Field(
        default=None, description="Accepted; what is not enabled does not run."
    )


class Plugins(Section):
    """Which plugins run; `balance` is the extension point of LoadAware."""

    presort: PluginSet | None = Field(default=None, description="Accepted and not used.")
    sort: PluginSet | None = Field(default=None, description="Accepted and not used.")
    deschedule: PluginSet | None = Field(default=None, description="Accepted and not used.")
    balance: PluginSet | None = Field(default=None, description="Enable `LoadAware` here.")
    filter: PluginSet | None = Field(
        default=None, description="Accepted; `DefaultEvictor` always filters."
    )
    preevictionfilter: PluginSet | None = Field(
        default=None, description="Accepted; `DefaultEvictor` always filters."
    )
    pre_eviction_filter: PluginSet | None = Field(
        default=None, description="Another spelling of `preevictionfilter`."
    )


def _peer_plugin(value: object) -> PeerPlugin:
    if isinstance(value, str) and value in set(PeerPlugin):
        return PeerPlugin(value)
    known = (LOAD_AWARE, DEFAULT_EVICTOR)
    raise refusal(
        f"found {quoted(value)}, which is no plugin that desched knows; "
        f"allowed are {' and '.join(known)}{did_you_mean(value, known)}"
    )


class LoadAwareConfig(Section):
    """The configuration of LoadAware."""

    name: Literal["LoadAware"] = Field(description="The plugin.")
    args: LoadAwareArgs = Field(description="Its arguments.")


class DefaultEvictorConfig(Section):
    """The configuration of DefaultEvictor."""

    name: Literal["DefaultEvictor"] = Field(description="The plugin.")
    args: DefaultEvictorArgs | None = Field(default=None, description="Its arguments.")


class PeerPluginConfig(Section):
    """The configuration of a plugin that desched does not run; it has no effect."""

    name: Annotated[PeerPlugin, BeforeValidator(_peer_plugin)] = Field(description="The plugin.")
    args: dict[str, Any] | None = Field(default=None, description="Not read.")


def _config_section(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    if name == LOAD_AWARE:
        return LoadAwareConfig.__name__
    return DefaultEvictorConfig.__name__ if name == DEFAULT_EVICTOR else PeerPluginConfig.__name__


PluginConfig = Annotated[
    Annotated[LoadAwareConfig, Tag(LoadAwareConfig.__name__)]
    | Annotated[DefaultEvictorConfig, Tag(DefaultEvictorConfig.__name__)]
    | Annotated[PeerPluginConfig, Tag(PeerPluginConfig.__name__)],
    Discriminator(_config_section),
]


class Profile(Section):
    """A set of plugins and their configuration."""

    name: str | None = Field(default=None, description="For logs and reports.")
    plugin_config: tuple[PluginConfig, ...] | None = Field(
        default=None, description="The configuration of plugins, one entry for each."
    )
    plugins: Plugins | None = Field(default=None, description="Which plugins run.")


class DeschedulerPolicy(Section):
    """What may be disturbed, and when."""

    api_version: Literal["descheduler/v1alpha2"] = Field(description="The version of this format.")
    kind: Literal["DeschedulerPolicy"] = Field(description="The kind of document.")
    node_selector: SelectorText | None = Field(
        default=None,
        description="Label selector of the nodes that are looked at, as sources and destinations.",
    )
    max_no_of_pods_to_evict_per_node: Count | None = Field(
        default=None,
        description="The most evictions from one node in one cycle. Where `evictionLimits` says "
        "so too, the smaller holds, also in the two that follow.",
    )
    max_no_of_pods_to_evict_per_namespace: Count | None = Field(
        default=None, description="The most evictions from one namespace in one cycle."
    )
    max_no_of_pods_to_evict_total: Count | None = Field(
        default=None, description="The most evictions in one cycle."
    )
    profiles: tuple[Profile, ...] = Field(
        description="Profiles; at least one of them enables LoadAware. Several, with different "
        "`nodeSelector`, are pools of nodes: the first that selects a node has it."
    )
