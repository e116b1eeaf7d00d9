"""A whole gang with a hard topology goes where Volcano would place it, and to no wider HyperNode.

The reference places it as volcano-sh/volcano@ed72c7c8 does, by the rules that
docs/plugins/networks.md has, for each state that Volcano may see and for some weights of its
resources.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from desched.gangs.objects import DeclaredGroup
from desched.gangs.topology import GroupTopology
from desched.model.cluster import Pod
from desched.model.plan import Plan
from desched.model.snapshot import Snapshot
from desched.network.objects import HyperNode, NetworkObjects
from desched.plugins.gangs.keys import GangMode
from desched.plugins.gangs.plugin import Gangs
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from desched.policy.schedulers import OtherScheduler, SchedulerProfile, SchedulerRules
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
from tests.properties.random_networks import hyper_nodes

AWARE = OtherScheduler(SchedulerProfile.VOLCANO, further_points=100, network_topology_aware=True)
WHOLE = policy(
    rule(stop_margin_ratio=0.3, ceiling_margin_ratio=0.0),
    limits=no_limits_but(),
    plugins=house(Gangs(GangMode.WHOLE)),
    scheduler=SchedulerRules(others={"volcano": AWARE}),
    steering=SteeringRules(SteeringMode.WHEN_NEEDED, most_nodes=9),
    max_landing_risk=0.15,
)
CORES, MEMORY = 8, 16


class Drawn(NamedTuple):
    """A cluster as it is meant: what is requested on each node, as cores and GiB."""

    request: tuple[float, float]
    on: Sequence[str]
    others: Mapping[str, tuple[float, float]]
    tree: Sequence[HyperNode]
    highest: int
    seen: Snapshot


def drawn(seed: int) -> Drawn:
    """A gang in the first rack whose first node is overloaded; other pods only request."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    names = [f"n{i}" for i in range(chance.randint(4, 9))]
    tree = _tree(chance, names)
    rack = [name for name in tree[0].nodes if name in names] if tree else names
    on = [chance.choice(rack or names) for _ in range(chance.randint(2, 3))]
    request = (chance.choice([1.0, 2.0, 3.0]), chance.choice([1.0, 2.0]))
    others = {n: (chance.choice([0.0, 1.0, 4.0]), chance.choice([0.0, 2.0, 8.0])) for n in names}
    marks = {"scheduling.k8s.io/group-name": "llama"}
    ranks = [
        pod(
            f"rank-{i}",
            on=name,
            of="llama",
            request=amounts(*request),
            annotations=marks,
            scheduler="volcano",
        )
        for i, name in enumerate(on)
    ]
    fillers = [
        pod(f"x-{name}", on=name, of=None, request=amounts(*asked))
        for name, asked in others.items()
        if any(asked)
    ]
    hot = 0.95 if chance.random() < 0.9 else 0.5
    loads = {name: (hot if name == on[0] else chance.choice([0.1, 0.3]), 0.1) for name in names}
    highest = chance.choice([1, 1, 2, 2, 3])
    usage = dict.fromkeys([each.name for each in ranks], (2.0, 0.1))
    seen = snapshot(
        [node(name, capacity=_SIZE, allocatable=_SIZE) for name in names],
        [*ranks, *fillers],
        load(loads, usage | {each.name: (0.1, 0.1) for each in fillers}),
        [workload("llama", len(on))],
        extras=NetworkObjects(tuple(tree)).extras,
        declared_groups=(
            DeclaredGroup(
                "Volcano",
                "apps",
                "llama",
                len(on),
                topology=GroupTopology(hard=True, highest_tier=highest),
            ),
        ),
    )
    return Drawn(request, on, others, tree, highest, seen)


_SIZE = msgspec.structs.replace(amounts(CORES, MEMORY), pods=110)


def _tree(chance: random.Random, names: Sequence[str]) -> Sequence[HyperNode]:
    """Two or three racks in one or two blocks; sometimes something hostile."""
    if chance.random() < 0.2:
        return hyper_nodes(chance, names)
    count = chance.choice([2, 2, 3])
    racks = [HyperNode(f"r{i}", 1, nodes=tuple(names[i::count])) for i in range(count)]
    block = HyperNode("b0", 2, hyper_nodes=("r0", "r1"))
    return (*racks, block) if chance.random() < 0.7 else racks


