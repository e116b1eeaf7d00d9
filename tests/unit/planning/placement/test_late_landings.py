"""The planner bounds what replacements cost it that are not scheduled yet."""

from collections.abc import Mapping
from typing import Any

import pytest

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.resources import Resource
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement import destinations, late_landings
from desched.planning.placement.destination import Destination
from desched.planning.placement.destinations import Destinations
from desched.planning.placement.landing_forecast import after, forecast
from desched.planning.placement.late_landings import ForecastMove
from desched.planning.placement.refusals import IF_LATE
from desched.planning.placement.reservations import room_left
from desched.planning.taints import SoftTaints
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from desched.policy.schedulers import SchedulerRules
from tests.builders import NOW, certain, free_capacity, load, node, pod, policy, snapshot, workload

HOSTNAME = "kubernetes.io/hostname"


def at(*names: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(HOSTNAME, Operator.IN, names),))


DRAWN_TO_A: Mapping[str, Any] = {
    "required_node_affinity": (at("a", "b"),),
    "preferred_node_affinity": ((100, at("a")),),
}


class Cluster:
    """`large` pods want to go to `a`, which takes one of them; `small` ones to `c`."""

    def __init__(self, large: int) -> None:
        names = [f"large-{number}" for number in range(large)]
        pods = [pod(name, "hot", of=name, scheduling=dict(DRAWN_TO_A)) for name in names]
        only_c = {"node_selector": ((HOSTNAME, "c"),)}
        pods += [pod(name, "hot", of=name, scheduling=dict(only_c)) for name in ("small", "tiny")]
        loads = {"hot": (0.9, 0.1), "a": (0.3, 0.1), "b": (0.35, 0.1), "c": (0.1, 0.1)}
        usage = {p.name: (1.2 if p.name in names else 0.1, 0.1) for p in pods}
        owners = [workload(p.name, 2) for p in pods]
        seen = snapshot([node(name) for name in loads], pods, load(loads, usage), owners)
        by = policy(max_landing_risk=0.15, steering=SteeringRules(SteeringMode.WHEN_NEEDED, 4))
        self.book = UsageBook(seen, by, NOW)
        context = EligibilityContext.of(self.book, State())
        pressure = classify(self.book, State())
        free = room_left(context, pressure)
        view = SchedulerView(context.cluster, by.scheduler, free.index)
        within = SoftTaints.of(context, pressure, SteeringMode.WHEN_NEEDED).steerable(free.arrays)
        self.destinations = Destinations(free, view, by.max_landing_risk, within)
        self._pods = {p.name: p for p in pods}

    def charge(self, one: Pod) -> Mapping[Resource, float]:
        return self.book.charge(one)

    def find(self, name: str) -> Destination | Finding[RefusalReason]:
        one = self._pods[name]
        return self.destinations.find(one, self.charge(one))

    def take(self, name: str, found: object) -> None:
        assert isinstance(found, Destination)
        one = self._pods[name]
        self.destinations.take(found, one, self.charge(one))


NOT_IF_LATE = Finding(RefusalReason.LANDING_RISK, IF_LATE)


def refused_in_a_row(times: int) -> Cluster:
    """`a` awaits a large pod; all others would need a taint there that sends it to `b`, too."""
    cluster = Cluster(times + 1)
    cluster.take("large-0", cluster.find("large-0"))
    for number in range(1, times + 1):
        assert cluster.find(f"large-{number}") == NOT_IF_LATE
    return cluster


@pytest.mark.parametrize(
    ("nodes_refused", "most"),
    [(4 * 7, 7), (4 * 8 - 1, 7), (4 * 5, 5), (0, 5)],  # of four nodes
)
def test_after_some_pods_that_late_landings_forbid_no_other_is_forecast(
    monkeypatch: pytest.MonkeyPatch, nodes_refused: int, most: int
) -> None:
    monkeypatch.setattr(destinations, "NODES_REFUSED_IF_LATE", nodes_refused)

    assert isinstance(refused_in_a_row(most - 1).find("small"), Destination)
    assert refused_in_a_row(most).find("small") == NOT_IF_LATE


def test_small_clusters_allow_more_of_them() -> None:
    assert isinstance(refused_in_a_row(50).find("small"), Destination)


def test_the_next_move_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "NODES_REFUSED_IF_LATE", 0)
    cluster = refused_in_a_row(4)
    found = cluster.find("small")
    assert cluster.find("large-4") == NOT_IF_LATE
    assert cluster.find("tiny") == NOT_IF_LATE

    cluster.take("small", found)

    assert isinstance(cluster.find("tiny"), Destination)


def late(moves: int) -> list[tuple[int, int]]:
    """How many replacements have landed and are late in each case, if `a` gets a soft taint."""
    cluster = Cluster(moves)
    seen = cluster.book.snapshot.cluster
    free = free_capacity(seen)
    view = SchedulerView(seen, SchedulerRules(), free.index)
    made: list[ForecastMove] = []
    for one in seen.pods[:moves]:
        landing = forecast(one, free, view)
        assert landing.chances(1.0, 1) == certain("a")
        following = after(view, landing)
        none = free.arrays.none()
        shares = landing.probabilities
        made.append(ForecastMove(landing, view, none, {}, shares, "a", following.placed))
        view = following
    tainted = view.with_steered(free.arrays.where(lambda each: each.name == "a"))
    return [(len(c.landed), len(c.late)) for c in late_landings.late_landings(made, tainted)]


@pytest.mark.parametrize(
    ("moves", "cases"),
    [
        (1, [(0, 1)]),
        (2, [(0, 2), (1, 1)]),
        (3, [(0, 3), (2, 1)]),
        (7, [(4, 3), (6, 1)]),
    ],
)
def test_only_the_latest_replacements_may_be_late(
    monkeypatch: pytest.MonkeyPatch, moves: int, cases: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(late_landings, "MOST_LATE", 3)

    assert late(moves) == cases
