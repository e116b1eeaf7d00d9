"""Plugins of desched that profiles enable beside LoadAware, with arguments of their own."""

from typing import ClassVar, cast

from desched.policy_keys.section import PluginArgs, Section, sections_below


class ProfilePlugin(Section):
    """The configuration of such a plugin; its class has the name of the plugin before `Config`.

    `needs` are the keys that it has at least, and `idle` is what does not happen without it.
    """

    name: str
    args: PluginArgs | None
    needs: ClassVar[str]
    idle: ClassVar[str]

    @classmethod
    def plugin_name(cls) -> str:
        """The name of the plugin in profiles."""
        return cls.__name__.removesuffix("Config")

    @classmethod
    def args_section(cls) -> type[PluginArgs]:
        """The section of its arguments."""
        (section,) = sections_below(cls.model_fields["args"].annotation)
        return cast(type[PluginArgs], section)
