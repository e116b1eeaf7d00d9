"""No plan breaks a gang or widens its domain: by labels, Topologies, or HyperNodes, by all modes.

The reference knows only the definitions in docs/plugins/networks.md, and looks at every pair.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.gangs.topology import GroupTopology
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.plan import Plan, PlannedEviction
from desched.model.snapshot import Snapshot
from desched.network.objects import HyperNode, NetworkObjects, Topology
from desched.network.placement_domains import DomainMode
from desched.plugins.gpus.keys import GpuPods
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.networks.keys import (
    PlacementDomainsSection,
    placement_domains,
)
from desched.plugins.networks.plugin import Networks
from desched.policy.policy import Policy
from tests.builders import (
    STEERED,
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

ZONE, RACK = "topology.kubernetes.io/zone", "cloud.google.com/gce-topology-subblock"
BLOCK, OTHER_BLOCK = "cloud.google.com/gce-topology-block", "volcano.sh/hypercluster"
GROUP, CLIQUE = "cloud.google.com/gke-placement-group", "nvidia.com/gpu.clique"
HALL, ROW, HOST = "example.com/hall", "example.com/row", "kubernetes.io/hostname"
LEVELS = ((ZONE,), (BLOCK, OTHER_BLOCK), (RACK,))
OWN = Topology("KAI", "own", (HALL, RACK))
TOPOLOGIES = (Topology("Kueue", "hall", (HALL, ROW, HOST)), OWN)
TIERS = tuple(f"topology.volcano.sh/tier-{tier}" for tier in (1, 2, 3))
GPU = "nvidia.com/gpu"
REQUIRE, PREFER, IGNORE = DomainMode
NEEDED_CORES = 0.4
"""Of each pod: a cool node stays under its ceiling, whatever moves."""


class Domains(NamedTuple):
    """What the drawn policy says of domains."""

    mode: DomainMode
    modes: Mapping[str, DomainMode]

    def mode_of(self, key: str) -> DomainMode:
        """The strictest that is written for a label of the same level."""
        level = next((keys for keys in LEVELS if key in keys), (key,))
        written = [self.modes[each] for each in level if each in self.modes]
        return min(written or [self.mode], key=[REQUIRE, PREFER, IGNORE].index)

    def policy(self) -> Policy:
        section = PlacementDomainsSection.model_validate(
            {
                "mode": self.mode,
                "modes": dict(self.modes),
                "groups": (GROUP,),
                "acceleratorGroups": (CLIQUE,),
                "levels": LEVELS,
            }
        )
        return policy(
            rule(stop_margin_ratio=0.05, ceiling_margin_ratio=0.0),
            limits=no_limits_but(),
            plugins=house(
                Networks(placement_domains(section, REQUIRE)), Gpus(gpu_pods=GpuPods.ALLOW)
            ),
            **STEERED,
        )


class Drawn(NamedTuple):
    """A cluster as it is meant: the gang of each pod, -1 outside all gangs."""

    gangs: Mapping[str, int]
    minima: Sequence[int]
    topology: GroupTopology | None
    hot: Sequence[str]
    domains: Domains
    seen: Snapshot


def marks(gang: int, minimum: int, *, by_kai: bool) -> dict[str, str]:
    """How the systems mark the pods of a gang."""
    koordinator = "gang.scheduling.koordinator.sh/"
    return {
        -1: {},
        0: {f"{koordinator}name": "gang-0", f"{koordinator}min-available": str(minimum)},
        1: {"scheduling.x-k8s.io/pod-group": "gang-1"},
        2: {"pod-group-name" if by_kai else "scheduling.k8s.io/group-name": "gang-2"},
    }[gang]


def drawn(seed: int) -> Drawn:
    """A cluster of this seed; the first nodes are overloaded."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    nodes = [_node(chance, f"n{i}") for i in range(chance.randint(4, 9))]
    names = [each.name for each in nodes]
    hot = names[: chance.randint(1, 3)]
    tree = hyper_nodes(chance, names)
    minima = [chance.choice([1, 2, 2, 3]) for _ in range(3)]
    rack = next((each.nodes for each in tree if hot[0] in each.nodes), ())
    together = [name for name in rack if name in names] if chance.random() < 0.8 else []
    by_kai = chance.random() < 0.3
    if by_kai and chance.random() < 0.8:
        together = [e.name for e in nodes if all(e.labels.get(k) == "a" for k in (HALL, RACK))]
    volcano = chance.choice(["volcano", "default-scheduler", "default-scheduler"])
    gangs, pods = {}, []
    for i in range(chance.randint(6, 16)):
        gang = gangs[f"p{i}"] = chance.choice([-1, 0, 0, 1, 1, 2, 2])
        on = chance.choice(hot if chance.random() < 0.7 else names)
        if gang == 2 and together and on not in together:
            on = chance.choice(together)
        pods.append(
            pod(
                f"p{i}",
                on=on,
                of=f"w{i}",
                request=amounts(0.1, 0.1, **({GPU: 1} if chance.random() < 0.5 else {})),
                annotations=marks(gang, minima[gang], by_kai=by_kai),
                ready=chance.random() < 0.9,
                scheduler=volcano if gang == 2 else "default-scheduler",
            )
        )
    topology = chance.choice(
        [
            None,
            GroupTopology(chance.random() < 0.5),
            GroupTopology(hard=True, highest_tier=chance.choice([1, 2, 2, 3])),
            GroupTopology(
                hard=True, highest_tier_name=chance.choice(["block", "rack", "block", "hall"])
            ),
        ]
    )
    if by_kai:
        hard, level = chance.random() < 0.7, chance.choice([HALL, RACK])
        topology = GroupTopology(hard, None, "", level * hard, level * (not hard), OWN.name)
    loads = {
        name: (chance.choice([0.83, 0.87, 0.95] if name in hot else [0.0, 0.1]), 0.1)
        for name in names
    }
    seen = snapshot(
        nodes,
        pods,
        load(loads, {each.name: (NEEDED_CORES, 0.1) for each in pods}),
        [workload(f"w{i}", 4) for i in range(len(pods))],
        extras=NetworkObjects(
            tree,
            tuple(each for each in TOPOLOGIES if chance.random() < (0.9 if by_kai else 0.3)),
        ).extras,
        declared_groups=(
            DeclaredGroup("coscheduling", "apps", "gang-1", minima[1]),
            DeclaredGroup(
                "KAI" if by_kai else "Volcano", "apps", "gang-2", minima[2], topology=topology
            ),
        ),
    )
    return Drawn(gangs, minima, topology, hot, _domains(chance), seen)


