"""Plans the moves of drains: first of those under way, then of those that may begin."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from desched.model.cache import cached
from desched.model.cluster import Pod
from desched.model.plan import NodeClass
from desched.model.state import PauseScope
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import Pressure
from desched.planning.placement.destinations import Destinations
from desched.planning.plugins import OtherMove, OtherMoves
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.trial import Move
from desched.plugins.gpus.drains.demands import Demand, Demands, gang_of, moves_today
from desched.plugins.gpus.drains.drain import (
    GPU_DEMAND,
    Drain,
    DrainEnd,
    DrainPlan,
    Unserved,
    drains_of,
)
from desched.plugins.gpus.drains.fragmented import Fragmented
from desched.plugins.gpus.drains.places import Places, Search
from desched.plugins.gpus.drains.proof import Unproved, leaving, leaving_now, moves_now, prove, said
from desched.plugins.gpus.drains.rules import GpuDrainRules
from desched.plugins.gpus.drains.vacancies import Vacancies

MOST_TRIED = 10
"""The most sets of nodes that are tried for a demand; the cheapest come first."""

MOST_FORESEEN = 20
"""For so many demands the nodes are chosen before the first pod moves."""

_ROUNDING = 1e-6

_OF_MANY = frozenset({PauseScope.EVERYTHING, PauseScope.POOL})
"""Pauses that are for no single workload, so that a drain waits for their end."""


def plan_drains(
    rules: GpuDrainRules,
    eligibility: Eligibility,
    pressure: Pressure,
    destinations: Destinations,
    quota: EvictionQuota,
) -> OtherMoves:
    """Plan after the moves that relieve nodes; the arguments are not modified.

    The plan gets the drains of earlier cycles, and what waits without one.
    """
    planning = partial(_Planning, rules, eligibility, pressure, destinations, quota)
    ahead = planning()
    drained = ahead.planned(ahead.foreseen())
    if ahead.has_begun or not ahead.foreseen():
        return drained
    return planning().planned(())  # there is too little room to keep all these nodes free


class _Taken(NamedTuple):
    """A drain that is proved, with all that it still takes."""

    drain: Drain
    places: Places


class _Planning:
    """Plans drains one after the other.

    `proved` is the state once all drains so far are over, `now` the one before their moves;
    `counted` is the quota after those moves that this cycle may make.
    """

    def __init__(
        self,
        rules: GpuDrainRules,
        eligibility: Eligibility,
        pressure: Pressure,
        destinations: Destinations,
        quota: EvictionQuota,
    ) -> None:
        self._rules = rules
        self._context = eligibility.context
        self._pressure = pressure
        moving = self._context.without_rules(Drain.waived)
        vacancies = Vacancies(Eligibility(moving), pressure)
        self._search = Search(self._context, vacancies)
        self._demands = Demands.of(self._context, rules)
        # The plan decides who gets the room that it makes, in the order of the scheduler's queue.
        waiting = [pod for demand in self._demands.served for pod in demand.pods]
        refs = {ref for drain in drains_of(self._context.state) for ref in drain.pods}
        waiting += [p for p in self._context.cluster.pods if refs and not p.node and p.ref in refs]
        self._proved = self._now = destinations.expecting(waiting)
        self._quota = self._counted = quota
        self._taken: list[_Taken] = []
        self._unserved: list[Unserved] = []
        self._in_vain: dict[Hashable, str] = {}
        self._foreseen: Sequence[str] = ()
        self._fragmented = Fragmented(self._context, destinations.free.arrays)

    @cached
    def foreseen(self) -> tuple[str, ...]:
        """The nodes that the demands together would be served by for the cheapest moves.

        While they are kept free, no pod of one drain lands where the next one is due.
        """
        free, nodes = self._proved.free, list[str]()
        for demand in self._demands.served[:MOST_FORESEEN]:
            places = self._search.best(demand, free, nodes)
            if isinstance(places, str) or not places.vacancies:
                break
            nodes += places.nodes
        return tuple(nodes)

    @property
    def has_begun(self) -> bool:
        """Whether a drain begins."""
        return any(planned.drain not in drains_of(self._context.state) for planned in self._taken)

    def planned(self, foreseen: Sequence[str]) -> OtherMoves:
        """The plan while these nodes are kept free, if that is possible."""
        self._foreseen = foreseen
        held = self._proved.held(foreseen)
        if isinstance(held, Destinations):
            self._proved = held
        drains = tuple(self._continued(drains_of(self._context.state)))
        self._unserved += self._demands.unserved
        for demand in self._demands.served:
            if reason := self._in_vain.get(_kind(demand)) or self._begin(demand):
                self._in_vain[_kind(demand)] = reason
                self._unserved.append(Unserved(str(demand), demand.gpus, reason))
        said = DrainPlan(drains, tuple(self._unserved))
        return OtherMoves(tuple(self._moves()), said.extras)

    def _continued(self, drains: Iterable[Drain]) -> Iterator[Drain]:
        """The drains; those under way with their next moves, or broken if they cannot go on."""
        for drain in drains:
            yield self._go_on(drain) if drain.under_way else drain

    def _go_on(self, drain: Drain) -> Drain:
        demand = self._demand_of(drain)
        if demand is None or self._waits(drain):
            return drain  # the next cycle ends it, or goes on
        free = self._proved.free
        within = free.arrays.where(lambda node: node.name in drain.nodes)
        places = self._search.cheapest(demand, free, within, ())
        if isinstance(places, str):
            return drain.ended(DrainEnd.BROKEN, self._context.now, places)
        if not places.vacancies:
            return drain  # it waits for the scheduler
        if reason := self._too_many(drain.namespace, places.moves, drain.moves):
            return drain.ended(DrainEnd.BROKEN, self._context.now, reason)
        places = msgspec.structs.replace(places, nodes=drain.nodes)
        unproved = self._take(demand, places, drain)
        if unproved is not None and not unproved.may_pass:
            return drain.ended(DrainEnd.BROKEN, self._context.now, unproved.why)
        return drain

    def _waits(self, drain: Drain) -> bool:
        """Whether a pause is for more than a workload, or a node is unknown or overloaded now."""
        if any(pause.scope in _OF_MANY for pause in self._context.state.pauses):
            return True
        loaded_nodes = [self._pressure.known.get(node) for node in drain.nodes]
        overloaded = NodeClass.OVERLOADED
        return any(
            loaded is None or loaded.verdict.node_class is overloaded for loaded in loaded_nodes
        )

    def _demand_of(self, drain: Drain) -> Demand | None:
        """What the drain is for, as far as it still waits."""
        if drain.reserve:
            reserves = Demands.of_reserves(self._context, self._rules)
            return next((demand for demand in reserves if demand.is_of(drain)), None)
        refs = set(drain.pods)
        waiting = tuple(p for p in self._context.cluster.pods if not p.node and p.ref in refs)
        if not waiting:
            return None
        gang = gang_of(waiting[0], self._context) if drain.gang else None
        return Demand(waiting, min(pod.priority for pod in waiting), gang)

    def _begin(self, demand: Demand) -> str:
        """Begin a drain for the demand, or return why there is none."""
        if reason := self._barred():
            return reason
        banned: set[str] = set()
        for _ in range(MOST_TRIED):
            places = self._search.best(demand, self._proved.free, banned)
            if isinstance(places, str):
                return reason or places
            reason = self._unsuited(places, demand)
            if reason:
                break
            proof = self._take(demand, places, self._drain(demand, places))
            reason = proof.why if proof else ""
            if proof is None or not proof.node:
                break
            banned.add(proof.node)
        return reason

    def _barred(self) -> str:
        """Why no drain may begin now, whatever waits."""
        for pause in self._context.state.pauses:
            if pause.scope is PauseScope.EVERYTHING:
                return pause.describe()
        limit = self._counted.exhausted
        return said(limit) if limit else ""

    def _unsuited(self, places: Places, demand: Demand) -> str:
        """Why no drain begins for these places, the cheapest ones."""
        if not places.vacancies:
            return f"it has room on {', '.join(places.nodes)}, and waits for its scheduler"
        return self._too_many(demand.namespace, places.moves)

    def _too_many(self, namespace: str, moves: int, made: int = 0) -> str:
        """Why a drain that has made some moves must not make so many more; empty if it may."""
        most, daily = self._rules.most_moves, self._rules.daily_moves
        if made + moves > most:
            return f"it would take {made + moves} moves, and a drain makes at most {most}"
        if self._moves_of(namespace) + moves > daily:
            return f"it would take {moves} moves, and drains make at most {daily} within a day"
        return ""

    def _moves_of(self, namespace: str) -> int:
        """The moves of drains within a day, with those of this plan."""
        planned = sum(
            each.places.moves for each in self._taken if each.drain.namespace == namespace
        )
        return moves_today(namespace, self._context) + planned

    def _drain(self, demand: Demand, places: Places) -> Drain:
        now, workload = self._context.now, None
        if demand.reserve is None and demand.gang is None:
            workload = self._context.cluster.workload_of(demand.pods[0])
        return Drain(
            pods=() if demand.reserve else tuple(pod.ref for pod in demand.pods),
            nodes=places.nodes,
            gpus=demand.gpus,
            began_at=now,
            until=now + timedelta(seconds=self._rules.longest_seconds),
            namespace=demand.namespace,
            gang=str(demand.gang or ""),
            reserve=str(demand.reserve or ""),
            workload_uid=workload.uid if workload else "",
        )

    def _take(self, demand: Demand, places: Places, drain: Drain) -> Unproved | None:
        """Prove the drain; its moves follow once the nodes of all drains are known."""
        proof = prove(demand, places, self._proved, self._quota)
        if isinstance(proof, Unproved):
            return proof
        quota = self._counted.copy()
        allowed = [c.pod for c in leaving_now(places) if _takes(quota, c.pod)]
        if drain not in drains_of(self._context.state):
            if not allowed:
                first = leaving(places)[0].pod.ref
                return Unproved(f"the limits of this cycle do not let {first} leave")
            if more := self._more_fragmented(proof):
                return Unproved(f"{more} with it on {' and '.join(places.nodes)}", places.nodes[0])
        self._proved, self._counted = proof, quota
        self._taken.append(_Taken(drain, places))
        self._in_vain = {}
        return None

    def _moves(self) -> Iterator[OtherMove]:
        """The moves of this cycle; all nodes are held before the first of them."""
        names = sorted({node for planned in self._taken for node in planned.places.nodes})
        ahead = sorted({*names, *self._foreseen})
        now, quota, judged = self._now.held(ahead), self._quota, self._pressure.known
        if isinstance(now, str):
            now, ahead = self._now.held(names), names
        if isinstance(now, str):  # the proofs have held the same nodes
            return
        for drain, places in self._taken:
            moves, now, quota = moves_now(places, now, quota)
            for move in moves:
                source = judged[move.candidate.pod.node]
                chosen = source, _held_first(move, ahead)
                yield OtherMove(chosen, _said_of(drain, source.node.name))

    def _more_fragmented(self, after: Destinations) -> str:
        """By how much a proved drain would raise the fragmentation; empty if it does not."""
        gpus = [self._fragmented.gpus(state.free) for state in (self._proved, after)]
        if gpus[1] <= gpus[0] + _ROUNDING:
            return ""
        return "fragmentation would rise from {:.1f} to {:.1f} GPUs".format(*gpus)


def _said_of(drain: Drain, node: str) -> Mapping[str, object]:
    """What the eviction of a pod of this node says."""
    what = "which lacks it" if drain.reserve else f"which waits for {drain.gpus} GPUs"
    reason = f"it makes room on {node} for {drain}, {what}"
    return {"reason": reason, "undertaking": drain, "purpose": GPU_DEMAND}


def _kind(demand: Demand) -> Hashable:
    """The same for demands that need the same; all that runs for one would run for the other."""
    if demand.gang or demand.reserve:
        return str(demand)
    pod = demand.pods[0]
    labels = frozenset(pod.labels.items())
    return pod.scheduling, pod.scheduler, pod.volumes, pod.namespace, labels, demand.priority


def _takes(quota: EvictionQuota, pod: Pod) -> bool:
    """Whether the quota lets the pod leave, too; then it counts."""
    if quota.why_refused(pod) is not None:
        return False
    quota.take(pod)
    return True


def _held_first(move: Move, nodes: Iterable[str]) -> Move:
    """The move, before which these nodes get their soft taints."""
    names = {*move.destination.steered, *nodes}
    destination = msgspec.structs.replace(move.destination, steered=tuple(sorted(names)))
    return msgspec.structs.replace(move, destination=destination)
