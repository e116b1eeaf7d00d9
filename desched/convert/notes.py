"""What a conversion has to tell: which keys change their meaning, and which are dropped."""

from enum import StrEnum

import msgspec

from desched.model.text import on_one_line
from desched.policy_keys.findings import KeyPath, Place, key_path


class Effect(StrEnum):
    """What a conversion does with a key."""

    HELD = "held"
    CHANGED = "changed"
    DROPPED = "dropped"
    ADDED = "added"
    WARNED = "warned"


OF_THE_NEW_POLICY = {Effect.ADDED, Effect.WARNED}
"""Notes on keys that the original may not have."""


class ConversionNote(msgspec.Struct, frozen=True):
    """A sentence about a key of the file that is converted.

    `here` is the path of the key in the policy that has the note as its comment, if there is one.
    """

    effect: Effect
    path: KeyPath
    place: Place
    text: str
    here: KeyPath = ()

    @property
    def key(self) -> str:
        """The path of the key as people write it."""
        return key_path(self.path)

    @property
    def comment(self) -> str:
        """The last word of the key and the sentence, on one line."""
        names = [part for part in self.path if isinstance(part, str)]
        own = bool(self.path) and self.effect not in OF_THE_NEW_POLICY
        return on_one_line(f"{names[-1]}: {self.text}" if own and names else self.text)

    @property
    def message(self) -> str:
        """The key and the sentence, on one line."""
        return on_one_line(f"{self.key}: {self.text}" if self.path else self.text)
