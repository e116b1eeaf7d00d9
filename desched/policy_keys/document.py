"""A document of a file as plain values, with the place of every key."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from desched.policy_keys.findings import (
    FindingRule,
    InvalidPolicy,
    KeyPath,
    Place,
    PolicyFinding,
)


class BlockText(NamedTuple):
    """Where the content of a text that is a block (`|`) begins, and how far it is indented."""

    line: int
    indent: int


class YamlDocument(msgspec.Struct, frozen=True):
    """One document of a file.

    `places` has the place of every key and list item, `texts` that of every text that is a block.
    `findings` are about its form; what they are about is null or left out in `value`.
    """

    source: str
    value: object
    places: Mapping[KeyPath, Place]
    texts: Mapping[KeyPath, BlockText]
    findings: tuple[PolicyFinding, ...] = ()

    def place_of(self, path: KeyPath) -> Place:
        """The place of the key, or of its closest parent that is in the document."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place())

    def refused(self, path: KeyPath, text: str) -> InvalidPolicy:
        """An error with the place of the key."""
        place = self.place_of(path)
        finding = PolicyFinding(self.source, place, path, text, FindingRule.DOCUMENT)
        return InvalidPolicy([*self.findings, finding])
