"""What plugins observe beside load."""

from collections.abc import Mapping
from typing import ClassVar, Self

import msgspec


class Facts(msgspec.Struct, frozen=True):
    """What one plugin has observed in a cycle; a report has it by the name of the `plugin`."""

    plugin: ClassVar[str]

    @classmethod
    def of(cls, facts: "Mapping[str, Facts]") -> Self | None:
        """Return those of this plugin, None if it has observed nothing."""
        own = facts.get(cls.plugin)
        return own if isinstance(own, cls) else None
