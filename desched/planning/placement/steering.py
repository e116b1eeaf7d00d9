"""Soft taints that keep replacements away from nodes on which they would do harm or crowd.

The scheduler avoids a node with such a taint as long as there is another place, whatever free room
its scores see there. docs/decisions/0005-steer-with-soft-taints.md explains who gets one.
"""

from bisect import bisect_left
from collections.abc import Callable

import msgspec
import numpy as np

from desched.planning.arrays import Mask
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.placement.landing_forecast import Landing

STEERED_MARGIN_RATIO = 0.02
"""So far below its target a node has to stay on which a replacement may land.

Near the target a node's load rises by more than that within minutes as often as `maxLandingRisk`
bears: docs/decisions/0009-steer-clear-of-the-target.md.
"""


Check = Callable[[Landing], bool]


class Steerable(msgspec.Struct, frozen=True):
    """Which nodes a plan may keep replacements away from.

    `steered` have the taint when acting begins, `eligible` may get it, and `most` may have it at a
    time. Where steering is off there are none.
    """

    steered: Mask
    eligible: Mask
    most: int = 0

    @property
    def is_on(self) -> bool:
        """Whether any node may have the taint."""
        return self.most > 0

    @property
    def margin_ratio(self) -> float:
        """How far below its target a landing has to leave a node, as there is a choice of nodes."""
        return STEERED_MARGIN_RATIO if self.is_on else 0.0


def steer(
    landing: Landing, view: SchedulerView, avoided: Mask, within: Steerable, is_bearable: Check
) -> SchedulerView | None:
    """The view in which the fewest further nodes have the taint that make the landing bearable.

    Those that the scheduler likes best are first: as long as one of them is left, it takes it. None
    if that is not possible.

    Args:
        landing: of a replacement, as the view has it.
        view: what earlier moves leave to the scheduler.
        avoided: nodes to keep it from, as `Landing.risk` takes them.
        within: the nodes that may have the taint.
        is_bearable: tells it of a landing.
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
        return is_bearable(landing.seen_by(with_first(count)))

    if most <= 0 or not is_enough(most):
        return None
    enough = 1  # mostly few are, and each question is a forecast
    while enough < most and not is_enough(enough):
        enough *= 2
    counts = range(enough // 2 + 1, min(enough, most))
    return with_first(counts.start + bisect_left(counts, 1, key=is_enough))


def relied_on(
    landing: Landing, view: SchedulerView, avoided: Mask, is_bearable: Check
) -> tuple[str, ...]:
    """The nodes without whose taints it would not be bearable; arguments as of `steer`."""
    # Where the taints stand, no encounter is likely any more: all nodes that may see one count.
    anywhere = avoided if avoided.ndim == 1 else np.logical_or.reduce(avoided, axis=0)
    helpful = view.steered & landing.harmful(anywhere) & landing.destinations
    if landing.any_fit or not helpful.any():
        return ()
    if is_bearable(landing.seen_by(view.with_steered(view.steered & ~helpful))):
        return ()
    return tuple(landing.names[i] for i in np.flatnonzero(helpful))
