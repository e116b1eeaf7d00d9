"""No plan takes a pod of a gang out of its domains, whatever tree there is, and in any order."""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from desched.model.cluster import DeclaredGroup, Node, Pod
from desched.model.network_topology import GroupTopology, HyperNode, HyperNodeTree
from desched.model.plan import Plan
from desched.model.snapshot import Snapshot
from tests.builders import (
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)

BLOCK, RACK = "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"
GROUP = "cloud.google.com/gke-placement-group"
GANG = "gang.scheduling.koordinator.sh/"
EAGER = policy(rule(stop_margin_ratio=0.3, ceiling_margin_ratio=0.0), limits=no_limits_but())
HOT = ("n0", "n1", "n2")


class Network(NamedTuple):
    """Random nodes with labels, and HyperNodes of which some contradict themselves."""

    nodes: list[Node]
    hyper_nodes: list[HyperNode]


def network(chance: random.Random) -> Network:
    names = [f"n{i}" for i in range(10)]
    nodes = [
        node(
            name,
            cpu=8,
            labels={
                key: f"{key[-3:]}-{chance.randint(0, 1)}"
                for key in (BLOCK, RACK, GROUP)
                if chance.random() < 0.8
            },
        )
        for name in names
    ]
    racks: list[list[str]] = [[] for _ in range(4)]
    for name in names:
        if chance.random() < 0.9:
            chance.choice(racks).append(name)
    found = [HyperNode(f"r{i}", 1, "rack", tuple(each)) for i, each in enumerate(racks)]
    found += [
        HyperNode("b0", 2, "block", (), ("r0", "r1", "gone")),
        HyperNode("b1", 2, "block", (), ("r2", "r3")),
        HyperNode("top", 3, "", (), ("b0", "b1")),
    ]
    if chance.random() < 0.4:
        found.append(
            chance.choice(
                [
                    HyperNode("x", 2, "", (), (chance.choice(["r0", "b0", "top", "x"]),)),
                    HyperNode("x", 1, "", (chance.choice(names),)),
                    HyperNode("x", chance.choice([1, 2, 9]), unreadable="no pattern"),
                ]
            )
        )
    return Network(nodes, found if chance.random() < 0.7 else [])


