"""Which pods leave an overloaded node: the fewest that bring it to its stop line.

Lowest priority first; within a priority the smallest pod that clears the excess alone, else the
one that clears most of it. A spare-back pass then puts back each victim that turned out not to be
needed. Selection that trades priority against the number of evictions belongs here.
"""

from collections.abc import Mapping, Sequence

import msgspec

from desched.model.cluster import Pod
from desched.model.plan import RefusalReason, ResourceRelief
from desched.model.resources import Resource
from desched.planning.budgets import Allowance
from desched.planning.feasibility import Fit, Room
from desched.planning.landing import expected_node
from desched.planning.pressure import NodeLoadState, SourceLoad

RELIEF_TOLERANCE_RATIO = 0.005
"""Half a point of capacity: measured load is no more exact, so no pod is moved for less."""

LEAST_RELIEF_SHARE = 0.02
"""A pod that clears less of the excess would be one of more than fifty: moving it is noise."""


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A pod that may be moved.

    `usage` has one value for each window of a resource, `charge` what a destination is charged.
    """

    pod: Pod
    usage: Mapping[Resource, tuple[float, ...]]
    charge: Mapping[Resource, float]


class Move(msgspec.Struct, frozen=True):
    """A candidate with the place where its replacement is expected."""

    candidate: Candidate
    fit: Fit
    expected_node: str


class Excess:
    """How far a node is above its stop lines, while pods are being taken away from it."""

    def __init__(self, state: NodeLoadState) -> None:
        hot = {p.resource for p in state.verdict.pressures if p.overloaded}
        self._loads: tuple[SourceLoad, ...] = tuple(s for s in state.sources if s.resource in hot)
        self._at_start = {load.resource: self._over(load, load.nothing) for load in self._loads}

    def shares_left(self, gone: Sequence[Candidate]) -> tuple[float, ...]:
        """For each overloaded resource the share of its excess that is left: 1 is all, 0 none."""
        return tuple(self._share_left(load, gone) for load in self._loads)

    def clears(self, gone: Sequence[Candidate]) -> bool:
        """Whether the node is at its stop lines without these pods."""
        return all(
            self._over(load, _sum(load, gone)) <= RELIEF_TOLERANCE_RATIO for load in self._loads
        )

    def relief(self, candidate: Candidate) -> tuple[ResourceRelief, ...]:
        """What the pod takes off the node, as shares of its capacity."""
        return tuple(
            ResourceRelief(
                load.resource,
                self._over(load, load.nothing) - self._over(load, _sum(load, (candidate,))),
            )
            for load in self._loads
        )

    def _share_left(self, load: SourceLoad, gone: Sequence[Candidate]) -> float:
        start = max(self._at_start[load.resource], RELIEF_TOLERANCE_RATIO)
        return max(0.0, self._over(load, _sum(load, gone))) / start

    @staticmethod
    def _over(load: SourceLoad, removed: Sequence[float]) -> float:
        return load.lowest_without(removed) - load.lines.stop_ratio


def _sum(load: SourceLoad, gone: Sequence[Candidate]) -> tuple[float, ...]:
    total = load.nothing
    for candidate in gone:
        usage = candidate.usage[load.resource]
        total = tuple(a + b for a, b in zip(total, usage, strict=True))
    return total


Denial = tuple[RefusalReason, str] | None


class Cover(msgspec.Struct, frozen=True):
    """The moves chosen for one node, the share of its excess left, and why the others stay.

    `stay` is keyed by the pod's uid.
    """

    moves: tuple[Move, ...]
    left: float
    stay: Mapping[str, tuple[RefusalReason, str]]


def choose_cover(
    state: NodeLoadState, candidates: Sequence[Candidate], room: Room, allowance: Allowance | None
) -> Cover:
    """The fewest moves that bring the node to its stop lines, as far as pods and places allow.

    Args:
        state: an overloaded node.
        candidates: its pods that may be moved.
        room: what is free elsewhere; not changed.
        allowance: what limits and budgets leave to this plan, not changed; None ignores them.
    """
    excess = Excess(state)
    trial = _Trial(state.node.name, excess, room.copy(), allowance.copy() if allowance else None)
    chosen: list[Move] = []
    remaining = list(candidates)
    while not excess.clears(_pods(chosen)):
        move = trial.best(_pods(chosen), remaining)
        if move is None:
            break
        chosen.append(move)
        remaining.remove(move.candidate)
    chosen = _spare_back(excess, chosen)
    moved = {move.candidate.pod.uid for move in chosen}
    stay = {
        c.pod.uid: trial.denied.get(c.pod.uid, (RefusalReason.NOT_NEEDED, ""))
        for c in candidates
        if c.pod.uid not in moved
    }
    return Cover(tuple(chosen), max(excess.shares_left(_pods(chosen))), stay)


class _Trial:
    """Tries candidates against what is left of places and allowance."""

    def __init__(
        self, source: str, excess: Excess, room: Room, allowance: Allowance | None
    ) -> None:
        self._source = source
        self._excess = excess
        self._room = room
        self._allowance = allowance
        self.denied: dict[str, tuple[RefusalReason, str]] = {}

    def best(self, chosen: Sequence[Candidate], remaining: Sequence[Candidate]) -> Move | None:
        """The most useful candidate that may and can move; it is counted as moved."""
        for candidate in sorted(remaining, key=lambda c: _rank(self._excess, chosen, c)):
            if candidate.pod.uid in self.denied:
                continue  # room and allowance only shrink
            move = self._move(candidate)
            if isinstance(move, Move):
                return move
            self.denied[candidate.pod.uid] = move
        return None

    def _move(self, candidate: Candidate) -> Move | tuple[RefusalReason, str]:
        pod = candidate.pod
        denial = self._allowance.refuse(pod) if self._allowance else None
        denial = denial or _no_relief(self._excess, candidate)
        if denial is not None:
            return denial
        fit = self._room.fit(pod, self._source, candidate.charge)
        node = expected_node(pod, fit.under_ceiling, self._room)
        if node is None:
            if fit.requests.any():
                return RefusalReason.NO_NODE_UNDER_CEILING, fit.explanation
            return RefusalReason.NO_NODE_FITS, fit.explanation
        self._room.reserve(node, pod.scheduling.requests, candidate.charge)
        if self._allowance:
            self._allowance.take(pod)
        return Move(candidate, fit, node)


def _pods(moves: Sequence[Move]) -> list[Candidate]:
    return [move.candidate for move in moves]


def _rank(
    excess: Excess, chosen: Sequence[Candidate], candidate: Candidate
) -> tuple[float | str, ...]:
    """Lowest priority first, then who clears the excess alone (smallest first), then by share."""
    pod, with_it = candidate.pod, [*chosen, candidate]
    if excess.clears(with_it):
        size = sum(relief.ratio for relief in excess.relief(candidate))
        return (pod.priority, 0, size, pod.namespace, pod.name)
    return (pod.priority, 1, sum(excess.shares_left(with_it)), pod.namespace, pod.name)


def _no_relief(excess: Excess, candidate: Candidate) -> Denial:
    if 1.0 - min(excess.shares_left((candidate,))) >= LEAST_RELIEF_SHARE:
        return None
    reliefs = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in excess.relief(candidate))
    return RefusalReason.NO_RELIEF, f"it would take only {reliefs} off the node"


def _spare_back(excess: Excess, chosen: list[Move]) -> list[Move]:
    """Put back, highest priority first, every victim without which the node is relieved too."""
    if not excess.clears(_pods(chosen)):
        return chosen
    for move in sorted(chosen, key=lambda m: (-m.candidate.pod.priority, m.candidate.pod.name)):
        fewer = [m for m in chosen if m is not move]
        if excess.clears(_pods(fewer)):
            chosen = fewer
    return chosen
