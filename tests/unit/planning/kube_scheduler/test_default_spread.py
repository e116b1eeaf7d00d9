"""Spread constraints that the scheduler's configuration gives to pods without any."""

from typing import Any

import msgspec
import pytest

from desched.model.cluster import Service, SpreadConstraint
from desched.model.plan import Plan
from desched.policy.schedulers import OtherScheduler, SchedulerProfile, SchedulerRules
from tests.builders import load, node, planned, pod, policy, reasons, selector, snapshot

HOSTNAME = "kubernetes.io/hostname"
STRICT = SpreadConstraint(HOSTNAME, 1, hard=True, selector=None)


def plan_with(*constraints: SpreadConstraint, **of_pods: Any) -> Plan:
    return plan_by(SchedulerRules(default_spread=constraints), **of_pods)


def plan_by(rules: SchedulerRules, **of_pods: Any) -> Plan:
    """A hot node with one pod of four, and a cool node for each of the others."""
    nodes = [node(name) for name in ("n0", "n1", "n2", "n3")]
    pods = [pod(f"p{i}", on=f"n{i}", **of_pods) for i in range(4)]
    loads = load(
        {n.name: (0.9 if n.name == "n0" else 0.2, 0.1) for n in nodes},
        {p.name: (1.0, 0.1) for p in pods},
    )
    seen = snapshot(
        nodes, pods, loads, controller_selectors={("apps", "uid-web"): selector(app="web")}
    )
    return planned(seen, policy(scheduler=rules))


def test_a_strict_default_constraint_keeps_a_pod_where_no_other_node_is_even() -> None:
    plan = plan_with(STRICT)
    assert reasons(plan) == {"p0": "no_node_fits"}
    assert "topology spread constraints" in plan.refusals[0].detail


@pytest.mark.parametrize(
    "constraint",
    [
        msgspec.structs.replace(STRICT, hard=False),
        msgspec.structs.replace(STRICT, max_skew=2),
    ],
)
def test_a_looser_default_constraint_keeps_no_pod(constraint: SpreadConstraint) -> None:
    assert [move.pod.name for move in plan_with(constraint).evictions] == ["p0"]


@pytest.mark.parametrize(
    "fields",
    [
        {"scheduling": {"spread": (SpreadConstraint(HOSTNAME, 9, hard=True, selector=None),)}},
        {"scheduler": "own"},
        {"owner": None, "of": "web", "annotations": {"desched.io/evict": "true"}},
    ],
)
def test_pods_with_their_own_constraints_or_scheduler_or_without_a_selector_have_none(
    fields: dict[str, Any],
) -> None:
    assert "no_node_fits" not in reasons(plan_with(STRICT, **fields)).values()


def test_another_scheduler_has_default_constraints_of_its_own() -> None:
    own = OtherScheduler(SchedulerProfile.KUBE_SCHEDULER, default_spread=(STRICT,))
    rules = SchedulerRules(others={"own": own})
    assert reasons(plan_by(rules, scheduler="own")) == {"p0": "no_node_fits"}
    assert [move.pod.name for move in plan_by(rules).evictions] == ["p0"]


def test_services_select_pods_for_it_too() -> None:
    service = Service("apps", "web", {"app": "web"})
    assert service.selects(pod("p"))
    assert not Service("apps", "none").selects(pod("p"))
    assert not Service("apps", "db", {"app": "db"}).selects(pod("p"))
