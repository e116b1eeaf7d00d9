"""Soft taints that keep replacements away from nodes where they would do harm, or be too many.

As long as another node is feasible, the scheduler avoids a node with this taint, whatever its other
scores are. docs/decisions/0005-steer-with-soft-taints.md explains which nodes get one.
"""

from bisect import bisect_left
from collections.abc import Callable

import msgspec
import numpy as np

from desched.planning.arrays import Mask
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.landing_forecast import Landing

Check = Callable[[Landing], bool]


class Steerable(msgspec.Struct, frozen=True):
    """The nodes that a plan may keep replacements away from; none if steering is off.

    `steered` nodes have the taint before the first eviction, `eligible` nodes may get it. At most
    `most` nodes may have it at a time.
    """

    steered: Mask
    eligible: Mask
    most: int = 0

    @property
    def is_on(self) -> bool:
        """Whether any node may have the taint."""
        return self.most > 0


def steer(
    landing: Landing, view: SchedulerView, avoided: Mask, within: Steerable, is_acceptable: Check
) -> SchedulerView | None:
    """Return the view with the fewest further taints that make the landing acceptable.

    The nodes with the highest scores get the taint first, because the scheduler chooses one of
    them as long as it is not tainted. Returns None if no taints are enough.

    Args:
        landing: the forecast in this view.
        view: the scheduler's view after earlier moves.
        avoided: the nodes to avoid, see `Landing.risk`.
        within: the nodes that may get the taint.
        is_acceptable: whether a landing is acceptable.
    """
    open_nodes = within.eligible & landing.harmful(avoided) & landing.destinations & ~view.steered
    most = min(int(open_nodes.sum()), within.most - int(view.steered.sum()))
    candidates = np.flatnonzero(open_nodes)
    ranking = np.argsort(-landing.scores.mean(axis=0)[candidates], kind="stable")

    def with_first(count: int) -> SchedulerView:
        steered = view.steered.copy()
        steered[candidates[ranking[:count]]] = True
        return view.with_steered(steered)

    def is_enough(count: int) -> bool:
        return is_acceptable(landing.seen_by(with_first(count)))

    if most <= 0 or not is_enough(most):
        return None
    # Each test is a forecast, and usually a few taints are enough: first double, then bisect.
    enough = 1
    while enough < most and not is_enough(enough):
        enough *= 2
    counts = range(enough // 2 + 1, min(enough, most))
    return with_first(counts.start + bisect_left(counts, 1, key=is_enough))


def relied_on(
    landing: Landing, view: SchedulerView, avoided: Mask, is_acceptable: Check
) -> tuple[str, ...]:
    """The nodes whose taints the landing needs to be acceptable; for the arguments see `steer`."""
    # With these taints no encounter is likely, so every node where one was possible is considered.
    anywhere = avoided if avoided.ndim == 1 else np.logical_or.reduce(avoided, axis=0)
    helpful = view.steered & landing.harmful(anywhere) & landing.destinations
    if landing.any_fit or not helpful.any():
        return ()
    if is_acceptable(landing.seen_by(view.with_steered(view.steered & ~helpful))):
        return ()
    return tuple(landing.names[i] for i in np.flatnonzero(helpful))
