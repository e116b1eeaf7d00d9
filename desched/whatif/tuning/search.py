"""The search: policies are replayed in batches, and the best of them judged on later days.

The same seed gives the same policies, whatever runs the jobs: all of a batch are known before the
next one is drawn, and a job stops only because of policies from earlier batches.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from desched.errors import WorkersLost
from desched.policy.difference import Difference, policy_differences
from desched.policy.policy import Policy
from desched.policy.reading.findings import InvalidPolicy
from desched.whatif.history import Floats
from desched.whatif.past.run import Span
from desched.whatif.tuning.replays import (
    PARTS,
    Job,
    Played,
    Score,
    Stopping,
    replayed,
    replayed_with_targets,
)
from desched.whatif.tuning.sampler import Sampler
from desched.whatif.tuning.space import Space, Value, Values

BATCH = 4
"""So many policies are drawn at once, or as many as there are workers if these are more."""

SEARCHED_SHARE = 2 / 3
"""The share of the time that is searched."""

MOST_REPEATS = 50
"""After so many draws without a new policy, all that differ are taken to be known."""

SAME_SHARE = 1.02
"""A policy with fewer changes is as good if it leaves at most this share of the overload."""

WORTH_SHARE = 0.8
"""A policy is worth a change if it leaves at most this share of today's overload."""

MOST_MORE_EVICTIONS = 10.0
"""At most this share of today's evictions may come on top of them."""

MOST_JUDGED = 3
"""So many of the best are judged, one after the other, until one holds."""

Meaning = frozenset[tuple[str, str]]
"""A policy by what differs from today's, so that two ways to write one policy are equal."""


class Tried(msgspec.Struct, frozen=True):
    """A policy of the search; its values are those that were drawn, without any it is today's."""

    values: dict[str, object]
    played: Played


Note = Callable[[Tried], None]


class Candidate(NamedTuple):
    """A policy with what it changes, and its scores on the days of the search."""

    values: Values
    policy: Policy
    changes: tuple[Difference, ...]
    played: Played

    @property
    def meaning(self) -> Meaning:
        """What differs from today's policy."""
        return meaning_of(self.changes)


class Spans(NamedTuple):
    """The days of the search, and the later ones that judge what it found."""

    search: Span
    judged: Span


def spans_of(whole: Span) -> Spans:
    """The first SEARCHED_SHARE of the time for the search, the rest to judge."""
    seconds = int(whole.intervals * SEARCHED_SHARE) * whole.interval_seconds
    split = whole.started_at + timedelta(seconds=seconds)
    return Spans(whole._replace(ended_at=split), whole._replace(started_at=split))


class Effect(NamedTuple):
    """What the search shows of one key: the score of the recommended policy without its change."""

    key: str
    without: Score


class Recommendation(NamedTuple):
    """A policy that held on the later days, with the effect of each change."""

    candidate: Candidate
    judged: Score
    effects: tuple[Effect, ...]


def meaning_of(changes: Sequence[Difference]) -> Meaning:
    """The same changes in any order."""
    return frozenset((each.key, each.after) for each in changes)


def better_first(today: Score) -> Callable[[Candidate], float]:
    """A key to sort by: the overload that is left, as a mean of its minutes and its points."""
    return lambda each: overload_share(each.played.score, today)


def overload_share(score: Score, of: Score) -> float:
    """The overload as a share of another one: the mean of minutes and points."""
    minutes = score.node_minutes / of.node_minutes if of.node_minutes else 1.0
    points = score.point_minutes / of.point_minutes if of.point_minutes else 1.0
    return (minutes + points) / 2


def is_worth_it(score: Score, today: Score, more_evictions: float = 0.0) -> bool:
    """Whether a policy leaves much less overload than today's.

    It may need more evictions by this share.
    """
    return (
        score.evictions <= round((1 + more_evictions) * today.evictions, 6)
        and score.node_minutes < today.node_minutes
        and score.node_minutes <= WORTH_SHARE * today.node_minutes
        and score.point_minutes <= today.point_minutes
    )


