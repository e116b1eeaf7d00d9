"""Findings: what is wrong with a policy file, or worth knowing of it, and where."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from desched.errors import ConfigurationError
from desched.model.text import on_one_line
from desched.policy.wording import quoted

MOST_SHOWN = 30
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_/-]+")

KeyPath = tuple[str | int, ...]


def key_path(path: KeyPath) -> str:
    """A path as people write it: `profiles[0].pluginConfig[1].args.duration`."""
    words = (
        f"[{part}]"
        if isinstance(part, int)
        else f".{part if _PLAIN_KEY.fullmatch(part) else quoted(part)}"
        for part in path
    )
    return "".join(words).removeprefix(".")


class FindingRule(StrEnum):
    """What a finding is about, for programs."""

    FILE = "policy-file"
    YAML = "policy-yaml"
    DOCUMENT = "policy-document"
    VALUE = "policy-value"
    MEANING = "policy-meaning"


class Severity(StrEnum):
    """Whether a policy with the finding can run."""

    ERROR = "error"
    WARNING = "warning"


class Place(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int = 1
    column: int = 1


class PolicyFinding(msgspec.Struct, frozen=True):
    """A sentence about a place in a file; an error if desched refuses the policy for it.

    `path` is that of the key, empty if the finding is about none. `place` is None if the file could
    not be read. `instead` is the text to write in place of the key or of its value, empty if no
    single one is known.
    """

    file: str
    place: Place | None
    path: KeyPath
    text: str
    rule: FindingRule = FindingRule.VALUE
    instead: str = ""

    @property
    def severity(self) -> Severity:
        """Whether the policy can run."""
        return Severity.WARNING if self.rule is FindingRule.MEANING else Severity.ERROR

    @property
    def key(self) -> str:
        """The path of the key as people write it."""
        return key_path(self.path)

    @property
    def message(self) -> str:
        """The key and the sentence, on one line."""
        return on_one_line(f"{self.key}: {self.text}" if self.key else self.text)

    @property
    def line(self) -> str:
        """The finding as `FILE:LINE: key.path: sentence`."""
        at = "" if self.place is None else f":{self.place.line}"
        return f"{self.file}{at}: {self.message}"


def in_order(findings: Iterable[PolicyFinding]) -> tuple[PolicyFinding, ...]:
    """The findings in the order of the file, none of them twice."""
    ordered = sorted(findings, key=lambda f: (f.place or Place(), f.key, f.text))
    return tuple(dict.fromkeys(ordered))


class InvalidPolicy(ConfigurationError):  # noqa: N818  (named for what it is about)
    """A policy that desched refuses, with all that was found; its text lists what is wrong."""

    def __init__(self, findings: Iterable[PolicyFinding]) -> None:
        self.findings = in_order(findings)
        lines = [f.line for f in self.findings if f.severity is Severity.ERROR]
        more = len(lines) - MOST_SHOWN
        rest = (f"… and {more} more problems.",) if more > 0 else ()
        super().__init__("\n".join((*dict.fromkeys(lines[:MOST_SHOWN]), *rest)))


def refused(
    file: str, place: Place, text: str, rule: FindingRule = FindingRule.YAML
) -> InvalidPolicy:
    """An error of one finding that is about no key."""
    return InvalidPolicy([PolicyFinding(file, place, (), text, rule)])
