"""A gang that may move whole leaves with all its pods or none, and to no wider domain.

The reference knows the drawn cluster, not the labels and annotations by which desched sees it.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.model.cluster import Node
from desched.model.load import Measured
from desched.model.plan import Plan
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.plugins.gangs.keys import GangMode
from desched.plugins.gangs.plugin import Gangs
from desched.plugins.gpus.keys import GpuPods
from desched.plugins.gpus.plugin import Gpus
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, SteeringRules
from tests.builders import (
    amounts,
    house,
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

ALLOWING = Gpus(gpu_pods=GpuPods.ALLOW)
EAGER = policy(
    rule(stop_margin_ratio=0.3, ceiling_margin_ratio=0.0),
    limits=no_limits_but(),
    plugins=house(ALLOWING),
)
LEVELS = (
    "topology.kubernetes.io/zone",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
)
GROUP, CLIQUE = "cloud.google.com/gke-placement-group", "nvidia.com/gpu.clique"
GPU = "nvidia.com/gpu"

WHOLE = msgspec.structs.replace(EAGER, plugins=house(Gangs(GangMode.WHOLE), ALLOWING))
STEERED = msgspec.structs.replace(
    WHOLE, steering=SteeringRules(SteeringMode.WHEN_NEEDED, most_nodes=9), max_landing_risk=0.15
)

Path = tuple[str | None, ...]
"""The names of the domains of a node, None where it has no label."""


class Place(NamedTuple):
    """Where a node is."""

    path: Path
    group: str | None
    clique: str | None


class Member(NamedTuple):
    """A pod; `gang` is -1 outside all gangs."""

    gang: int
    on: str
    ready: bool
    has_gpu: bool


class Drawn(NamedTuple):
    """A cluster as it is meant."""

    places: Mapping[str, Place]
    members: Mapping[str, Member]
    minima: Sequence[int]
    seen: Snapshot


def marks(gang: int, minimum: int) -> dict[str, str]:
    """How three systems mark the pods of a gang."""
    name = f"gang-{gang}"
    return (
        {
            "gang.scheduling.koordinator.sh/name": name,
            "gang.scheduling.koordinator.sh/min-available": str(minimum),
        },
        {"scheduling.x-k8s.io/pod-group": name},
        {"scheduling.k8s.io/group-name": name},
    )[gang % 3]


def declared(gang: int, minimum: int) -> Iterator[DeclaredGroup]:
    system = (None, "coscheduling", "Volcano")[gang % 3]
    if system is not None:
        yield DeclaredGroup(system, "apps", f"gang-{gang}", minimum)


def drawn(seed: int) -> Drawn:
    """A cluster of this seed; most gangs need all their pods, each of which can relieve a node.

    The first nodes are overloaded.
    """
    chance = random.Random(seed)  # noqa: S311  (no secret)
    places = {f"n{i}": _place(chance) for i in range(chance.randint(4, 9))}
    hot = list(places)[: chance.randint(1, 3)]
    members = {
        f"p{i}": Member(
            chance.randint(-1, 2),
            chance.choice(hot if chance.random() < 0.7 else list(places)),
            chance.random() < 0.98,
            chance.random() < 0.5,
        )
        for i in range(chance.randint(4, 9))
    }
    minima = [max(1, sum(m.gang == gang for m in members.values())) for gang in range(3)]
    levels = {n: 0.95 if n in hot else chance.choice([0.0, 0.1, 0.3]) for n in places}
    return Drawn(places, members, minima, _snapshot(places, members, minima, levels))


def _place(chance: random.Random) -> Place:
    """A node whose racks and blocks have names of other blocks and zones, or none."""
    path = tuple(chance.choice(["a", "a", "b", None]) for _ in LEVELS)
    group, clique = (chance.choice(["1", "1", "2", None]) for _ in range(2))
    return Place(path, group, clique)


def _snapshot(
    places: Mapping[str, Place],
    members: Mapping[str, Member],
    minima: Sequence[int],
    levels: Mapping[str, float],
) -> Snapshot:
    pods = [
        pod(
            name,
            on=each.on,
            of=f"w-{name}",
            request=amounts(0.1, 0.1, **({GPU: 1} if each.has_gpu else {})),
            annotations=marks(each.gang, minima[each.gang]) if each.gang >= 0 else {},
            ready=each.ready,
        )
        for name, each in members.items()
    ]
    usage = {each.name: (LARGE, 0.1) for each in pods}
    return snapshot(
        [_node(name, place) for name, place in places.items()],
        pods,
        load({name: (level, 0.1) for name, level in levels.items()}, usage),
        [workload(f"w-{each.name}", 4) for each in pods],
        declared_groups=tuple(
            group for gang, minimum in enumerate(minima) for group in declared(gang, minimum)
        ),
    )


def _node(name: str, place: Place) -> Node:
    size = msgspec.structs.replace(amounts(8, 16, **{GPU: 16}), pods=110)
    values = dict(zip((*LEVELS, GROUP, CLIQUE), (*place.path, *place[1:]), strict=True))
    labels = {key: value for key, value in values.items() if value is not None}
    return node(name, labels=labels, capacity=size, allocatable=size)


def common(one: Path, other: Path) -> int:
    """How many levels from the widest on two nodes have in common."""
    count = 0
    for a, b in zip(one, other, strict=True):
        if a is None or a != b:
            break
        count += 1
    return count


def moves(plan: Plan) -> dict[str, str]:
    return {eviction.pod.name: eviction.expected_node for eviction in plan.evictions}


LARGE = 2.0
"""Cores that a pod uses where a single gang relieves a node of eight."""


def of_gangs(plan: Plan) -> dict[str, str]:
    """The expected nodes of the pods that move with their whole gang."""
    return {each.pod.name: each.expected_node for each in plan.evictions if each.gang}


def spread(of: Drawn, names: Iterable[str], where: Mapping[str, str]) -> int:
    """How many levels all these pods have in common."""
    first, *others = (of.places[where[name]].path for name in names)
    return min((common(first, each) for each in others), default=len(LEVELS))


@settings(max_examples=settings().max_examples)
@given(seed=st.integers(0, 2**32), by=st.sampled_from([WHOLE, STEERED]))
@example(seed=6728, by=WHOLE)  # a pod of the gang would most likely come back to its hot node
def test_a_gang_moves_with_all_its_pods_or_none(seed: int, by: Policy) -> None:
    """R2.3, X1: all or nothing, only where all of it fits again, and in no wider domain."""
    cluster = drawn(seed)
    plan = planned(cluster.seen, by)
    found = of_gangs(plan)
    before = {name: member.on for name, member in cluster.members.items()}
    after = before | moves(plan)
    loads = {name: _cpu(cluster.seen, name) for name in cluster.places}

    gangs = {cluster.members[name].gang for name in found}
    assert len(gangs) <= 1
    for gang in gangs:
        members = [name for name, each in cluster.members.items() if each.gang == gang]
        assert sorted(found) == sorted(members)
        assert all(cluster.members[name].ready for name in members)
        assert spread(cluster, members, after) >= spread(cluster, members, before)
        assert any(loads[before[name]] > HOT for name in members)
    for name, target in found.items():
        assert loads[target] <= HOT
        source, landed = cluster.places[before[name]], cluster.places[target]
        assert source.group in {None, landed.group}
        if cluster.members[name].has_gpu:
            assert source.clique in {None, landed.clique}
    for node_name in set(found.values()):
        came = sum(target == node_name for target in after.values())
        here = sum(target == node_name for target in before.values())
        load_after = loads[node_name] + (came - here) * LARGE / 8
        assert load_after <= max(HOT, loads[node_name]) + 1e-9


HOT = 0.8
"""The target of the policy, which is the ceiling as well."""


def _cpu(seen: Snapshot, name: str) -> float:
    found = seen.load.nodes[name][Resource.CPU]
    assert isinstance(found, Measured)
    return found.levels[0].ratio


@settings(max_examples=settings().max_examples)
@given(seed=st.integers(0, 2**32))
def test_a_plan_without_a_whole_gang_is_that_of_the_default_key(seed: int) -> None:
    """And up to the gang, one with it is the same."""
    cluster = drawn(seed)
    plan, default = planned(cluster.seen, WHOLE), planned(cluster.seen, EAGER)

    names = [bool(each.gang) for each in plan.evictions]
    until = names.index(True) if any(names) else len(names)
    assert plan.evictions[:until] == default.evictions[:until]
    assert all(names[until : until + sum(names)])  # no other eviction splits the gang
    if not any(names):
        assert plan.evictions == default.evictions
        assert [r.pod for r in plan.refusals] == [r.pod for r in default.refusals]


def test_the_drawn_clusters_have_gangs_that_move_whole() -> None:
    """Else the properties above could not fail."""
    plans = [planned(drawn(seed).seen, WHOLE) for seed in range(60)]
    assert sum(bool(of_gangs(plan)) for plan in plans) >= 5
    steered = (planned(drawn(seed).seen, STEERED) for seed in range(150))
    assert sum(any(each.gang and each.steered for each in p.evictions) for p in steered) >= 2
    kept = {r.reason.value for plan in plans for r in plan.refusals if r.detail.startswith("gang")}
    assert {"pod_group", "no_node_under_ceiling"} <= kept


@settings(max_examples=settings().max_examples)
@given(seed=st.integers(0, 2**32))
def test_the_order_of_nodes_pods_and_groups_decides_nothing(seed: int) -> None:
    cluster = drawn(seed)
    chance = random.Random(seed + 1)  # noqa: S311  (no secret)
    state = cluster.seen.cluster
    nodes, pods = list(state.nodes), list(state.pods)
    groups = list(GangObjects.of(state.extras).groups)
    for each in (nodes, pods, groups):
        chance.shuffle(each)
    other = msgspec.structs.replace(
        cluster.seen,
        cluster=msgspec.structs.replace(
            state, nodes=tuple(nodes), pods=tuple(pods), extras=GangObjects(tuple(groups)).extras
        ),
    )
    one, two = planned(cluster.seen, WHOLE), planned(other, WHOLE)
    assert (one.evictions, one.refusals) == (two.evictions, two.refusals)