def front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The policies that no other one is better than, fewest evictions first.

    Of those with one score, the first; today's policy is the first of all.
    """
    by_score = dict[Score, Candidate]()
    for each in candidates:
        if each.played.is_whole:
            by_score.setdefault(each.played.score, each)
    best = [s for s in by_score if not any(other.dominates(s) for other in by_score)]
    return [by_score[s] for s in sorted(best, key=lambda s: (s.evictions, s.node_minutes))]


class Search:
    """Replays policies of a space on any executor, until `stopping` is true; `first` these."""

    def __init__(
        self,
        space: Space,
        spans: Spans,
        executor: Executor,
        stopping: Stopping,
        first: Sequence[Values] = (),
    ) -> None:
        self.space, self.spans, self._executor = space, spans, executor
        self._stopping, self._first = stopping, first
        self._note: Note = lambda _: None
        self._known: dict[Meaning, Candidate] = {}
        self._targets: Floats | None = None
        self._today_later: tuple[Played, Floats] | None = None

    @property
    def today(self) -> Candidate:
        """The policy of today."""
        return self._known[frozenset()]

    @property
    def candidates(self) -> list[Candidate]:
        """All policies that were replayed, today's first."""
        return list(self._known.values())

    def go_on_with(self, executor: Executor) -> None:
        """Run all further jobs by another executor."""
        self._executor = executor

    def begin(self) -> bool:
        """Replay today's policy, by whose targets all are judged; false if that was stopped."""
        job = Job(self.space.today, self.spans.search)
        result = self._executor.submit(replayed_with_targets, job).result()
        if result is None:
            return False
        played, self._targets = result
        self._known[frozenset()] = Candidate({}, self.space.today, (), played)
        return True

    def resume(self, tried: Sequence[Tried], sampler: Sampler) -> None:
        """Take over what an earlier search found."""
        for each in tried:
            values: Values = {k: _as_value(v) for k, v in each.values.items()}
            found = self._candidate(values)
            if found is not None and found.changes:
                self._known[found.meaning] = found._replace(played=each.played)
                sampler.learn(values, self._expected(each.played))

    def run(
        self, sampler: Sampler, most: int, batch: int = BATCH, note: Note = lambda _: None
    ) -> None:
        """Replay new policies until so many are known, all are, or somebody stops it.

        `note` is called with each result, from now on.
        """
        self._note = note
        for candidate in self._known_or_replayed(self._first):
            sampler.learn(candidate.values, self._expected(candidate.played))
        while len(self._known) < most and not self._stopping():
            drawn = list(self._draw(sampler, min(batch, most - len(self._known))))
            if not drawn:
                return
            for candidate in self._replayed(drawn):
                sampler.learn(candidate.values, self._expected(candidate.played))

    def recommend(self, more_evictions: float = 0.0) -> Recommendation | None:
        """The best policy that holds on the later days; None if today's is as good.

        It may need more evictions than today's by this share. Changes that do little are taken
        back first.
        """
        today = self.today.played.score

        def is_worth(score: Score) -> bool:
            return is_worth_it(score, today, more_evictions)

        worth = [e for e in self.candidates if e.played.is_whole and is_worth(e.played.score)]
        worth.sort(key=better_first(today))
        judged_today = self.judged(self.space.today) if worth else None
        if judged_today is None:
            return None
        for candidate in worth[:MOST_JUDGED]:
            simple = self._simplified(candidate, is_worth)
            judged = self.judged(simple.policy)
            if judged is not None and is_worth_it(judged, judged_today, more_evictions):
                return Recommendation(simple, judged, tuple(self._effects(simple)))
        return None

    def _draw(self, sampler: Sampler, number: int) -> Iterator[Candidate]:
        """New policies, without scores yet."""
        repeats, drawn = 0, set[Meaning]()
        while len(drawn) < number and repeats < MOST_REPEATS:
            values = sampler.propose()
            candidate = self._candidate(values)
            known = candidate and self._known.get(candidate.meaning)
            if candidate is None or candidate.meaning in drawn or known is not None:
                repeats += 1
                sampler.learn(values, self._expected(known.played) if known else None)
                continue
            drawn.add(candidate.meaning)
            yield candidate

    def _replayed(self, drawn: Sequence[Candidate], *, rivals: bool = True) -> list[Candidate]:
        """The same with their scores, unless they were stopped."""
        others = tuple(e.played for e in front(self.candidates)) if rivals else ()
        jobs = [Job(e.policy, self.spans.search, self._targets, others) for e in drawn]
        futures: list[Future[Played | None]] = [
            self._executor.submit(replayed, job) for job in jobs
        ]
        found, lost = [], None
        for candidate, future in zip(drawn, futures, strict=True):
            try:
                played = future.result()
            except WorkersLost as error:
                lost, played = error, None  # others may have been done before
            if played is not None:
                scored = candidate._replace(played=played)
                found.append(scored)
                self._known[scored.meaning] = scored
                self._note(Tried(dict(scored.values), played))
        if lost is not None:
            raise lost
        return found

    def _expected(self, played: Played) -> Score:
        """The score at the end; of a stopped policy as today's policy went on."""
        if played.is_whole:
            return played.score
        today = self.today.played
        there, end = today.scores[len(played.scores) - 1], today.score
        grown = [
            value * (last / part if part else PARTS / len(played.scores))
            for value, part, last in zip(
                msgspec.structs.astuple(played.score),
                msgspec.structs.astuple(there),
                msgspec.structs.astuple(end),
                strict=True,
            )
        ]
        return Score(grown[0], grown[1], round(grown[2]))

    def judged(self, policy: Policy) -> Score | None:
        """The score on the later days, by today's targets there; None if that was stopped."""
        if self._today_later is None:
            job = Job(self.space.today, self.spans.judged)
            self._today_later = self._executor.submit(replayed_with_targets, job).result()
            if self._today_later is None:
                return None
        played, targets = self._today_later
        if policy is not self.space.today:
            job = Job(policy, self.spans.judged, targets)
            found: Played | None = self._executor.submit(replayed, job).result()
            return None if found is None else found.score
        return played.score

    def _simplified(self, candidate: Candidate, is_worth: Callable[[Score], bool]) -> Candidate:
        """The policy without the changes that do little on the days of the search."""
        score = candidate.played.score
        changing = dict(self._without_each(candidate))
        needed = [key for key, without in changing.items() if not _is_as_good(without, score)]
        for keys in (needed, changing):  # the second without values that are today's
            values = {key: candidate.values[key] for key in keys}
            for simple in self._known_or_replayed([values]):
                if _is_as_good(simple.played.score, score) and is_worth(simple.played.score):
                    return simple._replace(values=values)
        return candidate

    def _effects(self, candidate: Candidate) -> Iterator[Effect]:
        for key, without in self._without_each(candidate):
            yield Effect(key, without)

    def _without_each(self, candidate: Candidate) -> Iterator[tuple[str, Score]]:
        """For each key that changes anything, the score of the policy without it."""
        meanings = dict[str, Meaning]()
        variants = list[Values]()
        for key in candidate.values:
            values = {k: v for k, v in candidate.values.items() if k != key}
            found = self._candidate(values)
            if found is not None and found.meaning != candidate.meaning:
                meanings[key] = found.meaning
                variants.append(values)
        scores = {e.meaning: e.played.score for e in self._known_or_replayed(variants)}
        for key, meaning in meanings.items():
            if meaning in scores:
                yield key, scores[meaning]

    def _candidate(self, values: Values) -> Candidate | None:
        """The policy with these values, without scores yet; None if they contradict each other."""
        try:
            policy = self.space.policy(values)
        except InvalidPolicy:
            return None
        return Candidate(values, policy, policy_differences(self.space.today, policy), Played(()))

    def _known_or_replayed(self, wanted: Sequence[Values]) -> list[Candidate]:
        """Whole replays of these values, without those that were stopped by the user."""
        known, new = list[Candidate](), dict[Meaning, Candidate]()
        for candidate in filter(None, map(self._candidate, wanted)):
            earlier = self._known.get(candidate.meaning)
            if earlier is not None and earlier.played.is_whole:
                known.append(earlier)
            else:
                new[candidate.meaning] = candidate
        return [*known, *self._replayed(list(new.values()), rivals=False)]


def _is_as_good(score: Score, other: Score) -> bool:
    """Whether a policy with fewer changes may take the place of another one."""
    return score.evictions <= other.evictions and overload_share(score, other) <= SAME_SHARE


def _as_value(value: Any) -> Value:
    found: Value = tuple(value) if isinstance(value, list) else value
    return found