def _domains(chance: random.Random) -> Domains:
    """Half of the policies require everything."""
    if chance.random() < 0.5:
        return Domains(REQUIRE, {})
    keys = (*TIERS, ZONE, BLOCK, OTHER_BLOCK, RACK, HALL, ROW, GROUP, CLIQUE)
    modes = {key: chance.choice(list(DomainMode)) for key in keys if chance.random() < 0.5}
    return Domains(chance.choice([REQUIRE, PREFER, IGNORE]), modes)


def _node(chance: random.Random, name: str) -> Node:
    """A node whose racks and blocks have names of other blocks and zones, or none."""
    size = msgspec.structs.replace(amounts(8, 16, **{GPU: 32}), pods=110)
    levels = (ZONE, chance.choice([BLOCK, BLOCK, OTHER_BLOCK]), RACK, HALL, ROW)
    labels = {key: chance.choice("aaaab") for key in levels if chance.random() < 0.8}
    labels |= {key: chance.choice("aab") for key in (GROUP, CLIQUE) if chance.random() < 0.5}
    return node(name, labels={**labels, HOST: name}, capacity=size, allocatable=size)


Levels = Mapping[str, Sequence[tuple[str, object]]]
"""The domains of a node from the widest by each source: the key of its mode, and what it is."""


