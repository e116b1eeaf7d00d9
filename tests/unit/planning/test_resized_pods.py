"""A replacement may request more than the pod that it replaces: as its template says."""

import pytest

from desched.model.plan import Plan
from desched.model.resources import Amounts
from tests.builders import amounts, evicted, load, node, planned, pod, reasons, snapshot, workload


def plan_of(template: Amounts | None) -> Plan:
    """A pod of one core on a hot node; the cool node has room for two."""
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    pods = [
        pod("a", on="hot", request=amounts(1, 1)),
        pod("b", on="cool", of=None, request=amounts(2, 1)),
    ]
    owners = [workload("web", 20, template_requests=template)]
    return planned(snapshot([node("hot"), node("cool")], pods, used, owners))


@pytest.mark.parametrize("template", [None, amounts(1, 1), amounts(0.5, 0.5), amounts(2, 1)])
def test_a_move_needs_room_for_what_the_template_requests(template: Amounts | None) -> None:
    assert evicted(plan_of(template)) == ["a"]


@pytest.mark.parametrize("template", [amounts(2.1, 0.5), amounts(0.1, 16), amounts(1, 1, gpu=1)])
def test_a_pod_whose_template_requests_more_than_is_free_stays(template: Amounts) -> None:
    assert reasons(plan_of(template))["a"] == "no_node_fits"


def test_amounts_are_raised_one_by_one() -> None:
    own = amounts(1, 2, a=1, b=5)
    assert own.raised_to(amounts(3, 1, b=2, c=7)) == amounts(3, 2, a=1, b=5, c=7)
    assert own.raised_to(amounts(0.5, 2, b=5)) is own


def test_a_pod_stays_while_it_is_not_known_what_its_replacement_requests() -> None:
    why = "VerticalPodAutoscaler web: startupBoost"
    owner = workload("web", 20, requests_unknown=why)
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    pods = [pod("a", on="hot", request=amounts(1, 1))]

    plan = planned(snapshot([node("hot"), node("cool")], pods, used, [owner]))

    (refusal,) = plan.refusals
    assert (refusal.reason, refusal.detail) == ("requests_unknown", why)
