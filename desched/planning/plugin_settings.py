"""What a policy says about a plugin, and what the core asks of that."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from desched.policy.policy import Policy

if TYPE_CHECKING:  # they need pydantic, which planning does not load
    from desched.policy_keys.notes import Notes
    from desched.policy_keys.profile_plugin import ProfilePlugin
    from desched.policy_keys.section import Section


class PluginSettings(msgspec.Struct, frozen=True, cache_hash=True):
    """The settings of a plugin: its fields.

    `keys` are those that it adds to the arguments of LoadAware; each sets the field of its name.
    `in_profiles` is its configuration if profiles enable it by name.
    """

    keys: "ClassVar[type[Section] | None]" = None
    in_profiles: "ClassVar[type[ProfilePlugin] | None]" = None

    def strict(self) -> Self:
        """Return a copy with the defaults of `compatibility: Strict`."""
        return self

    def configured(self, args: Any, notes: "Notes") -> Self:
        """Return a copy with what its `keys` of LoadAware say; problems are noted."""
        names = self.keys.model_fields if self.keys is not None else ()
        values = {name: getattr(args, name) for name in names}
        written = {name: value for name, value in values.items() if value is not None}
        return msgspec.structs.replace(self, **written)

    def enabled(self, args: Any, notes: "Notes") -> Self:
        """Return a copy with its arguments in the profile; what is wrong is noted."""
        return self

    def further_settings(self) -> Iterable[tuple[tuple[str, ...], str]]:
        """What no key of `keys` sets, by the path of its key, as people read it."""
        return ()

    def check(self, policy: Policy, notes: "Notes") -> None:
        """Note what is wrong with its settings beside the rest of the policy."""

    @property
    def moves_without_overload(self) -> bool:
        """Whether the policy lets it move pods although no node is overloaded."""
        return False

    @property
    def owner_kinds(self) -> frozenset[str]:
        """Further kinds of controllers, as group and kind, whose pods the policy lets move."""
        return frozenset()
