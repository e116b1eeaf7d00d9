"""Plans the moves of drains: first of those under way, then of those that may begin."""

from collections.abc import Hashable, Iterable, Iterator
from datetime import timedelta

import msgspec

from desched.model.drains import Drain, DrainEnd
from desched.model.plan import Unserved
from desched.model.state import PauseScope
from desched.planning.drains.demands import Demand, Demands, moves_today
from desched.planning.drains.fragmented import Fragmented
from desched.planning.drains.places import Places, Search
from desched.planning.drains.proof import Unproved, leaving, moves_now, prove, said
from desched.planning.drains.vacancies import Vacancies
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import Pressure
from desched.planning.placement.destinations import Destinations
from desched.planning.selection.limits import EvictionQuota
from desched.planning.selection.outcomes import Chosen
from desched.planning.selection.trial import Move
from desched.policy.gpu_drains import GpuDrainRules

MOST_TRIED = 10
"""The most sets of nodes that are tried for a demand; the cheapest come first."""


_ROUNDING = 1e-6


class DrainMove(msgspec.Struct, frozen=True):
    """A move with the node that the pod leaves, and the drain that it belongs to."""

    chosen: Chosen
    drain: Drain


class Drained(msgspec.Struct, frozen=True):
    """The moves of drains, the drains of earlier cycles, and what waits without one."""

    moves: tuple[DrainMove, ...] = ()
    drains: tuple[Drain, ...] = ()
    unserved: tuple[Unserved, ...] = ()


def plan_drains(
    eligibility: Eligibility,
    pressure: Pressure,
    destinations: Destinations,
    quota: EvictionQuota,
) -> Drained:
    """Plan after the moves that relieve nodes; the arguments are not modified."""
    context = eligibility.context
    rules = context.policy.gpu_drains
    if rules is None:
        return Drained(drains=context.state.drains)
    return _Planning(rules, eligibility, pressure, destinations, quota).planned()


