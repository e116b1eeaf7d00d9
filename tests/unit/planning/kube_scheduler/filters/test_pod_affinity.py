"""On which nodes a pod fits because of the pods that are there: affinity, spread, host ports."""

from typing import Any

import pytest

from desched.model.cluster import (
    ClusterState,
    HostPort,
    Node,
    Pod,
    PodAffinityTerm,
    SpreadConstraint,
    Taint,
)
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.planning.placement.free_capacity import FreeCapacity
from tests.builders import free_capacity, node, pod, selector
from tests.schedulable import planned_for, schedulable

HOST = "kubernetes.io/hostname"
ZONE = "zone"


def zoned(name: str, zone: str, **fields: Any) -> Node:
    return node(name, labels={HOST: name, ZONE: zone}, **fields)


NODES = (zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), node("no-zone"))


def free(*pods: Pod, nodes: tuple[Node, ...] = NODES, **cluster: Any) -> FreeCapacity:
    return free_capacity(ClusterState(nodes, pods, **cluster))


def destinations(one: Pod, *others: Pod, **cluster: Any) -> list[str]:
    """Where a further such pod could go."""
    return schedulable(one, ClusterState(cluster.pop("nodes", NODES), others, **cluster))


def again(one: Pod, *others: Pod, **cluster: Any) -> list[str]:
    """Where the pod, which is on a node, could go once it has left."""
    found = free(one, *others, **cluster)
    return [n for n, fits in zip(found.names, found.feasible(one, one.node), strict=True) if fits]


def near(key: str = ZONE, **fields: Any) -> PodAffinityTerm:
    return PodAffinityTerm(key, selector(app="db"), **fields)


def asks(*terms: PodAffinityTerm, **fields: Any) -> Pod:
    return pod("p", scheduling={"pod_affinity": terms}, **fields)


def avoids(*terms: PodAffinityTerm, **fields: Any) -> Pod:
    return pod("p", scheduling={"pod_anti_affinity": terms}, **fields)


def db(name: str = "db", on: str = "a1", **fields: Any) -> Pod:
    return pod(name, on=on, of="db", **fields)


# Affinity


def test_affinity_asks_for_a_pod_in_the_domain() -> None:
    assert destinations(asks(near()), db()) == ["a1", "a2"]
    assert destinations(asks(near(HOST)), db()) == ["a1"]


def test_all_terms_have_to_match_in_one_pod() -> None:
    front = PodAffinityTerm(HOST, selector(tier="front"))
    assert (
        destinations(asks(near(), front), db(), pod("f", on="a1", labels={"tier": "front"})) == []
    )
    both = db(labels={"app": "db", "tier": "front"})
    assert destinations(asks(near(), front), both) == ["a1"]


def test_the_first_pod_of_a_group_that_asks_for_itself_goes_wherever_the_label_is() -> None:
    first = asks(near(), labels={"app": "db"})
    assert destinations(first) == ["a1", "a2", "b1"]
    assert destinations(first, db()) == ["a1", "a2"]
    assert destinations(asks(near())) == []


def test_a_victim_that_was_the_only_one_of_its_group_may_start_it_again_anywhere() -> None:
    victim = asks(near(), labels={"app": "db"}, on="a1")
    assert again(victim) == ["a1", "a2", "b1"]
    assert again(victim, db(on="b1")) == ["b1"]


def test_without_a_selector_a_term_matches_no_pod() -> None:
    assert destinations(asks(PodAffinityTerm(ZONE, None)), db()) == []
    assert len(destinations(avoids(PodAffinityTerm(ZONE, None)), db())) == 4


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (near(), []),
        (near(namespaces=("apps",)), []),
        (near(namespaces=("other",)), ["a1", "a2"]),
        (near(namespace_selector=LabelSelector()), ["a1", "a2"]),
        (near(namespace_selector=selector(team="red")), ["a1", "a2"]),
        (near(namespace_selector=selector(team="blue")), []),
        (near(namespaces=("apps",), namespace_selector=selector(team="blue")), []),
    ],
)
def test_a_term_looks_at_its_own_namespace_unless_it_names_others(
    term: PodAffinityTerm, fits: list[str]
) -> None:
    namespaces = {"apps": {"team": "blue"}, "other": {"team": "red"}}
    assert destinations(asks(term), db(namespace="other"), namespaces=namespaces) == fits


