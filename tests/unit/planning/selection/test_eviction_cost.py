"""What an eviction costs."""

from datetime import timedelta
from typing import Any

import pytest

from desched.model.cluster import Pod
from desched.planning.selection.eviction_cost import cost
from tests.builders import NOW, load, node, planned, pod, snapshot, workload

MANY = workload("web", 1000)


def price(**fields: Any) -> float:
    settled: dict[str, Any] = {"started_at": NOW - timedelta(days=2), "qos": "BestEffort"}
    return cost(pod("p", **(settled | fields)), MANY, NOW)


def test_a_settled_unimportant_pod_of_a_large_workload_costs_little_more_than_one() -> None:
    assert price() == pytest.approx(1.0005)


@pytest.mark.parametrize(
    ("fields", "surcharge"),
    [
        ({"priority": -10}, 0.0),
        ({"priority": 999}, 1.0),
        ({"priority": 999_999}, 2.0),
        ({"priority": 2_000_000_000}, 3.0),
        ({"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}}, 2.0),
        ({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "99"}}, 1.0),
        ({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "2147483647"}}, 2.0),
        ({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}, 0.0),
        ({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "dear"}}, 0.0),
        ({"annotations": {"scheduling.koordinator.sh/eviction-cost": "99"}}, 1.0),
        ({"annotations": {"karpenter.sh/disruption-cost": "99"}}, 1.0),
        (
            {
                "annotations": {
                    "controller.kubernetes.io/pod-deletion-cost": "9999",
                    "karpenter.sh/disruption-cost": "0",
                }
            },
            0.0,
        ),
        ({"qos": "Burstable"}, 0.25),
        ({"qos": "Guaranteed"}, 0.5),
        ({"started_at": NOW - timedelta(hours=12)}, 0.25),
        ({"started_at": NOW}, 0.5),
        ({"started_at": NOW + timedelta(hours=1)}, 0.5),
    ],
)
def test_each_surcharge_is_bounded(fields: dict[str, Any], surcharge: float) -> None:
    assert price(**fields) - price() == pytest.approx(surcharge)


def test_the_smaller_the_workload_the_dearer_its_pod() -> None:
    old: Pod = pod("p", started_at=NOW - timedelta(days=2), qos="BestEffort")
    prices = [cost(old, workload("web", replicas), NOW) for replicas in (1, 2, 20)]
    assert prices == pytest.approx([1.5, 1.25, 1.025])
    assert cost(old, None, NOW) == prices[0]


def test_all_surcharges_together_are_bounded() -> None:
    dearest = pod(
        "p",
        priority=2_000_000_000,
        qos="Guaranteed",
        started_at=NOW,
        annotations={
            "descheduler.alpha.kubernetes.io/prefer-no-eviction": "",
            "controller.kubernetes.io/pod-deletion-cost": "2147483647",
        },
    )
    one = workload("one", 1)
    assert cost(dearest, one, NOW) == pytest.approx(7.5)


@pytest.mark.parametrize(
    ("annotation", "surcharge"),
    [
        ("descheduler.alpha.kubernetes.io/prefer-no-eviction", 2.0),
        ("scheduling.koordinator.sh/eviction-cost", 1.0),
    ],
)
def test_what_a_workload_says_holds_for_its_pods(annotation: str, surcharge: float) -> None:
    plain, dear = workload("web", 20), workload("web", 20, annotations={annotation: "99"})
    assert cost(pod("p"), dear, NOW) - cost(pod("p"), plain, NOW) == pytest.approx(surcharge)


def test_a_plan_says_what_each_of_its_evictions_costs() -> None:
    one = pod("web", on="hot", priority=999, qos="Guaranteed")
    of_load = load({"hot": (0.95, 0.1), "cool": (0.05, 0.1)}, {"web": (0.8, 0.1)})
    plan = planned(snapshot([node("hot"), node("cool")], [one], of_load, [workload("web", 20)]))
    assert [eviction.cost for eviction in plan.evictions] == [pytest.approx(1 + 1 + 0.5 + 0.025)]