class _Planning:
    """Plans drains one after the other.

    `proved` is the state once all drains so far are over, `now` the one after this cycle.
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
        vacancies = Vacancies(Eligibility(self._context.for_gpu_demand()), pressure)
        self._search = Search(self._context, vacancies)
        self._proved = self._now = destinations
        self._quota = quota
        self._moves: list[DrainMove] = []
        self._unserved: list[Unserved] = []
        self._in_vain: dict[Hashable, str] = {}
        self._fragmented = Fragmented(self._context, destinations.free.arrays)

    def planned(self) -> Drained:
        drains = tuple(self._continued(self._context.state.drains))
        demands = Demands.of(self._context)
        self._unserved += demands.unserved
        for demand in demands.served:
            if why := self._in_vain.get(_kind(demand)) or self._begin(demand):
                self._in_vain[_kind(demand)] = why
                self._unserved.append(Unserved(str(demand), demand.gpus, why))
        return Drained(tuple(self._moves), drains, tuple(self._unserved))

    def _continued(self, drains: Iterable[Drain]) -> Iterator[Drain]:
        """The drains; those under way with their next moves, or broken if they cannot go on."""
        for drain in drains:
            yield self._go_on(drain) if drain.under_way else drain

    def _go_on(self, drain: Drain) -> Drain:
        demand = self._demand_of(drain)
        if demand is None:
            return drain  # it is over, and the next cycle ends it
        free = self._proved.free
        within = free.arrays.where(lambda node: node.name in drain.nodes)
        if any(node not in self._pressure.known for node in drain.nodes):
            return drain  # its load is unknown in this cycle
        places = self._search.cheapest(demand, free, within, ())
        if isinstance(places, str):
            return drain.ended(DrainEnd.BROKEN, self._context.now, places)
        if not places.vacancies:
            return drain  # it waits for the scheduler
        places = msgspec.structs.replace(places, nodes=drain.nodes)
        proof = self._take(demand, places, drain)
        if isinstance(proof, Unproved) and not proof.may_pass:
            return drain.ended(DrainEnd.BROKEN, self._context.now, proof.why)
        return drain

    def _demand_of(self, drain: Drain) -> Demand | None:
        """What the drain is for, as far as it still waits."""
        if drain.reserve:
            reserves = Demands.of_reserves(self._context, self._rules)
            return next((demand for demand in reserves if demand.is_of(drain)), None)
        refs = set(drain.pods)
        waiting = tuple(p for p in self._context.cluster.pods if not p.node and p.ref in refs)
        if not waiting:
            return None
        gang = next(iter(self._context.gangs_of(waiting[0])), None) if drain.gang else None
        return Demand(waiting, min(pod.priority for pod in waiting), gang)

    def _begin(self, demand: Demand) -> str:
        """Begin a drain for the demand, or return why there is none."""
        if why := self._barred():
            return why
        banned: set[str] = set()
        for _ in range(MOST_TRIED):
            places = self._search.best(demand, self._proved.free, banned)
            if isinstance(places, str):
                return why or places
            why = self._unsuited(places, demand)
            if why:
                break
            proof = self._take(demand, places, self._drain(demand, places))
            why = proof.why if proof else ""
            if proof is None or not proof.node:
                break
            banned.add(proof.node)
        return why

    def _barred(self) -> str:
        """Why no drain may begin now, whatever waits."""
        for pause in self._context.state.pauses:
            if pause.scope is PauseScope.EVERYTHING:
                return pause.describe()
        limit = self._quota.exhausted
        return said(limit) if limit else ""

    def _unsuited(self, places: Places, demand: Demand) -> str:
        """Why no drain begins for these places, the cheapest ones."""
        if not places.vacancies:
            return f"it has room on {', '.join(places.nodes)}, and waits for its scheduler"
        moves, most, daily = places.moves, self._rules.most_moves, self._rules.daily_moves
        if moves > most:
            return f"it would take {moves} moves, and a drain makes at most {most}"
        if self._moves_of(demand.namespace) + moves > daily:
            return f"it would take {moves} moves, and drains make at most {daily} within a day"
        return ""

    def _moves_of(self, namespace: str) -> int:
        """The moves of drains within a day, with those of this plan."""
        planned = sum(each.drain.namespace == namespace for each in self._moves)
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
        """Prove the drain, and make those of its moves that this cycle may make."""
        proof = prove(demand, places, self._proved, self._quota)
        if isinstance(proof, Unproved):
            return proof
        before, after = (self._fragmented.gpus(each.free) for each in (self._proved, proof))
        if after > before + _ROUNDING:
            more = f"fragmentation would rise from {before:.1f} to {after:.1f} GPUs"
            return Unproved(f"{more} even with {demand} on {' and '.join(places.nodes)}")
        begun = moves_now(demand, places, self._now, self._quota)
        is_new = drain not in self._context.state.drains
        if is_new and not begun.moves:
            first = leaving(places)[0].pod.ref
            return Unproved(f"no limit of this cycle lets {first} leave", may_pass=True)
        self._proved, self._now, self._quota = proof, begun.destinations, begun.quota
        self._in_vain = {}
        known = self._pressure.known
        self._moves += [
            DrainMove((known[move.candidate.pod.node], _held_first(move, places)), drain)
            for move in begun.moves
        ]
        return None


def _kind(demand: Demand) -> Hashable:
    """The same for demands that need the same; all that runs for one would run for the other."""
    if demand.gang or demand.reserve:
        return str(demand)
    pod = demand.pods[0]
    return pod.scheduling, pod.namespace, frozenset(pod.labels.items()), demand.priority


def _held_first(move: Move, places: Places) -> Move:
    """The move, before which all nodes of the drain get their soft taints."""
    names = {*move.destination.steered, *places.nodes}
    destination = msgspec.structs.replace(move.destination, steered=tuple(sorted(names)))
    return msgspec.structs.replace(move, destination=destination)