def inside(of: Drawn, name: str) -> set[str]:
    """All nodes of a HyperNode."""
    tree = {each.name: each for each in of.tree}
    found, todo, seen = set[str](), [name], set[str]()
    while todo:
        at = todo.pop()
        if at in seen or at not in tree:
            continue
        seen.add(at)
        found |= set(tree[at].nodes) & set(of.others)
        todo += tree[at].hyper_nodes
    return found


def choices(of: Drawn) -> Iterator[set[str]]:
    """The HyperNodes that Volcano may choose, in each state that it may see."""
    n = len(of.on)
    free = {name: (CORES - cores, MEMORY - memory) for name, (cores, memory) in of.others.items()}
    for tier in sorted({each.tier for each in of.tree if each.tier <= of.highest}):
        fitting = [
            each.name
            for each in of.tree
            if each.tier == tier
            and sum(
                int(min(free[name][i] // of.request[i] for i in (0, 1)))
                for name in inside(of, each.name)
            )
            >= n
        ]
        if fitting:
            for terminating in (True, False):
                for weights in ((1, 1), (5, 1), (1, 5)):
                    scores = {h: _score(of, h, weights, terminating=terminating) for h in fitting}
                    top = max(scores.values())
                    yield {h for h, score in scores.items() if score >= top - 1e-9}
            return


def _score(of: Drawn, name: str, weights: tuple[int, int], *, terminating: bool) -> float:
    """getSubJobHyperNodeBinPackingScore: (used + request) / allocatable, 0 if that is above 1."""
    nodes, total = inside(of, name), 0.0
    for i, size in enumerate((CORES, MEMORY)):
        used = sum(of.others[each][i] for each in nodes)
        if terminating:
            used += sum(of.request[i] for each in of.on if each in nodes)
        share = (used + len(of.on) * of.request[i]) / (len(nodes) * size)
        if share > 1:
            return 0.0
        total += weights[i] * share
    return total / sum(weights)


def targets(plan: Plan) -> set[str]:
    return {each.expected_node for each in plan.evictions if each.gang}


@given(seed=st.integers(0, 2**32))
def test_a_whole_gang_goes_where_volcano_places_it(seed: int) -> None:
    """R2.3, R2.4: into one HyperNode of an allowed tier, the same in each state."""
    of = drawn(seed)
    plan = planned(of.seen, WHOLE)
    if not (found := targets(plan)):
        return
    assert sum(bool(each.gang) for each in plan.evictions) == len(of.on)
    for chosen in choices(of):
        (name,) = chosen
        assert found <= inside(of, name)


def outcome(of: Drawn) -> str:
    """What became of the gang of a drawn cluster."""
    plan = planned(of.seen, WHOLE)
    own = {each.name for each in of.tree if each.tier == 1 and set(of.on) <= inside(of, each.name)}
    if found := targets(plan):
        stays = any(found <= inside(of, name) for name in own)
        return "stays in its rack" if stays else "enters another"
    details = " ".join(each.detail for each in plan.refusals)
    return "not known" if "Volcano may place it" in details else "refused"


def test_the_drawn_gangs_enter_other_hyper_nodes() -> None:
    """Else the property above could not fail."""
    found = [outcome(drawn(seed)) for seed in range(200)]
    assert found.count("enters another") >= 3
    assert found.count("stays in its rack") >= 3
    assert found.count("not known") >= 3


def _without_requests(one: Pod) -> Pod:
    scheduling = msgspec.structs.replace(one.scheduling, requests=amounts(0, 0))
    return msgspec.structs.replace(one, scheduling=scheduling)


def test_a_gang_without_requests_may_go_to_any_hyper_node() -> None:
    """With requests it moves; without, all HyperNodes are as full, and Volcano draws one."""
    seen = drawn(53).seen
    pods = [
        _without_requests(each) if each.name.startswith("rank") else each
        for each in seen.cluster.pods
    ]
    cluster = msgspec.structs.replace(seen.cluster, pods=tuple(pods))
    assert planned(seen, WHOLE).evictions
    assert not planned(msgspec.structs.replace(seen, cluster=cluster), WHOLE).evictions
