"""What new pods will do to the nodes, and the soft taints that keep them off where they do harm.

kube-scheduler sees requests: new pods go to the nodes with the fewest. A node that lost pods to
desched has fewer than before, so the Jobs of the next hour land there; the node that got those pods
sends what would have come there to others. Both are a cost of a move. Nodes that have too little
room for what would come get a soft taint, as long as the others bear it better. Jobs begin at
the same times of each hour, so the taints last only while some are due: in between, pods that stay
fill the nodes. Until Jobs have been seen for an hour, some may be due at any time: nodes that were
lately relieved are kept from a pod each.

The soft taints that steer a replacement keep new pods off as well. Where many nodes get them while
Jobs are due, the Jobs crowd on the others, which is a cost of the move too.
"""

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from desched.model.cluster import Effect, Node, Pod
from desched.model.plan import NodeReason, PlannedTaint
from desched.model.resources import Resource
from desched.model.state import Newcomers, State
from desched.planning.arrays import Floats, Mask
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.newcomers import USUAL_USE, Due, due_jobs, lasts, share_of
from desched.planning.overload.classification import Pressure
from desched.planning.overload.forecast import AHEAD_SECONDS, HEIGHT_WEIGHT
from desched.policy.schedulers import ScoringStrategy

ONE_POD_SHARE = 0.03
"""What may come until Jobs have been seen for an hour: to each relieved node of which less is
requested than of half of the nodes a pod that requests so much."""

LASTING_QUANTILE = 0.25
"""Of the CPU of the last hour: the load that remains when Jobs have ended."""

RUNNING_SHARE, FULL_HEIGHT = 0.5, 0.1
"""New pods run for this share of an hour. A node so far above its target is there all that time."""

MISSING_WEIGHT = 20.0
"""A node-minute of CPU that is asked for and not given counts as so many minutes of overload.

Without it the least overload is that of few nodes which get all new pods.
"""

LEAST_GAIN_MINUTES = 5.0
MOST_SHARE, STEPS = 0.05, 100
"""Each taint must gain as much; at most this share of the nodes gets one, in so many steps.

More taints push to the others also what they bear worse than Jobs: the pods of rollouts.
"""

_EPSILON = 1e-9