def cluster(seed: int) -> Snapshot:
    """Pods of gangs with and without a topology, most of them on hot nodes."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    nodes, hyper_nodes = network(chance)
    pods, usage = [], {}
    for i in range(18):
        gang = chance.randint(0, 2)
        marks = {f"{GANG}name": f"g{gang}", f"{GANG}min-available": "2"}
        if gang == 2:
            marks = {"scheduling.k8s.io/group-name": "g2"}
        on = chance.choice([*HOT, chance.choice(nodes).name])
        if gang == 2 and hyper_nodes:  # in one rack, so that its topology can be kept
            on = chance.choice(hyper_nodes[0].nodes or HOT)
        scheduler = "volcano" if gang == 2 else "default-scheduler"
        pods.append(pod(f"p{i}", on=on, of=f"w{i}", annotations=marks, scheduler=scheduler))
        usage[f"p{i}"] = (0.6, 0.1)
    topology = GroupTopology(chance.random() < 0.7, chance.choice([None, 1, 2, 3]))
    loads = {each.name: (0.95 if each.name in HOT else 0.1, 0.1) for each in nodes}
    return snapshot(
        nodes,
        pods,
        load(loads, usage),
        [workload(f"w{i}", 4) for i in range(len(pods))],
        hyper_nodes=tuple(hyper_nodes),
        declared_groups=(DeclaredGroup("Volcano", "apps", "g2", 1, topology=topology),),
    )


# A reference that knows only the definitions, and looks at every pair.


def containing(seen: Snapshot, name: str, tier: int) -> set[str]:
    """The HyperNodes up to a tier with the node, by all ways down from each of them."""
    by_name = {each.name: each for each in seen.cluster.hyper_nodes}

    def below(one: HyperNode, depth: int = 0) -> Iterable[str]:
        yield from one.nodes
        for part in one.hyper_nodes if depth < len(by_name) else ():
            if part in by_name:
                yield from below(by_name[part], depth + 1)

    return {one.name for one in by_name.values() if one.tier <= tier and name in below(one)}


def labelled(of: Node) -> Sequence[str]:
    """The values of its levels up to the first that it lacks."""
    found = []
    for key in (BLOCK, RACK):
        if key not in of.labels:
            break
        found.append(of.labels[key])
    return found


def nearness(seen: Snapshot, one: str, other: str) -> tuple[int, int]:
    """How near two nodes are by HyperNodes, and by labels."""
    tree = HyperNodeTree(seen.cluster.hyper_nodes)
    places = tree.place(one).path, tree.place(other).path
    by_tree = sum(a == b for a, b in zip(*places, strict=False))
    # A level that the block lacks is no level of anybody there.
    values = [labelled(seen.cluster.node_by_name[name]) for name in (one, other)]
    shared = 0
    for a, b in zip(*values, strict=False):
        if a != b:
            break
        shared += 1
    return by_tree, shared


def peers_of(seen: Snapshot, one: Pod) -> list[Pod]:
    name = (f"{GANG}name", "scheduling.k8s.io/group-name")
    mine = [one.annotations.get(key) for key in name]
    return [
        other
        for other in seen.cluster.pods
        if other.uid != one.uid and [other.annotations.get(key) for key in name] == mine
    ]


def check(seen: Snapshot, plan: Plan) -> None:
    tree = HyperNodeTree(seen.cluster.hyper_nodes)
    (said,) = seen.cluster.declared_groups
    assert said.topology is not None
    for move in plan.evictions:
        one = next(each for each in seen.cluster.pods if each.uid == move.pod.uid)
        to = move.expected_node
        before, after = (seen.cluster.node_by_name[name].labels for name in (one.node, to))
        if GROUP in before:  # R0.2
            assert after.get(GROUP) == before[GROUP]
        peers = [each.node for each in peers_of(seen, one)]
        places = [tree.place(name) for name in (one.node, *peers)]
        if "scheduling.k8s.io/group-name" in one.annotations:
            assert tree  # R2.4: without HyperNodes, its topology is not known
            if said.topology.is_hard:
                tier = said.topology.highest_tier or 0
                common = set.intersection(*(containing(seen, n, tier) for n in (to, *peers)))
                assert common  # R2.4
                assert not any(tree.place(name).doubt for name in (to, *peers))
                continue
        assert not any(place.doubt for place in places)  # X4
        now = [nearness(seen, one.node, name) for name in peers]
        nearest = [max((each[i] for each in now), default=0) for i in (0, 1)]
        kept = [
            sum(
                a == b for a, b in zip(tree.place(one.node).path, tree.place(to).path, strict=False)
            )
        ]
        by_labels = [labelled(seen.cluster.node_by_name[name]) for name in (one.node, to)]
        kept.append(
            next(
                (i for i, (a, b) in enumerate(zip(*by_labels, strict=False)) if a != b),
                min(map(len, by_labels)),
            )
        )
        assert kept[0] >= nearest[0]  # R0.3
        assert kept[1] >= nearest[1]


@given(seed=st.integers(0, 10**6), order=st.integers(0, 10**6))
def test_no_domain_is_widened_whatever_the_order(seed: int, order: int) -> None:
    """R0.1, R0.2, R0.3, R2.4, X4: by labels, by HyperNodes, and by trees that are in doubt."""
    seen = cluster(seed)
    plan = planned(seen, EAGER)
    check(seen, plan)
    chance = random.Random(order)  # noqa: S311  (no secret)

    def mixed(values: Sequence[object]) -> tuple[object, ...]:
        return tuple(chance.sample(values, len(values)))

    state = seen.cluster
    other = type(state)(
        mixed(state.nodes),  # type: ignore[arg-type]
        mixed(state.pods),  # type: ignore[arg-type]
        state.workloads,
        hyper_nodes=mixed(state.hyper_nodes),  # type: ignore[arg-type]
        declared_groups=state.declared_groups,
    )
    again = planned(type(seen)(other, seen.load, seen.taken_at), EAGER)
    assert [(m.pod, m.expected_node) for m in again.evictions] == [
        (m.pod, m.expected_node) for m in plan.evictions
    ]


def test_pods_of_gangs_do_move() -> None:
    """Else the property says nothing."""
    moved = [move for seed in range(30) for move in planned(cluster(seed), EAGER).evictions]
    assert len(moved) > 30
