"""A search that finds a better policy, or none, on a past of which every value is known."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from desched.errors import WorkersLost
from desched.history.past import Past
from desched.policy.loading import PolicyText
from desched.whatif.past.backtest import backtest
from desched.whatif.tuning.replays import (
    FIRST_STOP,
    PARTS,
    Job,
    Played,
    Score,
    Stop,
    local_executor,
    replayed,
    share_past,
)
from desched.whatif.tuning.sampler import OptunaSampler
from desched.whatif.tuning.search import Search, Tried, front, is_worth_it, spans_of
from desched.whatif.tuning.space import Space, Values
from tests.unit.whatif.past.pasts import at
from tests.unit.whatif.tuning.hot_hours import LATER, POLICY, SPAN, TODAY, hot_hours


class Proposals:
    """A sampler with fixed proposals, the last one for ever."""

    def __init__(self, *values: Values) -> None:
        self._values = list(values)
        self.learnt: list[tuple[Values, Score | None]] = []

    def propose(self) -> Values:
        return self._values.pop(0) if len(self._values) > 1 else self._values[0]

    def learn(self, values: Values, score: Score | None) -> None:
        self.learnt.append((values, score))


@contextmanager
def searching(past: Past, vary: Sequence[str], stop: Stop | None = None) -> Iterator[Search]:
    stopping = Stop() if stop is None else stop  # one that was not requested is false
    share_past(past, lambda: bool(stopping))
    with ThreadPoolExecutor(1) as executor:
        search = Search(Space(TODAY, vary), spans_of(SPAN), executor, lambda: bool(stopping))
        assert search.begin()
        yield search


def found(past: Past, vary: Sequence[str], *values: Values) -> Search:
    with searching(past, vary) as search:
        search.run(Proposals(*values), len(values) + 1, batch=1)
        return search


SOON = {"sustainedFor": "5m"}
WAITS = "sustainedFor=5m,30m"


def test_the_best_policy_of_the_search_is_recommended_if_it_holds_on_the_later_days() -> None:
    with searching(hot_hours(), [WAITS]) as search:
        search.run(Proposals(SOON), 2)
        recommended = search.recommend()
    assert recommended is not None
    assert [each.line for each in recommended.candidate.changes] == ["sustainedFor: 30m → 5m"]
    today = search.today.played.score
    assert recommended.candidate.played.score.node_minutes < 0.8 * today.node_minutes
    assert recommended.candidate.played.score.evictions == today.evictions == 1
    (effect,) = recommended.effects
    assert (effect.key, effect.without) == ("sustainedFor", today)


def test_a_policy_that_is_no_better_on_the_later_days_is_not_recommended() -> None:
    with searching(hot_hours(later=range(0)), [WAITS]) as search:
        search.run(Proposals(SOON), 2)
        assert is_worth_it(search.candidates[1].played.score, search.today.played.score)
        assert search.recommend() is None


def test_nothing_is_recommended_where_nothing_is_overloaded() -> None:
    with searching(hot_hours(first=range(0), later=range(0)), [WAITS]) as search:
        search.run(Proposals(SOON), 2)
        assert search.recommend() is None


def test_changes_that_do_nothing_are_taken_back() -> None:
    with searching(hot_hours(), [WAITS, "evictionLimits.node=2,4"]) as search:
        search.run(Proposals(SOON | {"evictionLimits.node": 4}), 2)
        recommended = search.recommend()
    assert recommended is not None
    assert recommended.candidate.values == SOON


def test_no_change_is_taken_back_that_makes_the_policy_worth_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("desched.whatif.tuning.search.SAME_SHARE", 100.0)
    with searching(hot_hours(), [WAITS]) as search:
        search.run(Proposals(SOON), 2)
        recommended = search.recommend()
    assert recommended is not None
    assert recommended.candidate.values == SOON


def test_the_later_days_are_judged_by_the_targets_that_today_s_policy_has_there() -> None:
    deviating = POLICY.replace("{cpu: 80}", "{cpu: 20}").replace("{cpu: 30}", "{cpu: 10}")
    args = "args:\n      useDeviationThresholds: true"
    today = PolicyText(deviating.replace("args:", args), "today.yaml")
    past, spans = hot_hours(later=range(70, 96)), spans_of(SPAN)
    share_past(past)
    space = Space(today, [WAITS])
    policies = [space.today, space.policy(SOON)]
    with ThreadPoolExecutor(1) as executor:
        search = Search(space, spans, executor, lambda: False)
        assert search.begin()
        found = [search.judged(each) for each in policies]
    judged = backtest(past, policies, spans.judged, by_first_lines=True).policies
    assert found == [
        Score(e.with_policy.node_minutes, e.with_policy.excess_point_minutes, e.evictions)
        for e in judged
    ]
    assert judged[0].with_policy.node_minutes


def test_overload_is_judged_by_the_targets_of_today() -> None:
    higher = {"targetThresholds.cpu": 94}
    search = found(hot_hours(), ["targetThresholds.cpu=80,94"], higher)
    score = search.candidates[1].played.score
    assert score.evictions == 0
    assert score.node_minutes == 20 * 5


def test_a_policy_that_is_worse_than_another_in_all_stops_early() -> None:
    share_past(hot_hours())
    spans, space = spans_of(SPAN), Space(TODAY, [WAITS])
    good = replayed(Job(space.policy(SOON), spans.search))
    assert good is not None
    assert good.is_whole
    ideal = Played(tuple(Score(0, 0, 0) for _ in range(PARTS)))
    slow = replayed(Job(space.today, spans.search, rivals=(ideal,)))
    assert slow is not None
    assert not slow.is_whole
    assert len(slow.scores) >= FIRST_STOP
    assert slow.scores[-1].node_minutes > 0
    # The same policy is not clearly better than itself.
    assert replayed(Job(space.policy(SOON), spans.search, rivals=(good,))) == good


def test_parts_add_up_to_the_whole() -> None:
    share_past(hot_hours())
    job = Job(Space(TODAY, [WAITS]).today, spans_of(SPAN).search)
    played = replayed(job)
    assert played is not None
    minutes = [each.node_minutes for each in played.scores]
    assert minutes == sorted(minutes)
    assert 30 <= minutes[-1] < 20 * 5


def test_a_policy_that_means_the_same_is_not_replayed_again() -> None:
    same: Values = {"sustainedFor": "30m"}
    proposals: list[Tried] = []
    with searching(hot_hours(), [WAITS]) as search:
        sampler = Proposals(same, SOON, SOON)
        search.run(sampler, 5, note=proposals.append)
    assert [each.values for each in proposals] == [SOON]
    assert sampler.learnt[0] == (same, search.today.played.score)


def test_values_that_contradict_each_other_are_not_replayed() -> None:
    wrong, right = {"stopMargin": 9, "ceilingMargin": 7}, {"stopMargin": 7, "ceilingMargin": 9}
    with searching(hot_hours(), ["stopMargin=5,7,9", "ceilingMargin=7,9"]) as search:
        sampler = Proposals(wrong, right)
        search.run(sampler, 2)
    assert sampler.learnt[0] == (wrong, None)
    assert len(search.candidates) == 2


def test_a_request_to_stop_ends_the_search_and_keeps_what_was_found() -> None:
    stop = Stop()
    with searching(hot_hours(), [WAITS, "evictionLimits.node=1,2,3"], stop) as search:
        sampler = Proposals(SOON, {"evictionLimits.node": 3})
        search.run(sampler, 9, batch=1, note=lambda _: stop.request())
        assert len(search.candidates) == 2
        stop.withdraw()
        assert search.recommend() is not None


def test_a_search_goes_on_with_the_results_of_an_earlier_one() -> None:
    earlier: list[Tried] = []
    with searching(hot_hours(), [WAITS]) as search:
        search.run(Proposals(SOON), 2, note=earlier.append)
    with searching(hot_hours(), [WAITS]) as search:
        sampler = Proposals(SOON)
        search.resume(earlier, sampler)
        search.run(sampler, 2, note=lambda _: earlier.clear())
        assert earlier, "nothing is replayed again"
        assert search.recommend() is not None


def test_as_many_more_evictions_are_accepted_as_the_share_allows() -> None:
    today, worth = Score(100, 100, 25), Score(50, 50, 29)
    assert is_worth_it(worth, today, 0.16)
    assert not is_worth_it(worth, today, 0.15)


def test_the_front_has_no_policy_that_another_one_is_better_than() -> None:
    search = found(
        hot_hours(), [WAITS, "targetThresholds.cpu=80,94"], SOON, {"targetThresholds.cpu": 94}
    )
    scores = [each.played.score for each in front(search.candidates)]
    assert scores == sorted(scores, key=lambda each: each.evictions)
    assert search.today.played.score not in scores
    assert len(scores) == 2


def scores_of(executor: Executor, seed: int = 0) -> list[tuple[Values, Score]]:
    space = Space(TODAY)
    search = Search(space, spans_of(SPAN), executor, lambda: False)
    assert search.begin()
    search.run(OptunaSampler(space.dimensions, space.today_values, seed, 0), 24)
    return [(each.values, each.played.score) for each in search.candidates]


class FirstIsLost(Executor):
    """Runs jobs, but loses the workers of the first one."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self._jobs = executor, 0

    def submit(self, function: Any, /, *args: Any, **_: Any) -> Future[Any]:
        self._jobs += 1
        if self._jobs > 1:
            return self._executor.submit(function, *args)
        lost: Future[Any] = Future()
        lost.set_exception(WorkersLost("gone"))
        return lost


def test_what_others_of_a_batch_found_is_kept_when_workers_are_lost() -> None:
    notes: list[Tried] = []
    later = {"sustainedFor": "10m"}
    with (
        searching(hot_hours(), ["sustainedFor=5m,10m,30m"]) as search,
        ThreadPoolExecutor(1) as one,
    ):
        search.go_on_with(FirstIsLost(one))
        with pytest.raises(WorkersLost, match="gone"):
            search.run(Proposals(SOON, later), 3, 2, notes.append)
    assert [each.values for each in notes] == [later]
    assert [dict(each.values) for each in search.candidates] == [{}, later]


def test_one_seed_gives_one_search_whatever_runs_it() -> None:
    pasts = {"": hot_hours()}
    with local_executor(pasts, 2, Stop()) as processes:
        several = scores_of(processes)
    with local_executor(pasts, 1, Stop()) as thread:
        assert scores_of(thread) == several
        assert scores_of(thread, seed=1) != several
    assert len(several) == 24


def test_the_first_two_thirds_are_searched() -> None:
    spans = spans_of(SPAN)
    assert spans.search.ended_at == spans.judged.started_at == at(68)
    assert min(LATER) > 68
