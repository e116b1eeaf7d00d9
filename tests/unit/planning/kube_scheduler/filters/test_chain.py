"""All filters together: their order, and what moves change of their answers."""

from collections.abc import Mapping

import pytest

from desched.model.cluster import ClusterState, HostPort, Pod, PodAffinityTerm, SpreadConstraint
from desched.planning.arrays import Mask
from desched.planning.deadline import PlanningTime, PlanningTooSlowError
from desched.planning.kube_scheduler.filters.chain import (
    NO_AFFINITY,
    NO_ANTI_AFFINITY,
    NO_EXISTING_ANTI_AFFINITY,
    NO_PORT,
    NO_SPREAD,
    FilterChain,
)
from desched.planning.kube_scheduler.filters.node_constraints import CORDONED, NOT_SELECTED
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from tests.builders import amounts, node, pod, selector

HOST = "kubernetes.io/hostname"
NODES = (node("a"), node("b"), node("c", cpu=1))
A, B, C = range(3)
"""Their positions."""

WEB = PodAffinityTerm(HOST, selector(app="web"))
PORT = {"host_ports": (HostPort(80),)}


def chain_of(*pods: Pod, out_of_time: bool = False) -> FilterChain:
    cluster = ClusterState(NODES, pods)
    return FilterChain(cluster, NodeArrays(NODES), PlanningTime(lambda: out_of_time))


def names(mask: Mask) -> str:
    return "".join(one.name for one, fits in zip(NODES, mask, strict=True) if fits)


def excluded(chain: FilterChain, one: Pod, source: int) -> Mapping[str, int]:
    """Why nodes are none for the pod once it has left the source."""
    _, verdicts = chain.passing_again(one, source)
    return {reason: n for reason, n in chain.excluded(one, source, verdicts).items() if n}


def test_each_pod_passes_the_filters_that_it_asks_for() -> None:
    web, other = pod("q", on="a", of="web"), pod("r", on="b", of="db")
    chain = chain_of(web, other)
    scheduling = {"near": {"pod_affinity": (WEB,)}, "apart": {"pod_anti_affinity": (WEB,)}}

    assert names(chain.passing(pod("p"))) == "abc"
    assert names(chain.passing(pod("p", scheduling=scheduling["near"]))) == "a"
    assert names(chain.passing(pod("p", scheduling=scheduling["apart"]))) == "bc"
    assert names(chain.passing(pod("p", request=amounts(2)))) == "ab"
    assert names(chain.passing(pod("p", gated=True))) == ""


@pytest.mark.parametrize(
    ("scheduling", "beside", "reason"),
    [
        (PORT, PORT, NO_PORT),
        ({"pod_affinity": (PodAffinityTerm(HOST, selector(app="db")),)}, {}, NO_AFFINITY),
        ({"pod_anti_affinity": (WEB,)}, {}, NO_ANTI_AFFINITY),
        ({}, {"pod_anti_affinity": (WEB,)}, NO_EXISTING_ANTI_AFFINITY),
        (
            {"spread": (SpreadConstraint(HOST, 1, hard=True, selector=selector(app="web")),)},
            {},
            NO_SPREAD,
        ),
        ({"node_selector": ((HOST, "a"),)}, {}, NOT_SELECTED),
    ],
)
def test_a_node_counts_for_the_filter_that_it_fails(
    scheduling: dict[str, object], beside: dict[str, object], reason: str
) -> None:
    """`a` is the pod's own node; another one is on `b`, and `c` is too small."""
    one = pod("p", on="a", request=amounts(2), scheduling=scheduling)
    two = pod("q", on="b", scheduling=beside)

    found = excluded(chain_of(one, two), one, A)
    assert found[reason] >= 1
    assert found.get("Insufficient cpu", 0) == (0 if reason == NOT_SELECTED else 1)


def test_a_node_with_the_port_taken_and_too_little_free_counts_for_the_port() -> None:
    one = pod("p", on="a", request=amounts(2), scheduling=PORT)
    two = pod("q", on="c", scheduling=PORT)
    assert excluded(chain_of(one, two), one, A) == {NO_PORT: 1}


def test_a_node_with_too_little_free_and_a_sibling_counts_for_what_it_lacks() -> None:
    one = pod("p", on="a", request=amounts(2), scheduling={"pod_anti_affinity": (WEB,)})
    two = pod("q", on="c")
    assert excluded(chain_of(one, two), one, A) == {"Insufficient cpu": 1}


def test_the_source_is_not_short_of_what_the_pod_itself_holds() -> None:
    one = pod("p", on="a", request=amounts(4))
    assert excluded(chain_of(one), one, A) == {"Insufficient cpu": 1}
    assert names(chain_of(one).passing_again(one, A)[0]) == "ab"
    assert names(chain_of(one).passing_beside(one, A)) == "b"


def test_a_cordoned_node_is_excluded_before_its_requests_are_looked_at() -> None:
    nodes = (node("a"), node("b", cpu=1, unschedulable=True))
    one = pod("p", on="a", request=amounts(2))
    chain = FilterChain(ClusterState(nodes, (one,)), NodeArrays(nodes), PlanningTime())
    assert excluded(chain, one, A) == {CORDONED: 1}


def test_moves_are_seen_by_the_moves_after_them_and_not_by_copies_made_before() -> None:
    one, wanted = pod("p", on="a", request=amounts(3)), pod("q", request=amounts(2))
    chain = chain_of(one)
    before = chain.copy()
    assert excluded(chain, wanted, B) == {"Insufficient cpu": 2}

    chain.remove(one, A)
    assert excluded(chain, wanted, B) == {"Insufficient cpu": 1}
    chain.add(one, B)

    assert names(chain.passing(wanted)) == "a"
    assert names(before.passing(wanted)) == "b"
    assert [(each.position, each.sign) for each in chain.pod_changes.changes] == [(A, -1), (B, 1)]
    assert not before.pod_changes.changes


def test_a_pod_that_is_added_keeps_others_away_by_its_own_terms() -> None:
    chain = chain_of()
    chain.add(pod("new", of="db", scheduling={"pod_anti_affinity": (WEB,)}), B)
    assert names(chain.passing(pod("p", of="web"))) == "ac"
    assert names(chain.passing(pod("p", of="db"))) == "abc"


def test_a_node_admits_a_pod_whatever_is_free_on_it() -> None:
    chain = chain_of()
    large = pod("p", request=amounts(99), scheduling={"node_selector": ((HOST, "b"),)})
    assert [chain.admits(large, position) for position in (A, B, C)] == [False, True, False]

    lacking, admitted = chain.shortage(large)
    assert lacking[0].tolist() == [95_000, 95_000, 98_000]
    assert names(admitted) == "b"


def test_no_filter_goes_on_once_the_time_is_over() -> None:
    with pytest.raises(PlanningTooSlowError, match="pod apps/p"):
        chain_of(out_of_time=True).passing(pod("p", scheduling={"pod_affinity": (WEB,)}))
