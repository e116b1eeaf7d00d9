"""The file that is converted: each key is read once, and a key that nobody reads is noticed."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from desched.convert.notes import ConversionNote, Effect
from desched.policy.durations import duration_seconds
from desched.policy.wording import quoted
from desched.policy_keys.document import YamlDocument
from desched.policy_keys.findings import FindingRule, KeyPath, Place, PolicyFinding
from desched.policy_keys.values import LARGEST_COUNT


class Record(msgspec.Struct, frozen=True):
    """What is found while a document is converted.

    The part that is converted begins at `base` of the document. A document that is only the args
    of a plugin is read as if it were at `wrapped_in`.
    """

    document: YamlDocument
    base: KeyPath = ()
    wrapped_in: KeyPath = ()
    notes: list[ConversionNote] = []
    findings: list[PolicyFinding] = []


class OriginalSection:
    """A section of the file; every method reads a key, None if it is absent or null.

    A value of the wrong type becomes a finding and counts as absent.
    """

    def __init__(self, record: Record, value: object, path: KeyPath = ()) -> None:
        self._record = record
        self._value: Mapping[str, Any] = value if isinstance(value, dict) else {}
        self._unread = dict.fromkeys(self._value)
        self.path = path
        if value is not None and not isinstance(value, dict):
            self._malformed((), value, "a mapping")

    def __contains__(self, key: str) -> bool:
        """Whether the key has a value; this does not read it."""
        return self._value.get(key) is not None

    def value(self, key: str) -> Any:
        """The value, whatever it is."""
        self._unread.pop(key, None)
        return self._value.get(key)

    def number(self, key: str) -> float | None:
        """A number that is not negative."""
        value = self.value(key)
        if value is None or (type(value) in {int, float} and value >= 0):
            return value  # type: ignore[no-any-return]  # a number
        self._malformed((key,), value, "a number from 0")
        return None

    def count(self, key: str) -> int | None:
        """A whole number that is not negative, at most the largest that a policy may have."""
        value = self.value(key)
        if value is None:
            return None
        if type(value) is int and value >= 0:
            return min(value, LARGEST_COUNT)
        self._malformed((key,), value, "a whole number from 0")
        return None

    def flag(self, key: str) -> bool | None:
        """A yes or no."""
        value = self.value(key)
        if value is None or isinstance(value, bool):
            return value
        self._malformed((key,), value, "true or false")
        return None

    def text(self, key: str) -> str | None:
        """A text; the empty one is absent."""
        value = self.value(key)
        if value is None or isinstance(value, str):
            return value or None
        self._malformed((key,), value, "a text")
        return None

    def seconds(self, key: str) -> int | None:
        """A duration."""
        text = self.text(key)
        try:
            return None if text is None else duration_seconds(text)
        except ValueError:
            self._malformed((key,), text, 'a duration such as "5m"')
            return None

    def texts(self, key: str) -> list[str]:
        """A list of texts."""
        value = self.value(key)
        if value is None or (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            return value or []
        self._malformed((key,), value, "a list of texts")
        return []

    def section(self, key: str) -> "OriginalSection":
        """The section at the key, an empty one if it is absent."""
        return OriginalSection(self._record, self.value(key), (*self.path, key))

    def standing_for(self, key: str, value: object) -> "OriginalSection":
        """Another spelling of what is at the key, as a section there."""
        return OriginalSection(self._record, value, (*self.path, key))

    def sections(self, key: str) -> list["OriginalSection"]:
        """The sections of the list at the key."""
        value = self.value(key)
        if value is not None and not isinstance(value, list):
            self._malformed((key,), value, "a list")
            return []
        at = (*self.path, key)
        return [OriginalSection(self._record, v, (*at, i)) for i, v in enumerate(value or ())]

    def __iter__(self) -> Iterator[str]:
        """The keys that have a value, as they are before any is read."""
        return iter([key for key in self._value if key in self])

    def unread(self) -> tuple[str, ...]:
        """The keys that nobody has read, which count as read now."""
        found = tuple(key for key in self._unread if key in self)
        self._unread = {}
        return found

    def changed(self, key: str, text: str, here: KeyPath) -> None:
        """Note that a key means something else here, or is written in another way."""
        self._note(Effect.CHANGED, key, text, here)

    def dropped(self, key: str, text: str) -> None:
        """Note that a key is left out; nothing if it is absent."""
        if key in self:
            self._note(Effect.DROPPED, key, text)
        self.value(key)

    def dropped_whole(self, text: str) -> None:
        """Note that this section is left out."""
        self._note(Effect.DROPPED, "", text)

    def added(self, text: str, here: KeyPath) -> None:
        """Note what the policy has beyond this section."""
        self._note(Effect.ADDED, "", text, here)

    def held(self, key: str, text: str) -> None:
        """Note why the policy must not evict until a person has looked."""
        self._note(Effect.HELD, key, text)

    def refuse(self, key: str, text: str) -> None:
        """Note why the file cannot be converted."""
        path, place = self._at(key)
        source = self._record.document.source
        self._record.findings.append(PolicyFinding(source, place, path, text, FindingRule.VALUE))

    def _at(self, key: str) -> tuple[KeyPath, Place]:
        path = (*self.path, key) if key else self.path
        around = self._record.wrapped_in
        if around and path[: len(around)] == around:
            path = path[len(around) :]
        return path, self._record.document.place_of((*self._record.base, *path))

    def _note(self, effect: Effect, key: str, text: str, here: KeyPath = ()) -> None:
        path, place = self._at(key)
        self._record.notes.append(ConversionNote(effect, path, place, text, here))

    def _malformed(self, keys: KeyPath, value: object, allowed: str) -> None:
        key = str(keys[0]) if keys else ""
        self.refuse(key, f"found {quoted(value)}, allowed is {allowed}.")