class Reference:
    """What the documents say about a drawn cluster."""

    def __init__(self, of: Drawn) -> None:
        self._of = of
        self._state = of.seen.cluster
        self._network = NetworkObjects.of(self._state.extras)
        self._tree = {each.name: each for each in self._network.hyper_nodes}
        self.levels = cache(self._levels)
        self.above = cache(self._above)

    def _above(self, name: str) -> frozenset[str]:
        """The HyperNodes that have this node or HyperNode, at whatever depth."""
        found: set[str] = set()
        todo = [name]
        while todo:
            at = todo.pop()
            ups = {h.name for h in self._tree.values() if at in (*h.nodes, *h.hyper_nodes)}
            todo += ups - found
            found |= ups
        return frozenset(found)

    def is_in_doubt(self, name: str) -> bool:
        """Whether where a node is contradicts itself, or cannot be read."""
        if not self._direct(name):
            return any(each.unreadable for each in self._tree.values())
        if len(self._direct(name)) > 1:
            return True
        return any(self._contradicts_itself(self._tree[each]) for each in self.above(name))

    def _direct(self, name: str) -> Sequence[HyperNode]:
        return [h for h in self._tree.values() if name in (*h.nodes, *h.hyper_nodes)]

    def _contradicts_itself(self, one: HyperNode) -> bool:
        above = self._direct(one.name)
        if one.unreadable or len(above) > 1 or one.name in self.above(one.name):
            return True
        if above:
            return above[0].tier <= one.tier
        return any(each.unreadable and each.tier > one.tier for each in self._tree.values())

    def _levels(self, name: str) -> Levels:
        labels = self._state.node_by_name[name].labels
        chains = {
            each.name: [(key,) for key in each.levels if key != HOST]
            for each in self._network.topologies
        }
        found = {title: self._by_labels(labels, each) for title, each in chains.items()}
        parts = [] if self.is_in_doubt(name) else [self._tree[each] for each in self.above(name)]
        parts.sort(key=lambda each: -each.tier)
        return {
            "labels": self._by_labels(labels, LEVELS),
            "HyperNodes": [(f"topology.volcano.sh/tier-{p.tier}", p.name) for p in parts],
            **found,
        }

    def _by_labels(
        self, labels: Mapping[str, str], chain: Sequence[Sequence[str]]
    ) -> Sequence[tuple[str, object]]:
        """Down to the first level that the node lacks, without those that nobody has."""
        found: list[tuple[str, object]] = []
        path: tuple[object, ...] = ()
        for keys in chain:
            if not any(key in each.labels for each in self._state.nodes for key in keys):
                continue
            value = next(((key, labels[key]) for key in keys if key in labels), None)
            if value is None:
                break
            path = *path, value
            found.append((keys[0], path))
        return found

    def kept(self, one: Pod, on: str, where: Mapping[str, str], least: DomainMode) -> Levels:
        """What a pod on a node shares with its nearest peer, down to the last level that counts."""
        modes = [REQUIRE, PREFER][: 1 + (least is PREFER)]
        found = {}
        for title, own in self.levels(on).items():
            best: Sequence[tuple[str, object]] = ()
            for peer in self.peers(one):
                theirs = self.levels(where[peer.name])[title]
                best = max(best, [each for each in own if each in theirs], key=len)
            counting = [i for i, each in enumerate(best, 1) if self._mode(each[0]) in modes]
            found[title] = best[: max(counting, default=0)]
        return found

    def _mode(self, key: str) -> DomainMode:
        return self._of.domains.mode_of(key)

    def peers(self, one: Pod) -> Sequence[Pod]:
        """The other pods of its gang; one that needs a single pod is none without a topology."""
        gang = self._of.gangs[one.name]
        if gang < 0 or (self._of.minima[gang] == 1 and (gang < 2 or self._of.topology is None)):
            return ()
        others = (each for each in self._state.pods if each.name != one.name)
        return [each for each in others if self._of.gangs[each.name] == gang]

    def is_hard(self, one: Pod) -> bool:
        """Whether a HyperNode keeps its gang together."""
        topology = self._of.topology
        return self._of.gangs[one.name] == 2 and topology is not None and topology.is_hard

    def is_inside(self, one: Pod, target: str, least: DomainMode) -> bool:
        """Whether a node is in all domains of the pod with such a mode."""
        modes = [REQUIRE, PREFER][: 1 + (least is PREFER)]
        own, other = (self._state.node_by_name[name].labels for name in (one.node, target))
        for key in (GROUP, *([CLIQUE] if one.scheduling.requests.extended else [])):
            if self._mode(key) in modes and key in own and own[key] != other.get(key):
                return False
        if self.is_hard(one):
            return bool(self.common(one, target) or self.is_in_level(one, target))
        now = {each.name: each.node for each in self._state.pods}
        kept = self.kept(one, one.node, now, least)
        return all(set(each) <= set(self.levels(target)[title]) for title, each in kept.items())

    def may_choose(self, one: Pod, target: str) -> bool:
        """Whether a scheduler that keeps the topology of its gang may place the pod there."""
        inside = not self.is_hard(one) or self.common(one, target)
        return bool(inside or self.is_in_level(one, target))

    def is_in_level(self, one: Pod, target: str) -> bool:
        """Whether this node and all peers have the values of KAI's required level and above it."""
        said = self._of.topology
        if said is None or not said.level or OWN not in self._network.topologies:
            return False
        keys = OWN.levels[: OWN.levels.index(said.level) + 1]
        nodes = (target, *(each.node for each in self.peers(one)))
        labels = [self._state.node_by_name[name].labels for name in nodes]
        return all(key in labels[0] for key in keys) and all(
            each.get(key) == labels[0][key] for each in labels for key in keys
        )

    def common(self, one: Pod, target: str) -> frozenset[str]:
        """The HyperNodes of an allowed tier with this node and all peers."""
        said = self._of.topology
        assert said is not None
        if said.by_labels:
            return frozenset()  # no HyperNode keeps it, also none without the name of a tier
        named = [e.tier for e in self._tree.values() if e.tier_name == said.highest_tier_name]
        tier = min(named, default=-1) if said.highest_tier is None else said.highest_tier
        nodes = [target, *(each.node for each in self.peers(one))]
        if any(map(self.is_in_doubt, nodes)):
            return frozenset()
        found = frozenset.intersection(*(self.above(name) for name in nodes))
        return frozenset(name for name in found if self._tree[name].tier <= tier)


