"""What is free of each resource on each node, and what a pod lacks there."""

import msgspec
import pytest

from desched.model.bounds import LARGEST_AMOUNT
from desched.model.cluster import ClusterState, Pod
from desched.model.resources import Amounts
from desched.planning.arrays import Mask
from desched.planning.kube_scheduler.filters.resources import FreeRequests
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodIndex
from tests.builders import GIB, amounts, node, pod

GPU = "nvidia.com/gpu"
GPUS = msgspec.structs.replace(amounts(4, 16, **{GPU: 2}), pods=110)
NODES = (node("a"), node("b", allocatable=GPUS), node("c", cpu=1))
A, B, C = range(3)
"""Their positions."""


def free_beside(*pods: Pod) -> FreeRequests:
    arrays = NodeArrays(NODES)
    return FreeRequests(arrays, PodIndex(ClusterState(NODES, pods), arrays))


def names(mask: Mask) -> str:
    return "".join(one.name for one, fits in zip(NODES, mask, strict=True) if fits)


@pytest.mark.parametrize(
    ("requests", "fits"),
    [
        (amounts(), "abc"),
        (amounts(1), "abc"),
        (amounts(1.001), "ab"),
        (amounts(4), "ab"),
        (amounts(0, 16.5), ""),
        (amounts(1, 1, **{GPU: 2}), "b"),
        (amounts(1, 1, **{GPU: 3}), ""),
        (amounts(1, 1, unheard_of=1), ""),
        (amounts(1, 1, unheard_of=0), "abc"),
    ],
)
def test_a_pod_fits_where_all_that_it_requests_is_free(requests: Amounts, fits: str) -> None:
    assert names(free_beside().enough(requests)) == fits


@pytest.mark.parametrize("count", [3, 110])
def test_a_node_on_which_pods_request_absurd_amounts_is_full(count: int) -> None:
    """A tenant names the node of a pod, and the kubelet takes a moment to reject it."""
    n = LARGEST_AMOUNT
    absurd = Amounts(cpu_millicores=n, memory_bytes=n, pods=1, extended=((GPU, n),))
    found = free_beside(*(pod(f"p{i}", on="b", request=absurd) for i in range(count)))
    assert max(found.free_at(B)[name] for name in ("cpu", "memory", GPU)) < 0


def test_pods_hold_their_requests_while_they_are_being_deleted_and_not_once_they_ended() -> None:
    held = amounts(3, 1, **{GPU: 1})
    leaving = pod("leaving", on="b", request=held, deleting=True)
    ended = pod("ended", on="a", request=amounts(4), phase="Succeeded")
    free = free_beside(leaving, ended)

    assert names(free.enough(amounts(2))) == "a"
    assert names(free.enough(amounts(0, 0, **{GPU: 1}))) == "b"
    assert names(free.enough(amounts(0, 0, **{GPU: 2}))) == ""


@pytest.mark.parametrize("name", ["cpu", GPU])
def test_what_is_taken_is_free_again_once_it_is_given_back(name: str) -> None:
    free, taken = free_beside(), amounts(4) if name == "cpu" else amounts(0, 0, **{GPU: 2})
    assert free.enough(taken)[B]

    free.change(B, taken, -1)
    assert not free.enough(taken)[B]
    assert free.lacking_at(B, taken) == [f"Insufficient {name}"]

    free.change(B, taken, 1)
    assert free.enough(taken)[B]


def test_a_copy_and_its_original_change_apart() -> None:
    original, wanted = free_beside(), amounts(4, 1, **{GPU: 2})
    original.enough(wanted)
    copied = original.copy()

    copied.change(B, wanted, -1)
    assert not copied.enough(wanted)[B]
    assert original.enough(wanted)[B]

    original.change(B, amounts(1), -1)
    assert not original.enough(wanted)[B]


def test_a_pod_comes_back_to_its_node_unless_that_is_overcommitted() -> None:
    one = pod("one", on="c", request=amounts(1))
    full = free_beside(one)
    assert names(full.enough(amounts(1))) == "ab"
    assert names(full.enough_again(amounts(1), C)) == "abc"
    assert full.holds(C, amounts(1))

    overcommitted = free_beside(one, pod("other", on="c", request=amounts(0.5)))
    assert names(overcommitted.enough_again(amounts(1), C)) == "ab"
    assert not overcommitted.holds(C, amounts(1))


def test_a_shortage_is_what_each_node_lacks_of_what_is_requested() -> None:
    free = free_beside(pod("one", on="a", request=amounts(3, 15)))
    lacking, has_devices = free.shortage(amounts(2, 2, **{GPU: 1}))

    cpu, memory, *others = lacking.tolist()
    assert (cpu, memory) == ([1000, 0, 1000], [GIB, 0, 0])
    assert others == [[0, 0, 0]] * 2
    assert names(has_devices) == "b"


def test_nothing_is_short_of_what_is_not_requested() -> None:
    overcommitted = free_beside(pod("one", on="a", request=amounts(6)))
    lacking, _ = overcommitted.shortage(amounts(0, 1))
    assert not lacking.any()


def test_a_node_counts_for_each_resource_that_it_lacks() -> None:
    no_pods = msgspec.structs.replace(amounts(2, 32, **{GPU: 1}), pods=111)
    found = free_beside().lacking(no_pods, NodeArrays(NODES).all())

    assert found == {
        "Insufficient cpu": 1,
        "Insufficient memory": 3,
        "Too many pods": 3,
        f"Insufficient {GPU}": 2,
    }
