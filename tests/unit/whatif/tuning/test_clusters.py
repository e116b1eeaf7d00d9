"""A policy for several clusters counts each of them alike, and makes none worse."""

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import pytest

from desched.errors import WorkersLost
from desched.policy.policy import Policy
from desched.whatif.tuning.clusters import AllClusters, OneCluster
from desched.whatif.tuning.replays import (
    Job,
    Played,
    Score,
    Stop,
    local_executor,
    replayed,
    replayed_with_targets,
)
from desched.whatif.tuning.search import Search, spans_of
from desched.whatif.tuning.space import Space
from tests.unit.whatif.past.pasts import a_past
from tests.unit.whatif.tuning.hot_hours import SPAN, TODAY, hot_hours
from tests.unit.whatif.tuning.test_search import SOON, WAITS, Proposals

SPACE = Space(TODAY, [WAITS])
OTHER = SPACE.policy(SOON)
PASTS = {"small": a_past([], hosts=["a"]), "large": a_past([], hosts=[f"n{i}" for i in range(50)])}
TODAYS = {"small": Score(100, 1000, 10), "large": Score(10_000, 100_000, 1000)}


class Known(Executor):
    """Answers with these scores, by cluster; others than today's policy have `scores`."""

    def __init__(self, scores: Mapping[str, Score | BaseException | None]) -> None:
        self._scores = scores
        self.targets: dict[str, object] = {}

    def submit(self, function: Any, /, *args: Any, **_: Any) -> Future[Any]:
        (job,) = args
        answer: Future[Any] = Future()
        if function is replayed_with_targets:
            answer.set_result((Played((TODAYS[job.past],)), np.array([len(job.past)])))
            return answer
        score = self._scores[job.past]
        self.targets[job.past] = job.targets
        if isinstance(score, BaseException):
            answer.set_exception(score)
        else:
            answer.set_result(score and Played((score,)))
        return answer


def scored(policy: Policy = OTHER, /, **scores: Score | BaseException | None) -> Played | None:
    executor = AllClusters(Known(scores), PASTS, SPACE.today)
    found: Played | None = executor.submit(replayed, Job(policy, SPAN)).result(0)
    return found


def test_a_large_cluster_does_not_decide_alone() -> None:
    today = scored(SPACE.today)
    assert today == Played((Score(10_100, 101_000, 1010),))
    less_in_small = scored(small=Score(50, 1000, 10), large=TODAYS["large"])
    less_in_large = scored(small=TODAYS["small"], large=Score(5000, 100_000, 1000))
    assert less_in_small == less_in_large == Played((Score(0.75 * 10_100, 101_000, 1010),))


def test_evictions_of_one_cluster_may_make_up_for_those_of_another() -> None:
    found = scored(small=Score(100, 1000, 15), large=Score(10_000, 100_000, 500))
    assert found is not None
    assert found.score.evictions == 1010


def test_a_policy_that_makes_one_cluster_worse_counts_as_worse() -> None:
    found = scored(small=Score(110, 1000, 10), large=Score(0, 0, 0))
    assert found is not None
    assert found.score.node_minutes == pytest.approx(1.1 * 10_100)


def test_minutes_in_a_calm_cluster_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TODAYS, "large", Score(0, 0, 0))
    found = scored(small=Score(50, 500, 5), large=Score(1, 1, 0))
    today = scored(SPACE.today)
    assert found is not None
    assert today is not None
    assert found.score.node_minutes < today.score.node_minutes


def test_each_cluster_is_judged_by_its_own_targets() -> None:
    known = Known(TODAYS)
    AllClusters(known, PASTS, SPACE.today).submit(replayed, Job(OTHER, SPAN, np.zeros(1)))
    assert known.targets == {name: np.array([len(name)]) for name in PASTS}


def test_a_job_that_is_stopped_in_one_cluster_is_stopped_in_all() -> None:
    assert scored(small=None, large=TODAYS["large"]) is None


def test_workers_that_are_lost_for_one_cluster_are_lost_for_all() -> None:
    with pytest.raises(WorkersLost, match="gone"):
        scored(small=TODAYS["small"], large=WorkersLost("gone"))


def test_clusters_get_a_common_policy_if_it_is_better_for_all() -> None:
    pasts = {"one": hot_hours(), "two": hot_hours()}
    with local_executor(pasts, 1, Stop()) as workers:
        alone = Search(SPACE, spans_of(SPAN), OneCluster(workers, "one"), lambda: False)
        common = AllClusters(workers, pasts, SPACE.today)
        search = Search(SPACE, spans_of(SPAN), common, lambda: False, [SOON])
        assert alone.begin()
        assert search.begin()
        search.run(Proposals(SOON), 2)
        recommended = search.recommend()
        assert recommended is not None
        in_one = alone.judged(recommended.candidate.policy)
    assert dict(recommended.candidate.values) == SOON
    assert in_one is not None
    assert recommended.judged.node_minutes == pytest.approx(2 * in_one.node_minutes)
