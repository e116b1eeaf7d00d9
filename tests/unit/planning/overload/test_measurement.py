"""The load of a node: unknown loads, and arrivals that the windows do not show yet."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.model.cluster import Pod
from desched.model.load import (
    ClusterLoad,
    Level,
    Measured,
    PodUsage,
    Unknown,
    UnknownReason,
)
from desched.model.resources import Amounts, Resource
from desched.model.state import State
from desched.planning.overload.measurement import DepartedLoad, measure
from desched.planning.overload.node_load import NodeLoad
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import DestinationWindow, ResourceRule
from tests.builders import NOW, amounts, load, node, pod, policy, rule, snapshot

ALL = Amounts(cpu_millicores=4000, memory_bytes=2**34, pods=4)


def measured(
    one: ResourceRule, *pods: Pod, further: tuple[float | None, ...] = (), **fields: Any
) -> NodeLoad | Unknown:
    """A node at half its load by this rule."""
    seen = node("n", **({"capacity": ALL, "allocatable": ALL} | fields))
    of_load = msgspec.structs.replace(
        load({"n": (0.5, 0.5)}, {}), destination_ratios={"n": {one.resource: further}}
    )
    book = UsageBook(snapshot([seen], pods, of_load), policy(one), NOW)
    found = measure(seen, (one,), book, DepartedLoad(State(), book))
    return found if isinstance(found, Unknown) else found[0]


def highest(*args: Any, **fields: Any) -> float:
    found = measured(*args, **fields)
    assert isinstance(found, NodeLoad)
    return found.highest


@pytest.mark.parametrize(
    ("resource", "none"),
    [
        (Resource.CPU, {"capacity": Amounts(memory_bytes=1, pods=1)}),
        (Resource.MEMORY, {"capacity": Amounts(cpu_millicores=1, pods=1)}),
        (Resource.MEMORY, {"allocatable": Amounts(cpu_millicores=1, pods=1)}),
        (Resource.PODS, {"allocatable": Amounts(cpu_millicores=1, memory_bytes=1)}),
    ],
)
def test_a_node_that_states_none_of_a_resource_has_no_known_load(
    resource: Resource, none: dict[str, Any]
) -> None:
    found = measured(rule(resource), **none)
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.ABSENT


def test_pods_count_until_they_are_deleted() -> None:
    three = [pod(name, on="n") for name in "abc"]
    assert highest(rule(Resource.PODS), *three, pod("d", on="n", deleting=True)) == 0.75


@pytest.mark.parametrize(("age_seconds", "expected"), [(0, 0.75), (150, 0.625), (300, 0.5)])
def test_a_pod_that_has_come_counts_as_far_as_no_window_shows_it(
    age_seconds: int, expected: float
) -> None:
    new = pod("p", on="n", request=amounts(1), started_at=NOW - timedelta(seconds=age_seconds))
    assert highest(rule(Resource.CPU), new) == expected
    leaving = msgspec.structs.replace(new, deleting=True)
    assert highest(rule(Resource.CPU), leaving) == 0.5


@pytest.mark.parametrize(("quantile", "expected"), [(1, 0.75), (0.95, 0.875)])
def test_a_maximum_has_seen_a_pod_as_soon_as_the_shortest_window_has(
    quantile: float, expected: float
) -> None:
    hour = rule(Resource.CPU, destination_windows=(DestinationWindow(3600, quantile),))
    half_seen = pod("p", on="n", request=amounts(1), started_at=NOW - timedelta(minutes=30))
    assert highest(hour, half_seen, further=(0.75,)) == expected


@pytest.mark.parametrize(("further", "receives"), [((0.5,), True), ((None,), False), ((), False)])
def test_a_node_receives_only_if_every_destination_window_is_known(
    further: tuple[float | None, ...], *, receives: bool
) -> None:
    hour = rule(Resource.CPU, destination_windows=(DestinationWindow(3600, 1),))
    found = measured(hour, further=further)
    assert isinstance(found, NodeLoad)
    assert found.receives is receives


def test_memory_that_no_pod_is_measured_with_counts_on_the_whole_node() -> None:
    assert highest(rule(Resource.MEMORY)) == 0.5


MEMORY_BYTES = ALL.memory_bytes


def with_claims(
    resource: Resource, own: float, in_use: float, *claims: float, age_seconds: float = 86_400
) -> NodeLoad | Unknown:
    """A node whose pods' series claim these shares of it; `in_use` is what it bears out."""
    size = ALL.cpu_millicores if resource is Resource.CPU else MEMORY_BYTES
    born = NOW - timedelta(seconds=age_seconds)
    pods = [pod(f"p{i}", on="n", started_at=born) for i in range(len(claims))]
    usage = {}
    for each, share in zip(pods, claims, strict=True):
        amount = (share * size,)
        cpu, memory = (amount, ()) if resource is Resource.CPU else ((), amount)
        usage[each.namespace, each.name] = PodUsage(cpu, memory)
    one = rule(resource, windows_seconds=(300,))
    nodes = {"n": {resource: Measured((Level(300, own),), (in_use,))}}
    seen = node("n", capacity=ALL, allocatable=ALL)
    book = UsageBook(snapshot([seen], pods, ClusterLoad(nodes, usage)), policy(one), NOW)
    found = measure(seen, (one,), book, DepartedLoad(State(), book))
    return found if isinstance(found, Unknown) else found[0]


@pytest.mark.parametrize("resource", [Resource.CPU, Resource.MEMORY])
def test_pods_that_claim_far_more_than_their_node_make_it_unknown(resource: Resource) -> None:
    found = with_claims(resource, 0.35, 0.4, 0.3, 0.6)
    assert isinstance(found, Unknown)
    assert found.reason is UnknownReason.PODS_ABOVE_NODE
    assert found.detail == "its pods would use 90.0% of its capacity, the node reports 40.0%"


@pytest.mark.parametrize("resource", [Resource.CPU, Resource.MEMORY])
@pytest.mark.parametrize(
    ("own", "in_use", "claim"),
    [(0.4, 0.4, 0.54), (0.0, 0.0, 0.04), (0.4, 0.7, 0.9), (0.7, 0.4, 0.9), (0.4, 0.4, 0.0)],
)
def test_scrapes_at_different_times_contradict_nothing(
    resource: Resource, own: float, in_use: float, claim: float
) -> None:
    assert isinstance(with_claims(resource, own, in_use, claim), NodeLoad)


def test_no_claim_raises_the_load_above_what_the_node_bears_out() -> None:
    """Just below the contradiction, 60 % would become 80 %."""
    found = with_claims(Resource.MEMORY, 0.6, 0.65, 0.84)
    assert isinstance(found, NodeLoad)
    assert found.lowest == pytest.approx(0.65)


def test_a_pod_that_came_lately_contradicts_nothing() -> None:
    """Its memory is a mean over its own minute, the node's over five."""
    found = with_claims(Resource.MEMORY, 0.1, 0.1, 0.5, age_seconds=60)
    assert isinstance(found, NodeLoad)
    assert found.highest == pytest.approx(0.5)
