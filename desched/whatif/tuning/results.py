"""The file with the results of a search, which a second run continues: JSON, a line for each."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from desched.errors import ConfigurationError
from desched.whatif.past.run import Span
from desched.whatif.tuning.replays import Played
from desched.whatif.tuning.search import Tried

VERSION = "desched.io/tuning-results/v1"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for; results of another question do not count.

    `policy` is the digest of today's policy, `varied` what varies, `since` and `until` are the
    times as they were given. `clusters` are the names of several.
    """

    version: str = VERSION
    policy: str
    varied: tuple[str, ...]
    since: str
    until: str
    interval_seconds: float
    step_seconds: int
    clusters: tuple[str, ...] = ()

    def difference(self, other: "Question") -> str:
        """The first thing that differs from another question; "" if nothing does."""
        named = {
            "version": "the version of desched",
            "policy": "the policy",
            "varied": "what varies",
            "since": "--since",
            "until": "--until",
            "interval_seconds": "--interval",
            "step_seconds": "--step",
            "clusters": "--cluster",
        }
        differ = (n for n in self.__struct_fields__ if getattr(self, n) != getattr(other, n))
        return next((named[name] for name in differ), "")


class Head(msgspec.Struct, frozen=True):
    """The first line: the question, and the time that its --since and --until meant."""

    question: Question
    started_at: datetime
    ended_at: datetime


_HEAD, _TRIED = msgspec.json.Decoder(Head), msgspec.json.Decoder(Tried)


class Results(NamedTuple):
    """A file of results as it was, None before it exists, and what is written to it."""

    path: Path
    head: Head
    tried: tuple[Tried, ...] = ()

    @property
    def span(self) -> Span:
        """The time of the search and of the days that judge it."""
        head = self.head
        return Span(head.started_at, head.ended_at, head.question.interval_seconds)

    def begin(self, today: Played) -> None:
        """Write what today's policy left, or compare it with what the file has of it.

        Raises:
            ConfigurationError: it left something else, or the file cannot be written.
        """
        known = next((each.played for each in self.tried if not each.values), None)
        if known is not None and known != today:
            raise ConfigurationError(
                f"--results: {self.path} is about another past, or of another version of desched: "
                "today's policy has other figures there. Name another file."
            )
        if not self.tried:
            self.add(Tried({}, today))

    def add(self, tried: Tried) -> None:
        """Write one more.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        _append(self.path, tried)


def open_results(path: Path, question: Question, span: Span) -> Results:
    """The results in a file with the time that they are about, or else of this span and none yet.

    Raises:
        ConfigurationError: the file has another question, or cannot be read or written.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    except OSError as error:
        raise _unusable(path, error) from error
    if not lines:
        head = Head(question, span.started_at, span.ended_at)
        _append(path, head)
        return Results(path, head)
    # A run that was killed may have written only a part of its last line.
    whole = [line for line in lines if line.endswith(b"\n")]
    try:
        head = _HEAD.decode(whole[0])
        tried = tuple(map(_TRIED.decode, whole[1:]))
    except (IndexError, msgspec.DecodeError) as error:
        raise ConfigurationError(
            f"--results: {path} is no file of results; name another one."
        ) from error
    if len(whole) < len(lines):
        _cut(path, sum(map(len, whole)))
    if found := head.question.difference(question):
        raise ConfigurationError(
            f"--results: {path} is about another search ({found} differs); name another file."
        )
    return Results(path, head, tried)


def _append(path: Path, value: Head | Tried) -> None:
    try:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(value) + b"\n")
    except OSError as error:
        raise _unusable(path, error) from error


def _cut(path: Path, size: int) -> None:
    try:
        with path.open("r+b") as file:
            file.truncate(size)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"--results: {path} cannot be used ({error.strerror or error}).")