def check(of: Drawn, plan: Plan) -> None:
    reference = Reference(of)
    pods = {each.name: each for each in of.seen.cluster.pods}
    for move in plan.evictions:
        check_move(of, reference, pods[move.pod.name], move, plan)
    gone = {move.pod.name for move in plan.evictions}
    for gang, minimum in enumerate(of.minima):
        before = [p for p in pods.values() if of.gangs[p.name] == gang and p.ready]
        left = [each for each in before if each.name not in gone]
        assert minimum == 1 or len(left) >= minimum or left == before  # R2.2
    now = {each.name: each.node for each in pods.values()}
    after = now | {move.pod.name: move.expected_node for move in plan.evictions}
    for one in pods.values():
        if not reference.is_hard(one):
            before_all = reference.kept(one, one.node, now, REQUIRE)
            after_all = reference.kept(one, after[one.name], after, REQUIRE)
            for title, levels in before_all.items():  # R0.3, for those who stay, too
                assert len(after_all[title]) >= len(levels)


def check_move(
    of: Drawn, reference: Reference, one: Pod, move: PlannedEviction, plan: Plan
) -> None:
    peers, topology = reference.peers(one), of.topology
    assert reference.is_inside(one, move.expected_node, REQUIRE)  # R0.2, R0.3, R2.4
    if of.gangs[one.name] == 2 and peers and topology is not None:
        # R2.4: without these, its topology is not known
        network = NetworkObjects.of(of.seen.cluster.extras)
        assert OWN in network.topologies if topology.topology else network.hyper_nodes
    counts = {of.domains.mode, *of.domains.modes.values()} != {IGNORE}
    if peers and counts and not reference.is_hard(one):
        assert not any(map(reference.is_in_doubt, (one.node, *(p.node for p in peers))))  # X4
    names = [each.name for each in of.seen.cluster.nodes]
    if one.scheduler == "volcano":  # it may choose each node that its own topology allows
        anywhere = (n for n in names if reference.may_choose(one, n))
        assert all(reference.is_inside(one, name, REQUIRE) for name in anywhere)
    elif move == plan.evictions[0] and not reference.is_inside(one, move.expected_node, PREFER):
        tainted = {taint.node for taint in plan.taints}  # for other moves, too
        cool = (name for name in names if name not in {*of.hot, *tainted})
        assert not any(reference.is_inside(one, name, PREFER) for name in cool)


