"""Which pods leave one overloaded node: the cheapest set that brings it to its stop lines.

The cheapest cover of the excess is found as if places were plenty, and then each of its pods is
given a place in turn; a pod that finds none is left out, and the cover is found anew. Where no
cover is possible, the most useful moves are made one by one, memory before CPU.
"""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from desched.model.plan import RefusalReason
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destinations import Denial, Destination, Destinations
from desched.planning.selection.excess import Candidate, Excess
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.set_cover import Covering

LEAST_RELIEF_SHARE = 0.02
"""A pod that clears less of the excess would be one of more than fifty: moving it is noise."""

NOT_NEEDED: Denial = RefusalReason.NOT_NEEDED, ""
"""Of a pod that could be moved as well."""

ENOUGH_SETBACKS = 2
"""After so many covers of which a pod had no place, all pods of the node are asked."""

MOST_PODS_AT_ONCE = 3
"""Larger covers are not weighed against those of other nodes: there are too many of them."""


class OverloadedNode(msgspec.Struct, frozen=True):
    """An overloaded node and those of its pods that may be moved, by name.

    `prices`, by the pod's uid, are added to costs for pods that take what other nodes need more.
    """

    loaded: LoadedNode
    candidates: tuple[Candidate, ...]
    prices: Mapping[str, float] = {}

    @property
    def name(self) -> str:
        """The node's name."""
        return self.loaded.node.name


class Move(msgspec.Struct, frozen=True):
    """A candidate with the place where its replacement is expected."""

    candidate: Candidate
    destination: Destination


class NodeSelection(msgspec.Struct, frozen=True):
    """The moves chosen for one node, in the order of acting, and why its other candidates stay.

    `left` is the share of the node's excess that stays, `stay` is keyed by the pod's uid.
    `exhausted` is whether the moves leave the plan no further eviction. `stuck` says with numbers
    why nothing is moved of an excess that is not the pods' to take away.
    """

    moves: tuple[Move, ...]
    left: float
    relieved: bool
    stay: Mapping[str, Denial]
    exhausted: bool
    stuck: str = ""

    @property
    def cost(self) -> float:
        """What its evictions cost together."""
        return sum(move.candidate.cost for move in self.moves)


def select_for_node(
    node: OverloadedNode, destinations: Destinations, quota: EvictionQuota | None
) -> tuple[NodeSelection, "TrialMoves"]:
    """The cheapest moves that bring the node to its stop lines, as far as pods and places allow.

    The trial has the places and the allowance that the moves leave.

    Args:
        node: an overloaded node with its candidates.
        destinations: where pods may go; not changed.
        quota: what limits and budgets leave to this plan, not changed; None ignores them.
    """
    task, setbacks = _Task(node, quota), 0
    while True:
        trial = TrialMoves(destinations, quota)
        chosen = task.cheapest()
        if chosen is None:
            moves = _one_by_one(task, trial)
            break
        moves, denied = trial.move_all(chosen)
        if not denied:
            break
        task.denied |= denied
        # One pod without a place may be chance. After a second one, or where a full cluster is why,
        # ask for all others alone, rather than learn one by one that they have none either.
        full = any(reason is RefusalReason.NO_NODE_FITS for reason, _ in denied.values())
        before, setbacks = setbacks, setbacks + (ENOUGH_SETBACKS if full else 1)
        if before < ENOUGH_SETBACKS <= setbacks:
            alone = TrialMoves(destinations, quota)
            task.denied |= {
                c.pod.uid: refusal for c in task.open if isinstance(refusal := alone.find(c), tuple)
            }
    return task.cover(moves, trial), trial


def cheapest_pods(node: OverloadedNode, quota: EvictionQuota | None) -> list[Candidate] | None:
    """The node's cheapest cover if there were room everywhere; None if there is none."""
    return _Task(node, quota).cheapest()


def cheap_covers(
    node: OverloadedNode, quota: EvictionQuota, most: int
) -> list[tuple[float, tuple[Candidate, ...]]]:
    """The node's cheapest covers with their costs if there were room everywhere, cheapest first.

    Args:
        node: an overloaded node with its candidates.
        quota: what limits and budgets leave to single pods; together they may exceed it.
        most: how many covers are enough.
    """
    return _Task(node, quota).cheap(most)


