"""Selects the cheapest set of pods that brings one overloaded node to its stop lines.

First, the cheapest cover of the excess is computed as if there were room everywhere. Then each of
its pods gets a destination. A pod without one is excluded, and the cover is computed again. If no
cover is possible, the most useful moves are made one by one, memory before CPU.
"""

import math
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from desched.model.chain import Chain
from desched.model.plan import Finding, NodeReason, RefusalReason
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destinations import Destination, Destinations
from desched.planning.placement.free_capacity import NO_LIMITS
from desched.planning.selection.eviction_cost import OUTSIDE_PREFERRED
from desched.planning.selection.excess import Candidate, Excess
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.set_cover import Covering

LEAST_RELIEF_SHARE = 0.02
"""A pod must clear at least this share: otherwise the node would need more than fifty evictions."""

NOT_NEEDED = Finding(RefusalReason.NOT_NEEDED)
ONE_AT_A_TIME = Finding(
    RefusalReason.NODE_SETTLING, "a node of a saturated pool loses one pod at a time"
)

DEAR = 2.0
"""A pod is dear if it costs this much more than the cheapest pod of its node."""

ENOUGH_SETBACKS = 2
"""After this many covers with a pod that has no destination, each pod of the node is tried."""


class Gang(msgspec.Struct, frozen=True):
    """A gang whose pods, wherever they run, may only move together; `name` is that of the gang."""

    name: str
    members: tuple[Candidate, ...]

    @property
    def cost(self) -> float:
        """The cost of the evictions of all its pods."""
        return math.fsum(candidate.cost for candidate in self.members)

    def __str__(self) -> str:
        return f"{self.name}, {len(self.members)} pods"