def shuffled(seen: Snapshot, chance: random.Random) -> Snapshot:
    def mixed(of: ClusterState | GangObjects | NetworkObjects, *names: str) -> dict[str, Any]:
        lists = {name: list(getattr(of, name)) for name in names}
        for values in lists.values():
            chance.shuffle(values)
        return {name: tuple(values) for name, values in lists.items()}

    network = NetworkObjects.of(seen.cluster.extras)
    cluster = msgspec.structs.replace(
        seen.cluster,
        **mixed(seen.cluster, "nodes", "pods"),
        extras={
            **NetworkObjects(**mixed(network, "hyper_nodes", "topologies")).extras,
            **GangObjects(**mixed(GangObjects.of(seen.cluster.extras), "groups")).extras,
        },
    )
    return msgspec.structs.replace(seen, cluster=cluster)


@settings(max_examples=2 * settings().max_examples)
@given(seed=st.integers(0, 2**32))
def test_no_gang_is_broken_and_no_domain_widened_whatever_the_order(seed: int) -> None:
    """R0.1, R0.2, R0.3, R2.2, R2.4, X4: nor does the order of objects decide anything."""
    of = drawn(seed)
    by = of.domains.policy()
    plan = planned(of.seen, by)
    check(of, plan)
    chance = random.Random(seed + 1)  # noqa: S311  (no secret)
    other = planned(shuffled(of.seen, chance), by)
    assert (other.evictions, other.refusals) == (plan.evictions, plan.refusals)


def coverage() -> Iterator[str]:
    """What happens to pods of gangs in some drawn clusters."""
    for seed in range(240):
        of = drawn(seed)
        reference, plan = Reference(of), planned(of.seen, of.domains.policy())
        pods = {each.name: each for each in of.seen.cluster.pods}
        yield from (each.reason.value for each in plan.refusals)
        yield from ("doubt" for each in plan.refusals if "place in the network" in each.detail)
        for move in plan.evictions:
            one = pods[move.pod.name]
            if reference.peers(one):
                hard = "moved by hard topology" if reference.is_hard(one) else "moved"
                yield "moved by required level" if reference.is_in_level(one, one.node) else hard
            if not reference.is_inside(one, move.expected_node, PREFER):
                first = move == plan.evictions[0] and one.scheduler != "volcano"
                yield "left what it preferred" if first else "left it after other moves"
            elif of.domains.modes:
                yield "stayed inside"


def test_the_drawn_clusters_have_moves_and_each_refusal() -> None:
    """Else the property above could not fail."""
    found = list(coverage())
    for each in ("pod_group", "placement_domain", "doubt", "moved", "stayed inside"):
        assert found.count(each) >= 10, each
    for each in ("moved by hard topology", "moved by required level", "left what it preferred"):
        assert found.count(each) >= 3, each