# Anti-affinity, both ways


def test_anti_affinity_avoids_domains_with_such_a_pod_and_nodes_without_the_label_have_none() -> (
    None
):
    assert destinations(avoids(near()), db()) == ["b1", "no-zone"]
    assert destinations(avoids(near(HOST)), db()) == ["a2", "b1", "no-zone"]


def test_the_anti_affinity_of_an_existing_pod_keeps_others_away() -> None:
    jealous = avoids(PodAffinityTerm(ZONE, selector(app="web")), on="a1", labels={})
    assert destinations(pod("web"), jealous) == ["b1", "no-zone"]
    assert len(destinations(db(on=""), jealous)) == 4
    assert len(destinations(pod("web", namespace="other"), jealous)) == 4


def test_an_existing_term_without_a_label_to_look_up_keeps_others_away_too() -> None:
    loner = LabelSelector((Requirement("app", Operator.EXISTS),))
    jealous = avoids(PodAffinityTerm(HOST, loner), on="a1", labels={})
    assert destinations(pod("web"), jealous) == ["a2", "b1", "no-zone"]


def test_a_negative_namespace_selector_of_anti_affinity_means_all_namespaces() -> None:
    not_red = LabelSelector((Requirement("team", Operator.NOT_IN, ("red",)),))
    namespaces = {"apps": {}, "other": {"team": "red"}}
    cluster = ClusterState(NODES, (db(namespace="other"),), namespaces=namespaces)
    one = avoids(near(namespace_selector=not_red))
    assert planned_for(one, cluster) == ["b1", "no-zone"]


def test_a_victim_keeps_neither_itself_nor_its_replacement_away() -> None:
    alone = PodAffinityTerm(HOST, selector(app="web"))
    victim = avoids(alone, on="a1")
    assert again(victim) == ["a1", "a2", "b1", "no-zone"]
    sibling = pod("q", on="b1", scheduling={"pod_anti_affinity": (alone,)})
    assert again(victim, sibling) == ["a1", "a2", "no-zone"]


def test_beside_a_victim_that_is_being_deleted_its_own_node_stays_closed() -> None:
    victim = avoids(PodAffinityTerm(HOST, selector(app="web")), on="a1")
    found = free(victim)
    assert found.feasible_beside(victim, "a1").tolist() == [False, True, True, True]


# Topology spread


def spread(key: str = ZONE, **fields: Any) -> SpreadConstraint:
    defaults: dict[str, Any] = {"max_skew": 1, "hard": True, "selector": selector(app="web")}
    return SpreadConstraint(key, **(defaults | fields))


def even(*constraints: SpreadConstraint, **fields: Any) -> Pod:
    scheduling = fields.pop("scheduling", {}) | {"spread": constraints}
    return pod("p", scheduling=scheduling, **fields)


def web(name: str, on: str, **fields: Any) -> Pod:
    return pod(name, on=on, **fields)


def test_no_domain_gets_more_than_the_skew_above_the_emptiest() -> None:
    assert destinations(even(spread()), web("q", "a1")) == ["b1"]
    assert destinations(even(spread(max_skew=2)), web("q", "a1")) == ["a1", "a2", "b1"]
    assert len(destinations(even(spread(hard=False)), web("q", "a1"))) == 4


def test_a_pod_that_its_own_selector_does_not_match_adds_nothing() -> None:
    assert destinations(even(spread(), labels={}), web("q", "a1")) == ["a1", "a2", "b1"]


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    leaving = web("q", "a1", deleting=True)
    elsewhere = web("r", "a1", namespace="other")
    assert destinations(even(spread()), leaving, elsewhere) == ["a1", "a2", "b1"]


def test_a_victim_does_not_count_gone_or_being_deleted() -> None:
    victim = even(spread(), on="a1")
    assert again(victim) == ["a1", "a2", "b1"]
    assert free(victim).feasible_beside(victim, "a1").tolist() == [True, True, True, False]
    assert again(victim, web("q", "a2")) == ["b1"]


def test_with_fewer_domains_than_the_minimum_the_emptiest_counts_as_zero() -> None:
    both = (web("q", "a1"), web("r", "b1"))
    assert destinations(even(spread()), *both) == ["a1", "a2", "b1"]
    assert destinations(even(spread(min_domains=3)), *both) == []


