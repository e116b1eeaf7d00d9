"""Where a pod could go if it were evicted now and alone: nodes, near misses and the forecast."""

from collections.abc import Iterator

import numpy as np

from desched.decision import Decision
from desched.model.cluster import Pod
from desched.model.landing import expected_on
from desched.planning.arrays import Ints
from desched.planning.overload.node_load import SourceLoad
from desched.planning.placement.destination import Destination
from desched.planning.placement.examination import PlacesExamined, examine
from desched.planning.placement.projected_load import NO_LIMITS
from desched.planning.planner import BeforeMoves, before_moves
from desched.planning.selection.candidates import Candidate, candidate_of
from desched.planning.selection.excess import most_of_destination
from desched.views.explained.values import (
    LandingForecast,
    LoadChange,
    NodeChance,
    Placement,
)
from desched.wording.formatting import RESOURCE_NAMES

MOST_CHANCES, MOST_NEAR = 5, 3

_MILLICORES_PER_CORE, _GIB = 1000, 2**30


def placement_of(pod: Pod, decision: Decision) -> Placement | None:
    """Where the pod could go before any move of the plan; None if no destination is known."""
    context, pressure = decision.context, decision.pressure
    placed = pod.node in context.cluster.node_by_name and not pod.finished
    if not (pressure.known and placed):
        return None
    candidate = candidate_of(pod, context, pressure.outlook.pasts)
    if not all(candidate.usage.values()):
        return None
    before = before_moves(context, pressure, may_steer=decision.may_steer)
    return _Placing(before, candidate, decision).placement()


class _Placing:
    """The examination of one pod, as values."""

    def __init__(self, before: BeforeMoves, candidate: Candidate, decision: Decision) -> None:
        self._free = before.destinations.free
        self._candidate = candidate
        self._decision = decision
        source = before.pressure.known.get(candidate.pod.node)
        at_most = most_of_destination(source, [candidate]) if source else NO_LIMITS
        self._found: PlacesExamined = examine(
            candidate.pod, candidate.charge, before.destinations, at_most
        )

    def placement(self) -> Placement:
        examined, names = self._found, self._free.names
        destination = examined.found if isinstance(examined.found, Destination) else None
        refusal = None if isinstance(examined.found, Destination) else examined.found
        excluded = sorted(examined.excluded.items(), key=lambda pair: (-pair[1], pair[0]))
        return Placement(
            len(names),
            int(np.count_nonzero(examined.fit.under_ceiling)),
            dict(excluded),
            tuple(self._near()),
            refusal.reason if refusal else None,
            refusal.detail if refusal else "",
            expected_on(destination.likely, destination.possible) if destination else "",
            self._forecast(destination) if examined.landing.destinations.any() else None,
            tuple(self._changes(destination.expected_node if destination else "")),
            tuple(self._limits(refusal.detail if refusal else "")),
        )

    def _limits(self, said: str) -> Iterator[str]:
        """What the limits that exclude nodes say, beside what is said already."""
        pod = self._candidate.pod
        for limit, _ in self._found.fit.limited:
            excludes = (self._found.fit.requests & limit.outside(pod)).any()
            if excludes and (words := limit.describe(pod)) and words not in said:
                yield words

    def _near(self) -> Iterator[str]:
        """The nodes that are least above their ceilings, then those that lack least."""
        examined, names = self._found, self._free.names
        over = np.max(list(examined.over_ceiling.values()), axis=0)
        passing = examined.fit.inside & np.isfinite(over) & (over > 0)
        above = sorted(np.flatnonzero(passing), key=lambda i: (over[i], names[i]))
        for i in above[:MOST_NEAR]:
            parts = [
                f"{ratio[i] * 100:.1f} points of {RESOURCE_NAMES[resource]}"
                for resource, ratio in examined.over_ceiling.items()
                if ratio[i] > 0
            ]
            yield f"node {names[i]} would be {' and '.join(parts)} above its ceiling"
        lacking, admitting = self._free.shortage(self._candidate.pod, self._candidate.charge)
        admitting &= ~examined.fit.requests & (np.array(names) != self._candidate.pod.node)
        admitting &= lacking.any(axis=0)
        size = np.maximum(self._free.allocatable, 1)
        share = (lacking / size).sum(axis=0)
        short = sorted(np.flatnonzero(admitting), key=lambda i: (share[i], names[i]))
        for i in short[: MOST_NEAR - min(MOST_NEAR, len(above))]:
            yield f"node {names[i]} lacks {_amounts(lacking[:, i])} free of requests"

    def _forecast(self, destination: Destination | None) -> LandingForecast:
        examined = self._found
        landing = destination.landing if destination else examined.landing
        harmful, chances = landing.harmful(examined.bad), landing.probabilities
        scores = np.where(landing.destinations, landing.scores[0], -1)
        order = np.lexsort((-scores, -chances))[:MOST_CHANCES]
        nodes = tuple(
            NodeChance(
                landing.names[i],
                float(chances[i]),
                int(landing.scores[0][i]),
                {name: int(np.atleast_2d(score)[0][i]) for name, score in examined.scores.items()},
                bool(harmful[i]),
            )
            for i in order
            if landing.destinations[i]
        )
        back = float(chances[landing.departure.source])
        return LandingForecast(
            nodes,
            landing.risk(examined.bad),
            back,
            max(0.0, landing.risk_alone(examined.bad) - back),
            None if landing.any_fit else examined.most_risk,
            examined.landing.risk(examined.bad),
            destination.steered if destination else (),
        )

    def _changes(self, expected: str) -> Iterator[LoadChange]:
        """The loads of the source and of the likeliest node, in their highest windows."""
        judged = self._decision.pressure.known
        source = judged.get(self._candidate.pod.node)
        for each in source.sources if source else ():
            before = each.highest_without(each.nothing)
            after = each.highest_without(self._candidate.usage[each.resource])
            yield _change(self._candidate.pod.node, each, before, after)
        if expected:
            position = self._free.arrays.index[expected]
            for each in judged[expected].sources:
                before = self._free.load.ratio(expected, each.resource)
                after = float(self._found.loads[each.resource][position])
                yield _change(expected, each, before, after)


def _change(node: str, of: SourceLoad, before: float, after: float) -> LoadChange:
    lines = of.thresholds
    ratios = (lines.target_ratio, lines.stop_ratio, lines.ceiling_ratio)
    return LoadChange(node, of.resource, before, after, *ratios)


def _amounts(lacking: Ints) -> str:
    """Basic resources in units that people know."""
    cpu, memory, storage, pods = lacking.tolist()
    parts = [
        f"{cpu / _MILLICORES_PER_CORE:.2f} cores" if cpu else "",
        f"{memory / _GIB:.2f} GiB of memory" if memory else "",
        f"{storage / _GIB:.2f} GiB of ephemeral storage" if storage else "",
        "1 pod" if pods else "",
    ]
    return " and ".join(filter(None, parts))
