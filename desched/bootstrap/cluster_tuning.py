"""Searches in several clusters: a policy for each, and one that all have in common."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from desched.bootstrap.tuning import Aim, Found, Searcher, judged
from desched.history.past import Past
from desched.service.process.clock import SystemClock
from desched.whatif.tuning.clusters import AllClusters, OneCluster
from desched.whatif.tuning.figures import ClustersTuned, ClusterTuned, recommended_of
from desched.whatif.tuning.replays import Score


class ClustersAim(NamedTuple):
    """The search of each cluster, and the one for a policy that all have in common."""

    of_each: Mapping[str, Aim]
    common: Aim


class ClustersFound(NamedTuple):
    """What the searches came to, as far as they came before they were ended.

    `scores` are those of the common policy on the later days, by cluster.
    """

    of_each: Mapping[str, Found]
    common: Found | None = None
    scores: Mapping[str, Score] = {}


def search_clusters(
    searcher: Searcher,
    pasts: Mapping[str, Past],
    aims: ClustersAim,
    is_ended: Callable[[], bool],
) -> ClustersFound:
    """Search in each cluster, then in all, until `is_ended`.

    Raises:
        WorkersLost: there were no workers from the beginning.
    """
    jobs = {name: partial(OneCluster, name=name) for name in aims.of_each}
    found: dict[str, Found] = {}
    for name, aim in aims.of_each.items():
        one = None if is_ended() or searcher.lost else searcher.search(aim, jobs[name])
        if one is None:
            return ClustersFound(found)
        found[name] = one
    all_of = partial(AllClusters, pasts=pasts, today=aims.common.space.today)
    # One that is good in a cluster may be in all.
    best = [each.recommendation.candidate.values for each in found.values() if each.recommendation]
    ends = is_ended() or searcher.lost
    common = None if ends else searcher.search(aims.common._replace(first=best), all_of)
    scores: dict[str, Score] = {}
    if common is not None and common.recommendation is not None:
        policy = common.recommendation.candidate.policy
        for name, one in found.items():
            score = searcher.judged(one.search, policy, jobs[name])
            if score is None:
                return ClustersFound(found)
            scores[name] = score
    return ClustersFound(found, common, scores)


def tuned_clusters(
    pasts: Mapping[str, Past], aims: ClustersAim, found: ClustersFound, clock: SystemClock
) -> ClustersTuned:
    """The results of all searches, each with a backtest of its later days."""
    of_each = {name: judged(pasts[name], each, clock) for name, each in found.of_each.items()}
    common = found.common
    best = common and common.recommendation
    return ClustersTuned(
        policy=aims.common.space.today.source,
        clusters=tuple(
            ClusterTuned(name, each, found.scores.get(name)) for name, each in of_each.items()
        ),
        tried=len(common.search.candidates) if common else 0,
        interrupted=common is None or common.interrupted,
        today=common.search.today.played.score if common else None,
        recommended=recommended_of(best) if best else None,
    )