class _Task:
    """One node's excess, and the candidates that have not been denied yet."""

    def __init__(self, node: OverloadedNode, quota: EvictionQuota | None) -> None:
        self._candidates = node.candidates
        self._quota = quota
        self._excess = Excess(node.loaded)
        self._shares, self._choices = self._excess.shares(node.candidates)
        self._costs = np.array(
            [c.cost + node.prices.get(c.pod.uid, 0.0) for c in node.candidates], dtype=float
        )
        # On a node without needs, none is useless.
        useful = self._shares.max(axis=1, initial=0.0) >= LEAST_RELIEF_SHARE
        useful |= not self._choices
        self.denied: dict[str, Denial] = {}
        for helps, candidate in zip(useful.tolist(), node.candidates, strict=True):
            refusal = quota.refuse(candidate.pod) if quota else None
            if not helps:
                refusal = self._too_little(candidate)
            if refusal is not None:
                self.denied[candidate.pod.uid] = refusal

    @property
    def open(self) -> list[Candidate]:
        """Candidates that have not been denied."""
        return [self._candidates[i] for i in self._open()]

    def cheapest(self) -> list[Candidate] | None:
        """The cheapest cover by open candidates, most useful first; None if there is none."""
        if self._excess.clears(()):
            return []
        rows = self._open()
        pods = [self._candidates[i].pod for i in rows]
        covering = Covering(
            self._shares[rows],
            self._costs[rows],
            self._choices,
            tuple(self._quota.quotas(pods)) if self._quota else (),
        )
        found = covering.cheapest()
        if found is None:
            return None
        chosen = [rows[i] for i in found]
        chosen.sort(key=lambda i: (-float(self._shares[i].sum()), i))
        return [self._candidates[i] for i in chosen]

    def cheap(self, most: int) -> list[tuple[float, tuple[Candidate, ...]]]:
        """The cheapest covers by few open candidates, with their costs."""
        rows = self._open()
        covering = Covering(self._shares[rows], self._costs[rows], self._choices)
        return [
            (cost, tuple(self._candidates[rows[i]] for i in found))
            for cost, found in covering.minimal(MOST_PODS_AT_ONCE)[:most]
        ]

    def most_useful(self, gone: list[Candidate]) -> list[Candidate]:
        """Open candidates that clear any more once these are gone, in the order to ask for them.

        Those that clear memory come before those that clear CPU only, and then those that clear
        most for their cost.
        """
        moved = {candidate.pod.uid for candidate in gone}
        rows = [i for i in self._open() if self._candidates[i].pod.uid not in moved]
        taken = [i for i, c in enumerate(self._candidates) if c.pod.uid in moved]
        covering = Covering(self._shares, np.empty(0), self._choices)
        covered = self._shares[taken].sum(axis=0, keepdims=True)
        left = covering.left(covered)[0]
        if not rows or not left.any():
            return []
        worth = left - covering.left(covered + self._shares[rows])
        worth /= self._costs[rows, None]
        helps = worth > 0
        resource = helps.argmax(axis=1)  # the first one that it clears
        order = np.lexsort((-worth[np.arange(len(rows)), resource], resource))
        return [self._candidates[rows[i]] for i in order if helps[i].any()]

    def cover(self, moves: list[Move], trial: "TrialMoves") -> NodeSelection:
        """The result, with a reason for each candidate that stays."""
        gone = [move.candidate for move in moves]
        moved = {candidate.pod.uid for candidate in gone}
        stay = {
            c.pod.uid: self.denied.get(c.pod.uid, NOT_NEEDED)
            for c in self._candidates
            if c.pod.uid not in moved
        }
        left, relieved = self._excess.left(gone), self._excess.clears(gone)
        return NodeSelection(tuple(moves), left, relieved, stay, trial.exhausted)

    def _open(self) -> list[int]:
        return [i for i, c in enumerate(self._candidates) if c.pod.uid not in self.denied]

    def _too_little(self, candidate: Candidate) -> Denial:
        reliefs = self._excess.relief(candidate)
        found = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in reliefs)
        return RefusalReason.NO_RELIEF, f"it would take only {found} off the node"


class TrialMoves:
    """Moves candidates for trial, on copies of what is left of places and allowance."""

    def __init__(self, destinations: Destinations, quota: EvictionQuota | None) -> None:
        self.destinations = destinations.copy()
        self.quota = quota.copy() if quota else None

    @property
    def exhausted(self) -> bool:
        """Whether no further eviction is allowed at all."""
        return self.quota is not None and self.quota.exhausted is not None

    def move_all(self, candidates: Iterable[Candidate]) -> tuple[list[Move], dict[str, Denial]]:
        """Move them in this order up to the first that is denied; its reason, keyed by its uid."""
        moves: list[Move] = []
        for candidate in candidates:
            move = self.find(candidate)
            if not isinstance(move, Move):
                return moves, {candidate.pod.uid: move}
            self.take(move)
            moves.append(move)
        return moves, {}

    def find(self, candidate: Candidate) -> Move | Denial:
        """The move of the candidate as things stand now, or why there is none; changes nothing."""
        pod = candidate.pod
        denial = self.quota.refuse(pod) if self.quota else None
        if denial is not None:
            return denial
        destination = self.destinations.find(pod, candidate.charge)
        return Move(candidate, destination) if isinstance(destination, Destination) else destination

    def take(self, move: Move) -> None:
        """Count the pod as evicted and its replacement as there."""
        candidate = move.candidate
        self.destinations.take(move.destination, candidate.pod, candidate.charge)
        if self.quota:
            self.quota.take(candidate.pod)


def _one_by_one(task: _Task, trial: TrialMoves) -> list[Move]:
    """The most useful moves, as many as are allowed and possible."""
    moves: list[Move] = []
    while (move := _first_possible(task, trial, moves)) is not None:
        trial.take(move)
        moves.append(move)
    return moves


def _first_possible(task: _Task, trial: TrialMoves, moves: list[Move]) -> Move | None:
    """The most useful of the possible moves after these; each that is not possible is denied."""
    for candidate in task.most_useful([move.candidate for move in moves]):
        move = trial.find(candidate)
        if isinstance(move, Move):
            return move
        task.denied[candidate.pod.uid] = move
    return None
