"""What plugins keep of the objects of a cluster."""

from collections.abc import Mapping
from typing import ClassVar, Self

import msgspec


class Objects(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """What one plugin keeps of the objects of a cluster; all fields have a default.

    A snapshot file stores and renames the fields by their types, under the name of the `plugin`.
    """

    plugin: ClassVar[str]

    @classmethod
    def of(cls, extras: "Extras") -> Self:
        """Those of the plugin, empty if none were read."""
        objects = extras.get(cls.plugin)
        return objects if isinstance(objects, cls) else cls()

    @property
    def extras(self) -> "Extras":
        """An entry with them, none if they are empty."""
        return {} if self == type(self)() else {self.plugin: self}


Extras = Mapping[str, Objects]
"""What plugins keep, by the name of the plugin."""
