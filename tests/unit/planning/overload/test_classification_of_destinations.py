"""Destinations are also judged by the longer times that the policy names."""

from datetime import timedelta

import msgspec
import pytest

from desched.model.plan import NodeReason
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.policy.policy import DestinationWindow, Policy
from tests.builders import NOW, load, node, planned, pod, policy, reasons, rule, snapshot

HOUR = DestinationWindow(3600, 0.95)


def by_the_hour(*windows: DestinationWindow) -> Policy:
    return policy(rule(Resource.CPU, destination_windows=windows or (HOUR,)))


def cluster(cool: tuple[float | None, ...], **more: object) -> Snapshot:
    """`hot` at 90 % with a pod of 0.8 of 4 cores; `cool` at 10 %, and at this over an hour."""
    pods = [pod("a", on="hot"), *more.pop("pods", ())]  # type: ignore[misc]
    of_load = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)}, {"a": (0.8, 0.1)})
    ratios = {"hot": {Resource.CPU: (0.9,)}, "cool": {Resource.CPU: cool}}
    of_load = msgspec.structs.replace(of_load, destination_ratios=ratios)
    return snapshot([node("hot"), node("cool")], pods, of_load)


def test_a_node_that_was_full_within_the_hour_is_no_place() -> None:
    assert planned(cluster((0.5,)), by_the_hour()).evictions
    # Room for a part of the excess there is, but not for this pod.
    plan = planned(cluster((0.6,)), by_the_hour())
    assert reasons(plan) == {"a": "no_node_under_ceiling"}


def test_a_source_is_not_judged_by_them() -> None:
    plan = planned(cluster((0.9,)), policy(rule(Resource.CPU)))
    (cool,) = (v for v in plan.nodes if v.node == "cool")
    assert not cool.pressures[0].overloaded


def test_a_node_whose_longer_load_is_not_known_is_no_place_and_says_so() -> None:
    for ratios in ((), (None,), (0.1, None)):
        windows = (HOUR, DestinationWindow(7200)) if len(ratios) == 2 else (HOUR,)
        plan = planned(cluster(ratios), by_the_hour(*windows))
        assert not plan.evictions
        (cool,) = (v for v in plan.nodes if v.node == "cool")
        assert cool.reason is NodeReason.DESTINATION_UNKNOWN


def test_an_overloaded_node_is_no_place_anyway_and_is_relieved_all_the_same() -> None:
    seen = cluster((0.1,))
    ratios = {"cool": {Resource.CPU: (0.1,)}}
    of_load = msgspec.structs.replace(seen.load, destination_ratios=ratios)
    plan = planned(msgspec.structs.replace(seen, load=of_load), by_the_hour())
    (overloaded,) = (v for v in plan.nodes if v.node == "hot")
    assert plan.evictions
    assert overloaded.reason is None


@pytest.mark.parametrize(("quantile", "highest"), [(0.95, 0.3 + 0.2 * 2 / 3), (1.0, 0.3)])
def test_a_pod_that_came_within_the_hour_counts_for_the_part_that_the_hour_has_not_seen(
    quantile: float, highest: float
) -> None:
    since = NOW - timedelta(minutes=20)
    young = pod("young", on="cool", created_at=since, started_at=since)
    plan = planned(cluster((0.3,), pods=[young]), by_the_hour(DestinationWindow(3600, quantile)))
    (cool,) = (v for v in plan.nodes if v.node == "cool")
    # Its sibling uses 0.8 of 4 cores; a maximum has seen it once the shortest window has.
    assert cool.pressures[0].highest_ratio == pytest.approx(highest)


@pytest.mark.parametrize(
    ("quantile", "value"), [(None, 0.33), (1.0, 0.9), (0.5, 0.2), (0.95, 0.78), (0.75, 0.3)]
)
def test_statistics_are_those_of_the_field(quantile: float | None, value: float) -> None:
    window = DestinationWindow(3600, quantile)
    assert window.of([0.3, 0.1, 0.9, 0.2, 0.15]) == pytest.approx(value)
    assert window.of([0.4]) == 0.4