def test_nodes_that_the_pod_cannot_select_count_only_if_the_policy_ignores_that() -> None:
    in_a = (NodeSelectorTerm((Requirement(ZONE, Operator.IN, ("a",)),)),)
    scheduling = {"required_node_affinity": in_a}
    one = even(spread(), scheduling=scheduling)
    assert destinations(one, web("q", "a1")) == ["a1", "a2"]
    one = even(spread(honors_affinity=False), scheduling=scheduling)
    assert destinations(one, web("q", "a1")) == []


def test_tainted_nodes_count_unless_the_policy_honors_taints() -> None:
    nodes = (zoned("a1", "a"), zoned("b1", "b", taints=(Taint("x", "NoSchedule"),)))
    assert destinations(even(spread()), web("q", "a1"), nodes=nodes) == []
    assert destinations(even(spread(honors_taints=True)), web("q", "a1"), nodes=nodes) == ["a1"]


def test_match_label_keys_compare_with_the_pods_own_value() -> None:
    one = even(spread(match_label_keys=("v", "absent")), labels={"app": "web", "v": "2"})
    assert len(destinations(one, web("q", "a1", labels={"app": "web", "v": "1"}))) == 3
    assert destinations(one, web("q", "a1", labels={"app": "web", "v": "2"})) == ["b1"]


def test_every_constraint_has_to_hold_and_its_label_to_be_there() -> None:
    one = even(spread(), spread(HOST, max_skew=1))
    assert destinations(one, web("q", "b1"), web("r", "a1")) == ["a2"]


def test_an_empty_selector_counts_no_pod_and_none_matches_none() -> None:
    full = (web("q", "a1"), web("r", "a1"))
    assert len(destinations(even(spread(selector=LabelSelector())), *full)) == 3
    assert len(destinations(even(spread(selector=None)), *full)) == 3


# Host ports


@pytest.mark.parametrize(
    ("wanted", "free"),
    [
        (HostPort(80), False),
        (HostPort(80, address="0.0.0.0"), False),  # noqa: S104
        (HostPort(80, address="10.0.0.1"), False),
        (HostPort(80, address="10.0.0.2"), True),
        (HostPort(80, "UDP"), True),
        (HostPort(81), True),
    ],
)
def test_a_host_port_conflicts_by_protocol_and_overlapping_address(
    wanted: HostPort, *, free: bool
) -> None:
    holder = pod("h", on="a1", scheduling={"host_ports": (HostPort(80, address="10.0.0.1"),)})
    one = pod("p", scheduling={"host_ports": (wanted,)})
    assert ("a1" in destinations(one, holder)) is free
    assert (
        "a1" in destinations(holder, pod("q", on="a1", scheduling={"host_ports": (wanted,)}))
    ) is free


def test_a_victim_frees_its_ports_and_its_replacement_takes_them() -> None:
    one, other = (
        pod(n, on=on, scheduling={"host_ports": (HostPort(80),)})
        for n, on in (("p", "a1"), ("q", "a2"))
    )
    found = free(one, other)
    assert found.feasible(one, "a1").tolist() == [True, False, True, True]
    assert found.feasible_beside(one, "a1").tolist() == [False, False, True, True]
    found.reserve("b1", one, {}, leaving=one)
    assert found.feasible(other, "a2").tolist() == [True, True, False, True]


def test_a_pod_that_is_still_to_come_keeps_others_away_by_a_term_that_no_other_carries() -> None:
    found = free(db("x", on="b1"))
    awaited = avoids(near(HOST), of="web")
    before = found.copy()
    found.reserve("a2", awaited, {})
    assert found.schedulable(db()).tolist() == [True, False, True, True]
    assert before.schedulable(db()).tolist() == [True, True, True, True]


def test_of_pods_with_the_same_term_those_that_have_not_moved_keep_others_away() -> None:
    one, other = avoids(near(HOST), of="a", on="a1"), avoids(near(HOST), of="b", on="a2")
    found = free(one, other)
    found.reserve("b1", one, {}, leaving=one)
    assert found.schedulable(db()).tolist() == [True, False, False, True]