class OverloadedNode(msgspec.Struct, frozen=True):
    """An overloaded node and those of its pods that may be moved, by name.

    `later` are pods that may be moved once the moves of their workloads under way have ended.
    `gangs` have pods on the node, and may move whole.
    """

    loaded: LoadedNode
    candidates: tuple[Candidate, ...]
    later: tuple[Candidate, ...] = ()
    gangs: tuple[Gang, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.loaded.node.name

    @property
    def pods(self) -> list[str]:
        """The uids of the pods that may be moved."""
        return [candidate.pod.uid for candidate in self.candidates]

    def without_dear(self) -> "OverloadedNode":
        """The node without the pods that cost much more than its cheapest; itself without any."""
        costs = [candidate.cost for candidate in (*self.candidates, *self.later)]
        dear = min(costs, default=0.0) + DEAR
        if max(costs, default=0.0) < dear:
            return self
        candidates = tuple(c for c in self.candidates if c.cost < dear)
        return msgspec.structs.replace(
            self, candidates=candidates, later=tuple(c for c in self.later if c.cost < dear)
        )

    def with_later(self) -> "OverloadedNode":
        """The node with all pods that may be moved now or later."""
        return msgspec.structs.replace(self, candidates=(*self.candidates, *self.later), later=())


class Move(msgspec.Struct, frozen=True):
    """A candidate with the destination where its replacement is expected."""

    candidate: Candidate
    destination: Destination


class Opening(msgspec.Struct, frozen=True):
    """The first move of a chain: a pod leaves `node`, so that a pod of another node fits there."""

    node: OverloadedNode
    move: Move
    chain: Chain


class WholeMove(msgspec.Struct, frozen=True):
    """The moves of all pods of a gang, each with the node that it leaves."""

    gang: Gang
    moves: tuple[tuple[OverloadedNode, Move], ...]


class NodeSelection(msgspec.Struct, frozen=True):
    """The moves of one node in the order of execution, and the refusals of its other candidates.

    `left` is the share of the node's excess that remains, `relieved` whether it is at its stop
    lines. `refusals` has uids of pods as keys. `destinations` and `quota` are the state after the
    moves. `stuck` is why nothing moves although the node needs it, and `possible` are the pods that
    could move. `opening` is the first move of a chain that is to relieve the node in a later cycle,
    `whole` the move of a gang that relieves it.
    """

    moves: tuple[Move, ...]
    left: float
    refusals: Mapping[str, Finding[RefusalReason]]
    destinations: Destinations
    quota: EvictionQuota | None
    relieved: bool = False
    stuck: Finding[NodeReason] | None = None
    possible: tuple[Candidate, ...] = ()
    opening: "Opening | None" = None
    whole: WholeMove | None = None

    @property
    def cost(self) -> float:
        """The cost of all moves."""
        return math.fsum(move.candidate.cost for move in self.moves)


def select_for_node(
    node: OverloadedNode, destinations: Destinations, quota: EvictionQuota | None
) -> NodeSelection:
    """Select the cheapest moves that bring the node as near to its stop lines as possible.

    The arguments are not modified. A quota of None ignores limits and budgets.
    """
    task, setbacks = _Task(node, quota), 0
    while True:
        trial = Trial(destinations, quota, node.loaded)
        chosen = None if node.loaded.is_levelled else task.cheapest()
        if chosen is None:
            trial.move_one_by_one(task)
            break
        denied = trial.move_all(chosen)
        if not denied and task.raise_costs(trial.moves):
            continue
        if not denied:
            break
        task.denied |= denied
        # A single pod without a destination may be an exception. After a second one, or if no node
        # has free capacity, each other pod is tried alone; that needs fewer covers.
        full = any(finding.reason is RefusalReason.NO_NODE_FITS for finding in denied.values())
        before, setbacks = setbacks, setbacks + (ENOUGH_SETBACKS if full else 1)
        if before < ENOUGH_SETBACKS <= setbacks:
            task.deny_those_that_cannot_move_alone(Trial(destinations, quota, node.loaded))
    return task.selection(trial)


def cheapest_pods(node: OverloadedNode) -> list[Candidate] | None:
    """The node's cheapest cover, whether or not its pods have destinations; None without one."""
    return _Task(node, None).cheapest()


class _Task:
    """One node's excess, and the candidates that have not been denied yet."""

    def __init__(self, node: OverloadedNode, quota: EvictionQuota | None) -> None:
        self._candidates = node.candidates
        self._quota = quota
        self._excess = Excess(node.loaded)
        self._shares, self._choices = self._excess.shares(node.candidates)
        self._costs = np.array([c.cost for c in node.candidates], dtype=float)
        # If the node has no needs, the share says nothing about a pod.
        useful = self._shares.max(axis=1, initial=0.0) >= LEAST_RELIEF_SHARE
        useful |= not self._choices
        self.denied: dict[str, Finding[RefusalReason]] = {}
        for helps, candidate in zip(useful.tolist(), node.candidates, strict=True):
            finding = quota.refuse(candidate.pod) if quota else None
            if not helps:
                finding = self._too_little(candidate)
            if finding is not None:
                self.denied[candidate.pod.uid] = finding

    def raise_costs(self, moves: Iterable[Move]) -> bool:
        """Take over higher costs that moves turned out to have; whether there are any."""
        positions = {c.pod.uid: i for i, c in enumerate(self._candidates)}
        raised = False
        for move in moves:
            i = positions[move.candidate.pod.uid]
            raised |= bool(move.candidate.cost > self._costs[i])
            self._costs[i] = max(self._costs[i], move.candidate.cost)
        return raised

    def deny_those_that_cannot_move_alone(self, trial: "Trial") -> None:
        """Deny each open candidate that has no destination even if no other pod moves."""
        for i in self._open():
            move = trial.find(self._candidates[i])
            if isinstance(move, Finding):
                self.denied[self._candidates[i].pod.uid] = move

    def cheapest(self) -> list[Candidate] | None:
        """The cheapest cover by open candidates, most useful first; None without one."""
        if self._excess.clears(()):
            return []
        rows = self._open()
        pods = [self._candidates[i].pod for i in rows]
        covering = Covering(
            self._shares[rows],
            self._costs[rows],
            self._choices,
            tuple(self._quota.caps(pods)) if self._quota else (),
        )
        found = covering.cheapest()
        if found is None:
            return None
        chosen = [rows[i] for i in found]
        chosen.sort(key=lambda i: (-float(self._shares[i].sum()), i))
        return [self._candidates[i] for i in chosen]

    def most_useful(self, gone: Iterable[Candidate]) -> list[Candidate]:
        """The open candidates that still bring relief once these are gone, in the order to try.

        Candidates that relieve memory come before those that relieve only CPU. Within each group,
        those with most relief for their cost come first.
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
        resource = helps.argmax(axis=1)  # the first that the pod relieves; memory comes first
        order = np.lexsort((-worth[np.arange(len(rows)), resource], resource))
        return [self._candidates[rows[i]] for i in order if helps[i].any()]

    def selection(self, trial: "Trial") -> NodeSelection:
        """The moves of the trial, and a refusal for each other candidate."""
        gone = [move.candidate for move in trial.moves]
        moved = {candidate.pod.uid for candidate in gone}
        relieved = self._excess.clears(gone)
        stays = NOT_NEEDED if relieved or not trial.is_levelled else ONE_AT_A_TIME
        refusals = {
            c.pod.uid: self.denied.get(c.pod.uid, stays)
            for c in self._candidates
            if c.pod.uid not in moved
        }
        return NodeSelection(
            tuple(trial.moves),
            self._excess.left(gone),
            refusals,
            trial.destinations,
            trial.quota,
            relieved=relieved,
        )

    def _open(self) -> list[int]:
        return [i for i, c in enumerate(self._candidates) if c.pod.uid not in self.denied]

    def _too_little(self, candidate: Candidate) -> Finding[RefusalReason]:
        reliefs = self._excess.relief(candidate)
        found = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in reliefs)
        return Finding(RefusalReason.NO_RELIEF, f"it would relieve the node of only {found}")


class Trial:
    """Tries moves on its own copies of the destinations and the quota.

    If `source` is levelled, it loses one pod, and no destination may have more load than it is left
    with.
    """

    def __init__(
        self,
        destinations: Destinations,
        quota: EvictionQuota | None,
        source: LoadedNode | None = None,
    ) -> None:
        self.destinations = destinations.copy()
        self.quota = quota.copy() if quota else None
        self.moves: list[Move] = []
        self._levelled = Excess(source) if source is not None and source.is_levelled else None

    @property
    def is_levelled(self) -> bool:
        """Whether the source is levelled."""
        return self._levelled is not None

    def move_all(self, candidates: Iterable[Candidate]) -> dict[str, Finding[RefusalReason]]:
        """Move these candidates until one is denied; return that one's uid with the reason."""
        for candidate in candidates:
            move = self.find(candidate)
            if isinstance(move, Finding):
                return {candidate.pod.uid: move}
            self.take(move)
        return {}

    def move_one_by_one(self, task: _Task) -> None:
        """Make the most useful moves until none is left; deny the impossible ones."""
        moved = True
        while moved:
            moved = False
            for candidate in task.most_useful([move.candidate for move in self.moves]):
                move = self.find(candidate)
                if not isinstance(move, Finding):
                    self.take(move)
                    moved = not self.is_levelled
                    break
                task.denied[candidate.pod.uid] = move

    def find(self, candidate: Candidate, *, cool: bool = False) -> Move | Finding[RefusalReason]:
        """Return the candidate's move after those made so far, or the reason why there is none.

        See `Destinations.find` for `cool`.
        """
        pod = candidate.pod
        denied = self.quota.refuse(pod) if self.quota else None
        if denied is not None:
            return denied
        at_most = self._levelled.levels((candidate,)) if self._levelled else NO_LIMITS
        found = self.destinations.find(pod, candidate.charge, cool=cool, at_most=at_most)
        if isinstance(found, Finding):
            return found
        if found.beyond_preferred:
            cost = candidate.cost + OUTSIDE_PREFERRED
            candidate = msgspec.structs.replace(candidate, cost=cost)
        return Move(candidate, found)

    def take(self, move: Move) -> None:
        """Make the move."""
        candidate = move.candidate
        self.destinations.take(move.destination, candidate.pod, candidate.charge)
        if self.quota:
            self.quota.take(candidate.pod)
        self.moves.append(move)
