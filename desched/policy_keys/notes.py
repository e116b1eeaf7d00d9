"""Collects what is wrong with a policy, or worth knowing of it, with the places of the keys."""

from typing import NamedTuple

import msgspec

from desched.policy_keys.document import YamlDocument
from desched.policy_keys.findings import (
    FindingRule,
    KeyPath,
    PolicyFinding,
    Severity,
    key_path,
)


class Problem(NamedTuple):
    """What is wrong at a key, and the text to write instead if a single one is known."""

    path: KeyPath
    text: str
    instead: str = ""


class Notes(msgspec.Struct, frozen=True):
    """Collects findings about the keys below `path`.

    The policy begins at `base` in its document. Nothing is noted at or right above a key in
    `broken`: its value is not the one in the file.
    """

    document: YamlDocument
    base: KeyPath = ()
    path: KeyPath = ()
    broken: frozenset[KeyPath] = frozenset()
    findings: list[PolicyFinding] = []

    def below(self, *keys: str | int) -> "Notes":
        """The same notes, for what is at these keys below the path."""
        return msgspec.structs.replace(self, path=(*self.path, *keys))

    def refuse(self, text: str, *keys: str | int, instead: str = "") -> None:
        """Note a problem at these keys; the policy is refused when all have been collected."""
        self._note(Problem((*self.path, *keys), text, instead), FindingRule.VALUE)

    def warn(self, text: str, *keys: str | int) -> None:
        """Note something that the policy's author may not expect."""
        self._note(Problem((*self.path, *keys), text), FindingRule.MEANING)

    def after(self, *problems: Problem) -> "Notes":
        """The notes to go on with when these problems are noted."""
        for problem in problems:
            self._note(problem, FindingRule.VALUE)
        return msgspec.structs.replace(self, broken=self.broken | {each.path for each in problems})

    def _note(self, problem: Problem, rule: FindingRule) -> None:
        path, text, instead = problem
        if any(path == b[:-1] or path[: len(b)] == b for b in self.broken):
            return
        place = self.document.place_of((*self.base, *path))
        self.findings.append(PolicyFinding(self.document.source, place, path, text, rule, instead))

    def place(self, *keys: str | int) -> str:
        """The place of a key, as `FILE:LINE: key.path`."""
        path = (*self.path, *keys)
        line = self.document.place_of((*self.base, *path)).line
        return f"{self.document.source}:{line}: {key_path(path)}"

    @property
    def refused(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)
