"""Selects the cheapest set of pods that brings one overloaded node to its stop lines.

First, the cheapest cover of the excess is computed as if there were room everywhere. Then each of
its pods gets a destination. A pod without one is excluded, and the cover is computed again. If no
cover is possible, the most useful moves are made one by one, memory before CPU.
"""

from collections.abc import Iterable

import numpy as np

from desched.model.plan import Finding, RefusalReason
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.candidates import Candidate, OverloadedNode
from desched.planning.selection.excess import Excess
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.outcomes import NodeSelection, SingleMoves
from desched.planning.selection.set_cover import Covering
from desched.planning.selection.trial import Move, Trial

LEAST_RELIEF_SHARE = 0.02
"""A pod must clear at least this share: otherwise the node would need more than fifty evictions."""

NOT_NEEDED = Finding(RefusalReason.NOT_NEEDED)
ONE_AT_A_TIME = Finding(
    RefusalReason.NODE_SETTLING, "a node of a saturated pool loses one pod at a time"
)

ENOUGH_SETBACKS = 2
"""After this many covers with a pod that has no destination, each pod of the node is tried."""


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
            task.move_one_by_one(trial)
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
        self._loaded = node.loaded
        self._candidates = node.candidates
        self._quota = quota
        self._excess = Excess(node.loaded)
        self._shares, self._choices = self._excess.shares(node.candidates)
        self._costs = np.array([c.cost for c in node.candidates], dtype=float)
        # If the node has no needs, the share has no meaning.
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

    def deny_those_that_cannot_move_alone(self, trial: Trial) -> None:
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

    def move_one_by_one(self, trial: Trial) -> None:
        """Make the most useful moves until none is left; deny the impossible ones."""
        moved = True
        while moved:
            moved = False
            for candidate in self.most_useful([move.candidate for move in trial.moves]):
                move = trial.find(candidate)
                if not isinstance(move, Finding):
                    trial.take(move)
                    moved = not trial.is_levelled
                    break
                self.denied[candidate.pod.uid] = move

    def selection(self, trial: Trial) -> NodeSelection:
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
        moves = tuple((self._loaded, move) for move in trial.moves)
        outcome = SingleMoves(moves, self._excess.left(gone), relieved)
        return NodeSelection(outcome, refusals, trial.destinations, trial.quota)

    def _open(self) -> list[int]:
        return [i for i, c in enumerate(self._candidates) if c.pod.uid not in self.denied]

    def _too_little(self, candidate: Candidate) -> Finding[RefusalReason]:
        reliefs = self._excess.relief(candidate)
        found = ", ".join(f"{r.resource.value} {r.ratio:.1%}" for r in reliefs)
        return Finding(RefusalReason.NO_RELIEF, f"it would relieve the node of only {found}")
