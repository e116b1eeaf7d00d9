"""Pods that are made to slow planning: equal terms count once, and planning ends in time."""

from typing import Any

import pytest

from desched.model.cluster import Pod, PodAffinityTerm
from desched.model.load import ClusterLoad, PodUsage
from desched.model.plan import HoldReason, Plan
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import Domains
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.planner import plan_moves
from tests.builders import GIB, load, node, pod, policy, reasons, snapshot, workload


def terms(number: int, of: str = "") -> tuple[PodAffinityTerm, ...]:
    """Terms that many pods match, and that no index finds by a label."""
    return tuple(
        PodAffinityTerm(
            "kubernetes.io/hostname",
            LabelSelector((Requirement("app", Operator.NOT_IN, (f"{of}-{i}",)),)),
            namespace_selector=LabelSelector(),
        )
        for i in range(number)
    )


def plan_with(*evil: Pod, steps: int | None = None) -> Plan:
    """The plan for a hot node with these pods, which may take this number of steps."""
    mine = [pod(f"p{i}", on=f"n{i % 5}") for i in range(20)]
    ratios = {f"n{i}": (0.95 if i == 0 else 0.2, 0.1) for i in range(5)}
    used = load(ratios, {p.name: (0.4, 0.1) for p in mine})
    usage = {(p.namespace, p.name): PodUsage((300.0,), (float(GIB),)) for p in evil}
    of_load = ClusterLoad(used.nodes, {**used.pods, **usage})
    owners = [workload("web", 20), workload("evil", 20, namespace="evil")]
    seen = snapshot([node(name) for name in ratios], [*mine, *evil], of_load, owners)
    taken = iter(range(10**9))
    book = UsageBook(seen, policy(max_landing_risk=0.5), seen.taken_at)
    context = EligibilityContext.of(book, State()).for_planning(
        State(), lambda: steps is not None and next(taken) >= steps
    )
    return plan_moves(context, classify(book, context.state))


def hostile(name: str, **fields: Any) -> Pod:
    return pod(name, of="evil", namespace="evil", **fields)


def test_when_the_time_is_over_nothing_is_evicted_and_the_plan_names_the_pod() -> None:
    evil = hostile("e", on="n0", scheduling={"pod_anti_affinity": terms(50)})
    assert plan_with(evil).evictions
    plan = plan_with(evil, steps=0)
    assert plan.hold is HoldReason.PLANNING_TOO_SLOW
    assert plan.hold_detail.startswith("it ended at the constraints of pod ")
    assert not plan.evictions
    assert set(reasons(plan).values()) == {"cycle_held"}
    assert {verdict.node for verdict in plan.nodes} == {f"n{i}" for i in range(5)}


def test_a_pending_pod_is_named_as_well() -> None:
    waiting = hostile("waiting", phase="Pending", scheduling={"pod_affinity": terms(50)})
    assert plan_with(waiting, steps=0).hold_detail.endswith("pod evil/waiting")


@pytest.mark.parametrize("field", ["pod_affinity", "pod_anti_affinity"])
def test_the_terms_of_one_pod_are_checked_against_the_time(field: str) -> None:
    """The time is not only checked before each pod."""
    waiting = hostile("waiting", phase="Pending", scheduling={field: terms(50)})
    assert plan_with(waiting, steps=1).hold_detail.endswith("pod evil/waiting")


@pytest.mark.parametrize("field", ["pod_affinity", "pod_anti_affinity"])
def test_equal_terms_are_evaluated_once(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    tally = Domains.tally

    def counted(self: Domains, positions: Any) -> Any:
        calls.append(positions)
        return tally(self, positions)

    monkeypatch.setattr(Domains, "tally", counted)

    def tallies(of: tuple[PodAffinityTerm, ...]) -> int:
        calls.clear()
        plan_with(hostile("waiting", phase="Pending", scheduling={field: of}))
        return len(calls)

    assert tallies(terms(1) * 100) == tallies(terms(1))
