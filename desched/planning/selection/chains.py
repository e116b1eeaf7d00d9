"""Finds chains for nodes that single moves cannot relieve, because their pods fit nowhere.

A pod of little use leaves a cool node, and a pod of the overloaded node takes its room. Only the
first move is made at once. The second one is an ordinary move of a later cycle, which finds the
room. docs/decisions/0013-chains-of-two.md has the reasons.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from desched.model.chain import Chain, ChainUnderWay
from desched.model.cluster import Pod, PodRef
from desched.model.plan import Finding, NodeReason, RefusalReason
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.model.state import PauseScope
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.candidates import DEAR, Candidate, OverloadedNode, candidate_of
from desched.planning.selection.excess import MOST_LEFT, Excess
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.outcomes import NodeSelection, Opening, Stuck, room_being_made
from desched.planning.selection.trial import Move, Trial
from desched.policy.compatibility import SteeringMode

MOST_USE_SHARE = 0.5
"""The first pod uses at most this share of what the second one uses of an overloaded resource."""

MOST_SECONDS, MOST_LOOKED_AT, MOST_TRIED, MOST_TRIED_OF_WORKLOAD = 3, 60, 8, 2
"""The bounds of the search for one node: second pods, and for each of them first pods that are
looked at, that are tried, and that are tried of one workload."""

MOST_TRIED_IN_PLAN = 40
"""The bound of all searches of a plan; the most overloaded nodes come first."""

WITHOUT_ROOM = frozenset(
    {
        RefusalReason.NO_NODE_FITS,
        RefusalReason.NO_NODE_UNDER_CEILING,
        RefusalReason.LANDING_RISK,
        RefusalReason.ROOM_AWAITED,
    }
)
"""The refusals that more room on a cool node may change."""

MOST_ROOMS = 100
"""The maximum number of nodes whose pods may make room. The usage of these pods is read beforehand,
for each plan that may seek a chain."""


def rooms(pressure: Pressure, destinations: LabelSelector) -> frozenset[str]:
    """The nodes where a pod may make room for another: the least loaded destinations.

    Their load counts as measured, so that they do not depend on which pods are read.
    """
    found = [
        loaded
        for loaded in pressure.known.values()
        if loaded.receives and destinations.matches(loaded.node.labels)
    ]
    found.sort(key=lambda loaded: (_fullness(loaded), loaded.node.name))
    return frozenset(loaded.node.name for loaded in found[:MOST_ROOMS])


def _fullness(loaded: LoadedNode) -> float:
    """How far the load is above the ceilings at most, less than 0 if it is below all of them."""
    return max(
        (
            max(ratio for _, ratio in each.measured) - each.ceiling_ratio
            for each in loaded.verdict.pressures
        ),
        default=0.0,
    )


class Openings:
    """Looks for the first moves of chains; `chains` are those of earlier cycles."""

    def __init__(
        self, eligibility: Eligibility, pressure: Pressure, chains: Iterable[ChainUnderWay]
    ) -> None:
        self._eligibility = eligibility
        self._known = pressure.known
        self._rooms = rooms(pressure, eligibility.context.policy.destination_selector)
        self._taken = {each.chain.source: each for each in chains}
        self._left = MOST_TRIED_IN_PLAN

    def open_for(self, node: OverloadedNode, stuck: NodeSelection) -> NodeSelection:
        """The selection with the first move of a chain, or with what such a chain lacks."""
        quota = stuck.quota
        taken = self._taken.get(node.name)
        if taken is not None:
            return _under_way(stuck, taken)
        if quota is None:
            return stuck
        seconds = _seconds(node, stuck)
        if not seconds:
            return _without(stuck, "no pod of it would clear half of its excess")
        for second in seconds[:MOST_SECONDS]:
            for first in self._firsts(second, node, stuck.destinations):
                if not self._left:
                    return _without(stuck, "more overloaded nodes come first")
                self._left -= 1
                found = _opening(first, second, self._known, stuck.destinations, quota)
                if found is not None:
                    return _with(stuck, *found)
        return _without(stuck, "no pod that may leave now could make room for one of its pods")

    def _firsts(
        self, second: Candidate, node: OverloadedNode, destinations: Destinations
    ) -> Iterator[Candidate]:
        """The pods whose room the second one could take, those with the smallest requests first."""
        free = destinations.free
        lacking, admitting = free.shortage(second.pod, second.charge)
        admitting &= lacking.any(axis=0)
        admitting &= free.arrays.where(lambda each: each.name in self._rooms)
        requests, positions = free.index.requests
        helps = admitting[positions] & np.all(requests >= lacking[:, positions], axis=0)
        rows = np.flatnonzero(helps)
        shares = requests[:2, rows] / np.maximum(free.allocatable[:2, positions[rows]], 1)
        residents = free.index.residents
        leaving = [change.pod for change in free.changes if change.sign < 0]
        gone = {pod.uid for pod in leaving}
        disturbed = {pod.controller for pod in leaving}
        dearest = min((c.cost for c in node.candidates), default=0.0) + DEAR
        tried = Counter[str]()
        for row in rows[np.argsort(shares.sum(axis=0), kind="stable")[:MOST_LOOKED_AT]]:
            pod = residents[row][0]
            owner = pod.owner.uid if pod.owner else pod.uid
            if not pod.node or pod.uid in gone or tried[owner] >= MOST_TRIED_OF_WORKLOAD:
                continue
            is_stranger = pod.namespace != second.pod.namespace
            if is_stranger and (pod.controller in disturbed or self._has_moved(pod)):
                continue
            found = self._candidate(pod)
            if found is None or found.cost >= dearest or not _uses_little(found, second, node):
                continue
            tried[owner] += 1
            yield found
            if tried.total() >= MOST_TRIED:
                return

    def _has_moved(self, pod: Pod) -> bool:
        """Whether a pod of its workload was evicted within the hour.

        A tenant can overload the nodes of his own pods again and again. A workload of another
        namespace makes room for them once an hour at most.
        """
        workload = self._eligibility.context.cluster.workload_of(pod)
        return workload is not None and self._eligibility.moved_within_hour[workload.uid] > 0

    def _candidate(self, pod: Pod) -> Candidate | None:
        """The pod as a candidate to leave a node that is not overloaded, None if it stays."""
        context, pool = self._eligibility.context, self._known[pod.node].verdict.pool
        if context.state.pausing(context.now, PauseScope.POOL, pool) is not None:
            return None
        return candidate_of(pod, context) if self._eligibility.may_leave(pod) else None


class NoOpenings(NamedTuple):
    """No chain is sought, for this reason."""

    why: str

    def open_for(self, _: OverloadedNode, stuck: NodeSelection) -> NodeSelection:
        """The selection with this reason."""
        return _without(stuck, self.why)


def openings_of(
    eligibility: Eligibility, pressure: Pressure, chains: Iterable[ChainUnderWay]
) -> Openings | NoOpenings:
    """What may make room for stuck nodes by the policy."""
    policy = eligibility.context.policy
    if policy.chains:
        return Openings(eligibility, pressure, chains)
    if policy.steering.mode is SteeringMode.OFF:
        return NoOpenings("none is sought where steering is Off, unless chainedMoves is true")
    return NoOpenings("chainedMoves is false")


def _seconds(node: OverloadedNode, stuck: NodeSelection) -> list[Candidate]:
    """The pods that would clear enough if they had room, cheapest first.

    Those that need the moves that are possible without them come last.
    """
    excess = Excess(node.loaded)
    possible = stuck.outcome.possible if isinstance(stuck.outcome, Stuck) else ()
    found = [
        candidate
        for candidate in node.candidates
        if (finding := stuck.refusals.get(candidate.pod.uid)) is not None
        and finding.reason in WITHOUT_ROOM
        and excess.left([*possible, candidate]) <= MOST_LEFT
    ]

    def order(candidate: Candidate) -> tuple[bool, float, float, PodRef]:
        alone = excess.left([candidate]) <= MOST_LEFT
        return not alone, candidate.cost, sum(candidate.charge.values()), candidate.pod.ref

    return sorted(found, key=order)


def _uses_little(first: Candidate, second: Candidate, node: OverloadedNode) -> bool:
    return all(
        first.charge[p.resource] <= MOST_USE_SHARE * second.charge[p.resource]
        for p in node.loaded.overloaded
    )


def _opening(
    first: Candidate,
    second: Candidate,
    known: Mapping[str, LoadedNode],
    destinations: Destinations,
    quota: EvictionQuota,
) -> tuple[Opening, Destinations, EvictionQuota | None] | None:
    """The first move, if both moves are possible one after the other; the state after it."""
    room_on = first.pod.node
    trial = Trial(destinations, quota)
    opening = trial.find(first, cool=True)
    if isinstance(opening, Finding):
        return None
    trial.take(opening)
    following = Trial(trial.destinations.after_landings(), quota).find(second, cool=True)
    if not isinstance(following, Move) or following.destination.expected_node != room_on:
        return None
    after = trial.destinations.copy()
    after.free.load.hold(room_on)
    source = second.pod.node
    relief = Excess(known[source]).relief(second)
    chain = Chain(
        first.pod.ref,
        second.pod.ref,
        source,
        room_on,
        opening.destination.expected_node,
        first.charge.get(Resource.CPU, 0.0),
        max(part.ratio for part in relief),
    )
    return Opening(known[room_on], opening, chain), after, trial.quota


def _with(
    stuck: NodeSelection, opening: Opening, destinations: Destinations, quota: EvictionQuota | None
) -> NodeSelection:
    refusals = _refusals(stuck, opening.chain)
    return NodeSelection(opening, refusals, destinations, quota)


def _under_way(stuck: NodeSelection, taken: ChainUnderWay) -> NodeSelection:
    if taken.broken_at is not None:
        return _without(stuck, f"one was broken at {taken.broken_at:%H:%M} UTC, {taken.why}")
    waits = Stuck(room_being_made(taken.chain))
    return msgspec.structs.replace(stuck, outcome=waits, refusals=_refusals(stuck, taken.chain))


def _refusals(stuck: NodeSelection, chain: Chain) -> dict[str, Finding[RefusalReason]]:
    """The refusals; that of the second pod is that it waits for its room."""
    why = f"{chain.first} makes room on {chain.room_on}"
    return {**stuck.refusals, chain.second.uid: Finding(RefusalReason.ROOM_BEING_MADE, why)}


def _without(stuck: NodeSelection, lacking: str) -> NodeSelection:
    known = stuck.stuck.detail if stuck.stuck else ""
    detail = f"{known}; no chain of two moves: {lacking}"
    outcome = Stuck(Finding(NodeReason.EXCESS_NOT_MOVABLE, detail))
    return msgspec.structs.replace(stuck, outcome=outcome)
