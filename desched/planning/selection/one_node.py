"""Which pods leave one overloaded node: the cheapest set that brings it to its stop lines.

The cheapest cover of the excess is found as if there were room everywhere, and then each of its
pods is given a destination in turn; a pod that finds none is left out, and the cover is found anew.
Where no cover is possible, the most useful moves are made one by one, memory before CPU.
"""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from desched.model.plan import Finding, RefusalReason
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destinations import Destination, Destinations
from desched.planning.selection.excess import Candidate, Excess
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.set_cover import Covering

LEAST_RELIEF_SHARE = 0.02
"""A pod that clears less of the excess would be one of more than fifty: moving it is noise."""

NOT_NEEDED = Finding(RefusalReason.NOT_NEEDED)
"""Of a pod that could be moved as well."""

ENOUGH_SETBACKS = 2
"""After this many covers of which a pod had no destination, all pods of the node are tried."""


class OverloadedNode(msgspec.Struct, frozen=True):
    """An overloaded node and those of its pods that may be moved, by name."""

    loaded: LoadedNode
    candidates: tuple[Candidate, ...]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.loaded.node.name

    @property
    def pods(self) -> list[str]:
        """The uids of the pods that may be moved."""
        return [candidate.pod.uid for candidate in self.candidates]


class Move(msgspec.Struct, frozen=True):
    """A candidate with the destination where its replacement is expected."""

    candidate: Candidate
    destination: Destination


class NodeSelection(msgspec.Struct, frozen=True):
    """The moves chosen for one node, in the order of acting, and why its other candidates stay.

    `left` is the share of the node's excess that stays, `stay` is keyed by the pod's uid.
    `destinations` and `quota` are what the moves leave to other nodes. `stuck` says with numbers
    why nothing is moved of an excess that is not the pods' to take away.
    """

    moves: tuple[Move, ...]
    left: float
    stay: Mapping[str, Finding[RefusalReason]]
    destinations: Destinations
    quota: EvictionQuota | None
    stuck: str = ""


def select_for_node(
    node: OverloadedNode, destinations: Destinations, quota: EvictionQuota | None
) -> NodeSelection:
    """The cheapest moves that bring the node to its stop lines, as far as destinations allow.

    Args:
        node: an overloaded node with its candidates.
        destinations: where pods may go; not changed.
        quota: what limits and budgets leave to this plan, not changed; None ignores them.
    """
    task, setbacks = _Task(node, quota), 0
    while True:
        trial = Trial(destinations, quota)
        chosen = task.cheapest()
        if chosen is None:
            trial.move_one_by_one(task)
            break
        denied = trial.move_all(chosen)
        if not denied:
            break
        task.denied |= denied
        # One pod without a destination may be chance. After a second one, or where a full cluster
        # is why, all others are tried alone, rather than found out one by one.
        full = any(finding.reason is RefusalReason.NO_NODE_FITS for finding in denied.values())
        before, setbacks = setbacks, setbacks + (ENOUGH_SETBACKS if full else 1)
        if before < ENOUGH_SETBACKS <= setbacks:
            task.deny_those_that_cannot_move_alone(Trial(destinations, quota))
    return task.selection(trial)


def cheapest_pods(node: OverloadedNode) -> list[Candidate] | None:
    """The node's cheapest cover if there were room everywhere; None if there is none."""
    return _Task(node, None).cheapest()


class _Task:
    """One node's excess, and the candidates that have not been denied yet."""

    def __init__(self, node: OverloadedNode, quota: EvictionQuota | None) -> None:
        self._candidates = node.candidates
        self._quota = quota
        self._excess = Excess(node.loaded)
        self._shares, self._choices = self._excess.shares(node.candidates)
        self._costs = np.array([c.cost for c in node.candidates], dtype=float)
        # On a node without needs, no pod is useless.
        useful = self._shares.max(axis=1, initial=0.0) >= LEAST_RELIEF_SHARE
        useful |= not self._choices
        self.denied: dict[str, Finding[RefusalReason]] = {}
        for helps, candidate in zip(useful.tolist(), node.candidates, strict=True):
            finding = quota.refuse(candidate.pod) if quota else None
            if not helps:
                finding = self._too_little(candidate)
            if finding is not None:
                self.denied[candidate.pod.uid] = finding

    def deny_those_that_cannot_move_alone(self, trial: "Trial") -> None:
        """Deny each open candidate that has no destination even where nothing else moves."""
        for i in self._open():
            move = trial.find(self._candidates[i])
            if isinstance(move, Finding):
                self.denied[self._candidates[i].pod.uid] = move

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
            tuple(self._quota.caps(pods)) if self._quota else (),
        )
        found = covering.cheapest()
        if found is None:
            return None
        chosen = [rows[i] for i in found]
        chosen.sort(key=lambda i: (-float(self._shares[i].sum()), i))
        return [self._candidates[i] for i in chosen]

    def most_useful(self, gone: Iterable[Candidate]) -> list[Candidate]:
        """Open candidates that clear any more once these are gone, in the order to try them.

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

    def selection(self, trial: "Trial") -> NodeSelection:
        """The moves of the trial, with a reason for each candidate that stays."""
        gone = [move.candidate for move in trial.moves]
        moved = {candidate.pod.uid for candidate in gone}
        stay = {
            c.pod.uid: self.denied.get(c.pod.uid, NOT_NEEDED)
            for c in self._candidates
            if c.pod.uid not in moved
        }
        left = self._excess.left(gone)
        return NodeSelection(tuple(trial.moves), left, stay, trial.destinations, trial.quota)

    def _open(self) -> list[int]:
        return [i for i, c in enumerate(self._candidates) if c.pod.uid not in self.denied]

    def _too_little(self, candidate: Candidate) -> Finding[RefusalReason]:
        reliefs = self._excess.relief(candidate)
        found = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in reliefs)
        return Finding(RefusalReason.NO_RELIEF, f"it would take only {found} off the node")


class Trial:
    """Moves candidates on copies of the destinations and the quota that are left."""

    def __init__(self, destinations: Destinations, quota: EvictionQuota | None) -> None:
        self.destinations = destinations.copy()
        self.quota = quota.copy() if quota else None
        self.moves: list[Move] = []

    def move_all(self, candidates: Iterable[Candidate]) -> dict[str, Finding[RefusalReason]]:
        """Move them in this order up to the first that is denied; its reason, keyed by its uid."""
        for candidate in candidates:
            move = self.find(candidate)
            if isinstance(move, Finding):
                return {candidate.pod.uid: move}
            self.take(move)
        return {}

    def move_one_by_one(self, task: _Task) -> None:
        """Make the most useful moves, as many as are allowed and possible; deny the others."""
        moved = True
        while moved:
            moved = False
            for candidate in task.most_useful([move.candidate for move in self.moves]):
                move = self.find(candidate)
                if not isinstance(move, Finding):
                    self.take(move)
                    moved = True
                    break
                task.denied[candidate.pod.uid] = move

    def find(self, candidate: Candidate) -> Move | Finding[RefusalReason]:
        """The move of the candidate as things stand now, or why there is none; changes nothing."""
        pod = candidate.pod
        denied = self.quota.refuse(pod) if self.quota else None
        if denied is not None:
            return denied
        found = self.destinations.find(pod, candidate.charge)
        return found if isinstance(found, Finding) else Move(candidate, found)

    def take(self, move: Move) -> None:
        """Count the pod as evicted and its replacement as there."""
        candidate = move.candidate
        self.destinations.take(move.destination, candidate.pod, candidate.charge)
        if self.quota:
            self.quota.take(candidate.pod)
        self.moves.append(move)