class Inflow:
    """The expected load by new pods, which fill the nodes with the fewest requests.

    Arrays have one value for each of the nodes that new pods may come to, as shares of the node.
    `shares` is what pods that do not end by themselves request. `room` is how far the CPU is below
    the target without new pods, and `spare` how far below capacity. The nodes in `off` have the
    soft taint when much is `due`; to those in `guarded` a pod may come at any time.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        shares: Floats,
        room: Floats,
        spare: Floats,
        newcomers: Newcomers | None,
        due: Due,
    ) -> None:
        self._nodes = nodes
        self._position = {node.name: i for i, node in enumerate(nodes)}
        self._shares, self._room, self._spare = shares, room, spare
        self._newcomers, self._due = newcomers, due
        self.guarded: Mask = np.zeros(len(nodes), dtype=bool)
        self._avoided: Mask = np.array([node.avoided_by_others for node in nodes], dtype=bool)
        self.off = self._avoided.copy()
        self._most_off = 0

    @classmethod
    def of(cls, context: EligibilityContext, pressure: Pressure, most_taints: int) -> "Inflow":
        """The inflow with the soft taints that help, at most so many.

        Until Jobs have been seen for an hour, nodes that were lately relieved get one at any time.
        No node whose load may be forged gets one. Nothing is expected where the scheduler prefers
        full nodes, or CPU is not measured.
        """
        outlook, newcomers = pressure.outlook, context.state.newcomers
        spreads = context.policy.scheduler.strategy is ScoringStrategy.LEAST_ALLOCATED
        nodes = [
            loaded.node
            for loaded in pressure.known.values()
            if spreads
            and Resource.CPU in outlook.pasts.resources
            and all(t.effect == Effect.PREFER_NO_SCHEDULE for t in loaded.node.taints)
        ]
        names = [node.name for node in nodes]
        by_node = context.cluster.pods_by_node
        shares = [sum(share_of(p, n) for p in by_node.get(n.name, ()) if lasts(p)) for n in nodes]
        usual = outlook.quantiles(names, Resource.CPU, LASTING_QUANTILE)
        targets = np.array([outlook.target_of(name, Resource.CPU) for name in names])
        is_known = newcomers is not None and newcomers.since is None
        relieved = frozenset() if is_known else _relieved(context.state)
        inflow = cls(
            nodes,
            np.array(shares, dtype=float),
            targets - usual,
            1.0 - usual,
            newcomers,
            due_jobs(context.state, context.now),
        )
        inflow.guarded = np.array([name in relieved for name in names], dtype=bool)
        shown = [
            pressure.known[name].verdict.reason is not NodeReason.LOAD_NOT_SHOWN for name in names
        ]
        return inflow.steered(np.array(shown, dtype=bool), most_taints)

    def steered(self, candidates: Mask, most: int) -> "Inflow":
        """Return a copy with the fewest taints on these nodes that leave the least overload.

        The nodes with most overload by new pods come first.
        """
        most = min(most, math.ceil(MOST_SHARE * len(self._nodes)))
        if not most:
            return self
        inflow: Inflow = self._with(self._shares, self._kept_off(candidates, most))
        off = inflow.off.copy()
        inflow._most_off = most + int(np.count_nonzero(self.off))
        most = inflow._most_off - int(np.count_nonzero(off))
        least = math.inf
        at_once = max(1, math.ceil(most / STEPS))
        for count in range(0, most + 1, at_once):
            added = self._added(self._shares, off)
            minutes = float(added.sum())
            gain = LEAST_GAIN_MINUTES * min(count, at_once)
            if minutes < least - gain:
                inflow.off, least = off.copy(), minutes
            added[~candidates | off] = 0.0
            first = np.argsort(-added, kind="stable")[: min(at_once, most - count)]
            first = first[added[first] > 0]
            if not len(first):
                break
            off[first] = True
        return inflow

    def _kept_off(self, candidates: Mask, most: int) -> Mask:
        """`off` with the guarded nodes of these that do not bear one pod more, at most so many."""
        added = self._added(self._shares, self.off) * (self.guarded & candidates & ~self.off)
        first = np.argsort(-added, kind="stable")[:most]
        off = self.off.copy()
        off[first[added[first] > 0]] = True
        return off

    def taints(self) -> Iterator[PlannedTaint]:
        """The taints of the nodes that new pods which are due would overload."""
        wanted = self.off & (self.guarded | self._due.much)
        for node, share, is_off in zip(self._nodes, self._shares, wanted, strict=True):
            if is_off and not node.avoided_by_others:
                reason = (
                    f"only {share:.0%} of its CPU and memory is requested: new pods would come, "
                    "and it has too little room"
                )
                yield PlannedTaint(node.name, reason)

    @cached_property
    def minutes(self) -> float:
        """The overload that new pods are expected to add in an hour."""
        return float(self._added(self._shares, self.off).sum())

    def after(self, pod: Pod, destination: str) -> "Inflow":
        """The same after a move; the node that the pod leaves gets a taint if that helps."""
        shares = self._shares.copy()
        for name, sign in ((pod.node, -1), (destination, 1)):
            if name in self._position:
                i = self._position[name]
                shares[i] += sign * share_of(pod, self._nodes[i])
        moved = self._with(shares, self.off)
        source = self._position.get(pod.node)
        full = np.count_nonzero(self.off) >= self._most_off
        if full or source is None or self.off[source]:
            return moved
        off = self.off.copy()
        off[source] = True
        steered = self._with(shares, off)
        return steered if steered.minutes < moved.minutes - LEAST_GAIN_MINUTES else moved

    def cost_minutes(self, pod: Pod, destination: str) -> float:
        """By how much a move raises the overload that new pods are expected to add.

        It is 0 as long as none have been seen.
        """
        if self._newcomers is None or self._position.keys().isdisjoint({pod.node, destination}):
            return 0.0
        return max(0.0, self.after(pod, destination).minutes - self.minutes)

    def steering_minutes(self, before: Iterable[str], after: Iterable[str]) -> float:
        """By how much more of these soft taints raise the overload that new pods add.

        Only those that are expected soon count, because the taints go when replacements have
        landed.
        """
        if not self._due.requested:
            return 0.0
        return max(0.0, self._minutes_beside(after) - self._minutes_beside(before))

    def _minutes_beside(self, steered: Iterable[str]) -> float:
        off = self._avoided.copy()
        off[[self._position[name] for name in steered if name in self._position]] = True
        return float(self._added(self._shares, off, self._due.requested).sum())

    def _with(self, shares: Floats, off: Mask) -> "Inflow":
        inflow: Inflow = copy.copy(self)
        inflow.__dict__.pop("minutes", None)
        inflow._shares, inflow.off = shares, off
        return inflow

    def _added(self, shares: Floats, off: Mask, requested: float | None = None) -> Floats:
        """The overload that new pods are expected to add to each node, in minutes.

        They request so much, by default what all of an hour do.
        """
        if off.all():
            return np.zeros(len(shares))
        come = self._come(shares, off, requested)
        come[off] = 0.0
        above = np.maximum(come - self._room, 0.0) - np.maximum(-self._room, 0.0)
        missing = np.maximum(come - self._spare, 0.0)
        weight = np.minimum(above / FULL_HEIGHT, 1.0) + HEIGHT_WEIGHT * above
        weight += MISSING_WEIGHT * missing
        minutes: Floats = weight * (RUNNING_SHARE * AHEAD_SECONDS / 60)
        return minutes

    def _come(self, shares: Floats, off: Mask, requested: float | None) -> Floats:
        """The CPU that new pods use on each node, as long as nothing keeps them off."""
        below = self.guarded & (shares < np.median(shares))
        come: Floats = np.where(below, ONE_POD_SHARE * USUAL_USE, 0.0)
        if self._newcomers is None:
            return come
        amount = self._newcomers.requested_nodes if requested is None else requested
        line = _water_line(shares[~off], amount)
        return np.maximum(come, (line - shares) * self._newcomers.use_of_requests)


def _relieved(state: State) -> frozenset[str]:
    """The nodes that desched has moved pods off."""
    moved = (move.node for move in state.moves)
    return frozenset((*moved, *(record.node for record in state.evictions)))


def _water_line(shares: Floats, amount: float) -> float:
    """The level to which this amount fills these shares, the lowest first."""
    ordered = np.sort(shares)
    counts = np.arange(1, len(ordered) + 1)
    lines = (amount + np.cumsum(ordered)) / counts
    following = np.append(ordered[1:], np.inf)
    return float(lines[np.argmax(lines <= following + _EPSILON)])
