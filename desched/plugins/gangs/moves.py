"""Moves a gang whole where nothing else relieves a node: all its pods leave, or none.

All of them leave first, then each is placed, the largest first, after the moves of the plan so far.
docs/decisions/0019-gangs-that-move-whole.md has the reasons.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from desched.model.plan import Finding, RefusalReason
from desched.model.resources import Resource
from desched.model.stored_state import is_done
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.eligibility.terms import Refused
from desched.planning.overload.classification import Pressure
from desched.planning.placement.destinations import Destinations
from desched.planning.plugins import Relief
from desched.planning.selection.candidates import Candidate, OverloadedNode, candidate_of
from desched.planning.selection.excess import Excess
from desched.planning.selection.outcomes import JointMove, NodeSelection
from desched.planning.selection.trial import Move
from desched.plugins.gangs.places import GangDestinations, GangMember
from desched.plugins.gangs.whole_gangs import WholeGang, WholeGangs

MOST_TRIED_IN_PLAN = 20
"""The most gangs that are placed for a plan; the most overloaded nodes come first."""

MOST_LEFT = 0.5
"""Moves that leave more than this share of a node's excess are not worth their evictions: other
load is the cause."""


class Gang(msgspec.Struct, frozen=True):
    """A gang whose pods, wherever they run, may only move together; `name` is that of the gang."""

    name: str
    members: tuple[Candidate, ...]

    @property
    def cost(self) -> float:
        """The cost of the evictions of all its pods."""
        return math.fsum(candidate.cost for candidate in self.members)

    def on(self, node: str) -> list[Candidate]:
        """Its pods on this node."""
        return [candidate for candidate in self.members if candidate.pod.node == node]

    def __str__(self) -> str:
        return f"{self.name}, {len(self.members)} pods"


class WholeMoves(Relief):
    """Moves at most one gang in a plan."""

    def __init__(self, eligibility: Eligibility, pressure: Pressure) -> None:
        self._eligibility = eligibility
        self._context = eligibility.context
        self._pressure = pressure
        self._moved = ""
        self._left = MOST_TRIED_IN_PLAN

    def relieve(self, node: OverloadedNode, stuck: NodeSelection) -> NodeSelection:
        """The selection with the cheapest gang that can leave, or with why each of them stays."""
        refusals = dict(stuck.refusals)
        for gang in sorted(self._gangs_on(node), key=lambda each: (each.cost, each.name)):
            refusal = self._refuse(gang, node, stuck)
            placed = refusal or self._placed(gang, stuck)
            if isinstance(placed, _Placed):
                self._moved = gang.name
                return self._selection(gang, placed, replace(stuck, refusals=refusals))
            detail = f"{gang}: {placed.detail or placed.reason.value}"
            stays = Finding(placed.reason, detail)
            refusals |= {candidate.pod.uid: stays for candidate in gang.on(node.name)}
        return replace(stuck, refusals=refusals)

    def _gangs_on(self, node: OverloadedNode) -> Iterable[Gang]:
        """The gangs that may move whole, with pods on the node that do not move alone."""
        context, gangs = self._context, dict[str, WholeGang]()
        whole = context.derived(WholeGangs)
        for pod in context.cluster.pods_by_node.get(node.name, ()):
            finding = self._eligibility.refuse(pod)
            if finding is not None and finding.reason is RefusalReason.POD_GROUP:
                gang = whole.of(pod)
                if isinstance(gang, WholeGang):
                    gangs.setdefault(str(gang), gang)
        pasts = self._pressure.outlook.pasts
        for name, gang in gangs.items():
            yield Gang(name, tuple(candidate_of(pod, context, pasts) for pod in gang.members))

    def _refuse(self, gang: Gang, node: OverloadedNode, stuck: NodeSelection) -> Refused:
        """Why the gang stays, before it is known whether it fits elsewhere."""
        if self._moved:
            reason = f"a plan moves one gang, and this one moves {self._moved}"
            return Finding(RefusalReason.POD_GROUP, reason)
        left = Excess(node.loaded).left(gang.on(node.name))
        if left > MOST_LEFT:
            return Finding(RefusalReason.NO_RELIEF, f"it would clear {1 - left:.0%} of the excess")
        if finding := next(self._waiting(gang), None):
            return finding
        gone = {change.pod.uid for change in stuck.destinations.free.changes if change.sign < 0}
        if any(c.pod.uid in gone for c in gang.members):
            return Finding(RefusalReason.POD_GROUP, "this plan moves one of its pods alone")
        if not self._left:
            return Finding(RefusalReason.POD_GROUP, "more overloaded nodes come first")
        return stuck.quota.refuse_all([c.pod for c in gang.members]) if stuck.quota else None

    def _waiting(self, gang: Gang) -> Iterator[Finding[RefusalReason]]:
        """Why a pod of the gang must not leave its node now, or its workload waits."""
        context, pressure = self._context, self._pressure
        pauses = [p for p in context.state.pauses if not is_done(p, context.now)]
        for pod in (candidate.pod for candidate in gang.members):
            loaded, wait = pressure.known.get(pod.node), pressure.waiting.get(pod.node)
            workload = context.cluster.workload_of(pod)
            if loaded is None:
                reason = f"the load of node {pod.node}, which {pod.ref} leaves, is not judged"
                yield Finding(RefusalReason.POD_GROUP, reason)
                continue
            if wait is not None:
                yield Finding(wait.reason, f"{pod.ref} leaves node {pod.node}: {wait.detail}")
            for pause in pauses:
                if pause.covers(str(workload), loaded.verdict.pool):
                    yield Finding(RefusalReason.PAUSED, f"{pause.describe()}; a gang is no probe")
            if workload is not None and context.terms.in_flight[workload.uid]:
                yield Finding(RefusalReason.IN_FLIGHT, str(workload))

    def _placed(self, gang: Gang, stuck: NodeSelection) -> "_Placed | Finding[RefusalReason]":
        """The moves of all its pods, or why one of them has no destination."""
        self._left -= 1
        members = [GangMember(c.pod, _least(c), c.charge) for c in gang.members]
        destinations = GangDestinations(members, stuck.destinations)
        if unclear := destinations.keep_together():
            return unclear
        moves = []
        for candidate in sorted(gang.members, key=_size, reverse=True):
            destination = destinations.destination_of(candidate.pod, candidate.charge)
            if isinstance(destination, Finding):
                detail = destination.detail or destination.reason.value
                return Finding(destination.reason, f"{candidate.pod.ref}: {detail}")
            destinations.take(destination, candidate.pod, candidate.charge)
            moves.append(Move(candidate, destination))
        return _Placed(moves, destinations.refilled())

    def _selection(self, gang: Gang, placed: "_Placed", stuck: NodeSelection) -> NodeSelection:
        quota = stuck.quota.copy() if stuck.quota else None
        if quota is not None:
            for candidate in gang.members:
                quota.take(candidate.pod)
        judged = self._pressure.known
        moves = tuple(
            (judged[move.candidate.pod.node], move) for move in _steered_first(placed.moves)
        )
        moved = {candidate.pod.uid for candidate in gang.members}
        refusals = {uid: finding for uid, finding in stuck.refusals.items() if uid not in moved}
        outcome = JointMove(str(gang), moves, note=f"moves whole: {gang}", says={"gang": gang.name})
        return NodeSelection(outcome, refusals, placed.destinations, quota)


class _Placed(NamedTuple):
    """The moves of a gang, and the destinations after them."""

    moves: list[Move]
    destinations: Destinations


def _least(candidate: Candidate) -> dict[Resource, float]:
    return {resource: min(usage, default=0.0) for resource, usage in candidate.usage.items()}


def _size(candidate: Candidate) -> tuple[int, int, int]:
    requests = candidate.pod.scheduling.requests
    devices = sum(count for _, count in requests.extended)
    return devices, requests.cpu_millicores, requests.memory_bytes


def _steered_first(moves: list[Move]) -> list[Move]:
    """The moves with all soft taints before the first: all its pods leave at once."""
    names = {name for move in moves for name in move.destination.steered}
    first = moves[0]
    destination = replace(first.destination, steered=tuple(sorted(names)))
    return [replace(first, destination=destination), *moves[1:]]
