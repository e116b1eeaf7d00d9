"""Who has a place before a plan gives any away."""

from datetime import timedelta

from msgspec.structs import replace

from desched.model.cluster import Pod, PodRef
from desched.model.resources import Resource
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.reservations import room_left
from tests.builders import (
    NOW,
    amounts,
    certain,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    snapshot,
    workload,
)

MINUTE = timedelta(minutes=1)


def awaited(name: str, destination: str) -> EvictionRecord:
    """Of a pod that used one core."""
    ref = PodRef("apps", name, f"uid-{name}")
    left = NOW - 10 * MINUTE
    return EvictionRecord(
        ref, "a", "uid-web", left, certain(destination), cpu_millicores=1000, left_at=left
    )


def charged(*created: Pod) -> dict[str, float]:
    """CPU of the nodes where two replacements are awaited, with these pods of theirs there."""
    nodes = ("a", "b", "c")
    seen = snapshot(
        map(node, nodes),
        [pod("old", on="a"), *created],
        load(dict.fromkeys(nodes, (0.25, 0.1)), {"old": (1.0, 0.1)}),
    )
    state = State((awaited("x", "b"), awaited("y", "c")))
    context = EligibilityContext.of(UsageBook(seen, policy(), NOW), state)
    free = room_left(context, classify(context.book, state))
    return {name: free.load.ratio(name, Resource.CPU) for name in ("b", "c")}


def replacement(name: str) -> Pod:
    """Created after the evictions, and seen by every window."""
    return pod(name, on="a", created_at=NOW - 9 * MINUTE, started_at=NOW - 9 * MINUTE)


def test_replacements_that_are_not_there_yet_have_their_places() -> None:
    assert charged() == {"b": 0.5, "c": 0.5}


def test_a_replacement_that_is_there_stands_for_one_eviction_only() -> None:
    assert charged(replacement("new")) == {"b": 0.25, "c": 0.5}


def test_as_many_replacements_as_evictions_leave_no_place_reserved() -> None:
    assert charged(replacement("new"), replacement("newer")) == {"b": 0.25, "c": 0.25}


NIC = "resource.k8s.io/dra.net"


def claiming(name: str, on: str = "", of: str = "web") -> Pod:
    """A pod with a device by a ResourceClaim."""
    request = amounts(0.1, 0.1, **{NIC: 1})
    phase = "Running" if on else "Pending"
    claims = {"has_resource_claims": True, "uncounted_claims": "", "phase": phase}
    return pod(name, on=on, of=of, request=request, ready=bool(on), **claims)


def device_plan(*others: Pod, state: State = State()) -> list[str]:  # noqa: B008  (is immutable)
    """What moves from a node with two devices in use to one with a single device."""
    size = {"hot": amounts(4, 16, **{NIC: 2}), "cool": amounts(4, 16, **{NIC: 1})}
    nodes = [node(name, allocatable=replace(each, pods=110)) for name, each in size.items()]
    mine = [claiming("a", "hot", "web"), claiming("b", "hot", "db")]
    used = load({"hot": (0.95, 0.1), "cool": (0.05, 0.1)}, dict.fromkeys("ab", (0.5, 0.1)))
    workloads = [workload("web"), workload("db")]
    return evicted(planned(snapshot(nodes, [*mine, *others], used, workloads), state=state))


def test_each_device_is_for_one_pod() -> None:
    """R3.4, X1: of a plan, of the pending ones, and of those whose replacement is awaited."""
    assert device_plan() == ["a"]
    assert device_plan(claiming("new", of="other")) == []
    record = replace(awaited("gone", "cool"), workload_uid="uid-db")
    assert device_plan(state=State((record,))) == []
