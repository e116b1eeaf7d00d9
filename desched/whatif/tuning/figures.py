"""What a search for a better policy found, as a value for views and programs."""

from datetime import datetime

import msgspec

from desched.policy.difference import Difference
from desched.whatif.figures import Backtest
from desched.whatif.tuning.replays import Score
from desched.whatif.tuning.search import Recommendation, Search, front

TUNING_VERSION = "desched.io/tuning/v1"
CLUSTERS_VERSION = "desched.io/clusters-tuning/v1"


class TriedPolicy(msgspec.Struct, frozen=True, gc=False):
    """A policy of the search with what it changes, none for today's, and its score there."""

    changes: tuple[Difference, ...]
    score: Score


class Change(msgspec.Struct, frozen=True, gc=False):
    """A change of the recommended policy, and the score of the search without it.

    `without` is None if the other changes need it.
    """

    difference: Difference
    without: Score | None


class Recommended(msgspec.Struct, frozen=True, gc=False):
    """The recommended policy: its changes, and its score in the search and on the later days."""

    changes: tuple[Change, ...]
    searched: Score
    judged: Score


class Tuned(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The whole result.

    All overload is above the targets of today's `policy`. Policies were searched from `started_at`
    to `split_at` and judged from then to `ended_at`. `varied` is what could vary, as `--vary`
    accepts it. `tried` counts policies, of which `stopped` ended early. `front` has those that no
    other one is better than. Without `recommended`, today's policy is as good. `judged` compares
    today's policy and the recommended one on the later days. `interrupted` is whether a
    signal, the budget or the loss of workers ended the search.
    """

    version: str = TUNING_VERSION
    policy: str
    started_at: datetime
    split_at: datetime
    ended_at: datetime
    varied: tuple[str, ...]
    tried: int
    stopped: int
    interrupted: bool
    today: Score
    today_judged: Score
    front: tuple[TriedPolicy, ...]
    recommended: Recommended | None
    judged: Backtest


class ClusterTuned(msgspec.Struct, frozen=True, gc=False):
    """The result in one cluster, and the score of the common policy there on the later days."""

    cluster: str
    tuned: Tuned
    common: Score | None


class ClustersTuned(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The result in several clusters, and the `recommended` policy for all of them.

    Without `recommended`, none is better for all than today's `policy`. Its scores and `today`,
    that of today's policy in the search, add up the clusters with equal weights. `clusters` has
    those that were searched; without `today`, the search for a common policy was ended before it
    began.
    """

    version: str = CLUSTERS_VERSION
    policy: str
    clusters: tuple[ClusterTuned, ...]
    tried: int
    interrupted: bool
    today: Score | None
    recommended: Recommended | None


def tuning_of(
    search: Search,
    recommendation: Recommendation | None,
    judged: Backtest,
    *,
    interrupted: bool,
) -> Tuned:
    """The result of a search with the backtest of the later days, today's policy first in it."""
    today, later = search.today, judged.policies[0]
    left = later.with_policy
    return Tuned(
        policy=today.policy.source,
        started_at=search.spans.search.started_at,
        split_at=search.spans.judged.started_at,
        ended_at=search.spans.judged.ended_at,
        varied=tuple(each.text for each in search.space.dimensions),
        tried=len(search.candidates),
        stopped=sum(not each.played.is_whole for each in search.candidates),
        interrupted=interrupted,
        today=today.played.score,
        today_judged=Score(left.node_minutes, left.excess_point_minutes, later.evictions),
        front=tuple(
            TriedPolicy(each.changes, each.played.score) for each in front(search.candidates)
        ),
        recommended=recommendation and recommended_of(recommendation),
        judged=judged,
    )


def recommended_of(found: Recommendation) -> Recommended:
    """The recommended policy with what the search shows of each change."""
    return Recommended(
        tuple(Change(each, _without(each.key, found)) for each in found.candidate.changes),
        found.candidate.played.score,
        found.judged,
    )


def _without(key: str, found: Recommendation) -> Score | None:
    """The score without the change of a key, which may be a part of one that varies."""
    return next(
        (e.without for e in found.effects if key == e.key or key.startswith(f"{e.key}.")), None
    )
