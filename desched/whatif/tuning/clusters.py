"""Replays in several clusters: in one of them, or in all for a policy that they have in common."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple

import numpy as np

from desched.history.past import Past
from desched.policy.policy import Policy
from desched.whatif.history import Floats
from desched.whatif.past.run import Span
from desched.whatif.tuning.replays import Job, Played, Score, replayed, replayed_with_targets

CALM_SHARE = 0.001
"""At least this share of a cluster's node-minutes counts as today's overload.

In a calm cluster, a few minutes more or less would else decide for all.
"""

CALM_EVICTIONS = 0.1
"""At least so many evictions for each node and day count as today's."""


class OneCluster(Executor):
    """Runs jobs in the cluster with this name."""

    def __init__(self, executor: Executor, name: str) -> None:
        self._executor, self._name = executor, name

    def submit(self, function: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        """Run a function of `replays` whose only argument is a job."""
        (job,) = args
        return self._executor.submit(function, job._replace(past=self._name))


class _Today(NamedTuple):
    """Today's policy in a cluster over a span: its scores, its targets, and its weights."""

    played: Played
    targets: Floats
    least: tuple[float, float, float]

    @property
    def counted(self) -> list[float]:
        """Node-minutes, point-minutes and evictions that others are compared with."""
        return [max(pair) for pair in zip(_figures(self.played.score), self.least, strict=True)]


class AllClusters(Executor):
    """Runs a job in all clusters; its score is the sum of theirs, each relative to today's policy.

    So a large cluster does not decide alone. A policy that leaves more overload in any cluster than
    today's there counts as if it did so in all. Scores have the size of today's sum.
    """

    def __init__(self, executor: Executor, pasts: Mapping[str, Past], today: Policy) -> None:
        self._executor, self._policy = executor, today
        self._nodes = {name: len(past.nodes) for name, past in pasts.items()}
        self._known: dict[Span, dict[str, _Today]] = {}

    def submit(self, function: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        """Run a function of `replays` whose only argument is a job."""
        (job,) = args
        answer: Future[Any] = Future()
        today = self._today(job.span)
        if today is None:
            answer.set_result(None)
        elif job.policy is self._policy:
            whole = _common({name: each.played for name, each in today.items()}, today)
            targets = np.empty(0)  # each cluster has its own
            answer.set_result((whole, targets) if function is replayed_with_targets else whole)
        else:
            parts = {
                name: self._executor.submit(
                    replayed, Job(job.policy, job.span, each.targets, past=name)
                )
                for name, each in today.items()
            }
            _answer_by(parts, today, answer)
        return answer

    def _today(self, span: Span) -> Mapping[str, _Today] | None:
        """Today's policy in each cluster; None if that was stopped."""
        if span not in self._known:
            jobs = {name: Job(self._policy, span, past=name) for name in self._nodes}
            running = {
                name: self._executor.submit(replayed_with_targets, job)
                for name, job in jobs.items()
            }
            known: dict[str, _Today] = {}
            for name, each in running.items():
                if (found := each.result()) is None:
                    return None
                played, targets = found
                known[name] = _Today(played, targets, _least(self._nodes[name], span))
            self._known[span] = known
        return self._known[span]


def _least(nodes: int, span: Span) -> tuple[float, float, float]:
    minutes = (span.ended_at - span.started_at).total_seconds() / 60
    calm = CALM_SHARE * nodes * minutes
    return calm, calm, CALM_EVICTIONS * nodes * minutes / (24 * 60)


def _answer_by(
    parts: Mapping[str, Future[Played | None]],
    today: Mapping[str, _Today],
    answer: Future[Played | None],
) -> None:
    """Answer once all parts are there, with the first error if there is one."""
    left, counting = len(parts), threading.Lock()

    def done(_: Future[Played | None]) -> None:
        nonlocal left
        with counting:
            left -= 1
            if left:
                return
        try:
            found = {name: part.result() for name, part in parts.items()}
        except Exception as error:  # noqa: BLE001  (whatever ended the part ends the whole)
            answer.set_exception(error)
            return
        whole = {name: played for name, played in found.items() if played is not None}
        answer.set_result(_common(whole, today) if len(whole) == len(found) else None)

    for part in parts.values():
        part.add_done_callback(done)


def _common(found: Mapping[str, Played], today: Mapping[str, _Today]) -> Played:
    """The scores of all clusters as one, part by part."""
    counted = np.array([today[name].counted for name in found])  # cluster x figure
    scores = [
        np.array([_figures(score) for score in part])
        for part in zip(*(played.scores for played in found.values()), strict=True)
    ]
    return Played(tuple(_score(part / counted, counted.sum(axis=0)) for part in scores))


def _score(shares: Floats, sums: Floats) -> Score:
    """A score from the clusters' shares of today's figures: cluster x figure."""
    means, worst = shares.mean(axis=0), shares.max(axis=0)
    minutes, points, _ = map(float, sums * np.where(worst > 1, worst, means))
    return Score(minutes, points, round(float(sums[2] * means[2])))


def _figures(score: Score) -> tuple[float, float, float]:
    return score.node_minutes, score.point_minutes, float(score.evictions)
