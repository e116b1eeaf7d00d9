"""Drains on small random clusters, beside an exhaustive search."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from desched.model.plan import Plan
from desched.model.snapshot import Snapshot
from desched.plugins.gpus.drains.drain import DrainPlan
from desched.plugins.gpus.fragmentation import PodClasses
from desched.policy.policy import PriorityThreshold, Protections
from tests.builders import planned
from tests.unit.plugins.gpus.gpu_cluster import (
    GPU,
    drain_for,
    drains,
    gpu_node,
    runs,
    seen,
    waits,
)

GPUS = 8


class Small(NamedTuple):
    """The sizes of the pods on each node, and how many pods wait for a whole node."""

    nodes: Sequence[Sequence[int]]
    waiting: int

    @property
    def seen(self) -> Snapshot:
        nodes = [gpu_node(f"g{i}", GPUS) for i in range(len(self.nodes))]
        demand = [waits(f"big{i}", GPUS) for i in range(self.waiting)]
        pods = [
            runs(f"p{i}-{j}", f"g{i}", size)
            for i, sizes in enumerate(self.nodes)
            for j, size in enumerate(sizes)
        ]
        return seen(nodes, [*pods, *demand])

    def plan(self) -> Plan:
        return planned(self.seen, drains())

    def fewest_moves(self) -> int | None:
        """The fewest moves that empty so many nodes without more fragmentation, by trying all."""
        cluster = self.seen.cluster
        classes = PodClasses.of(cluster, cluster.node_by_name)
        sizes = [dict(kind.requests.extended)[GPU] for kind in classes.kinds]
        shares = dict(zip(sizes, classes.shares.tolist(), strict=True))

        def fragmented(free: Iterable[int]) -> float:
            return math.fsum(p * idle for idle in free for size, p in shares.items() if size > idle)

        before = fragmented(GPUS - sum(sizes) for sizes in self.nodes)
        found = [
            sum(len(self.nodes[i]) for i in emptied)
            for emptied in combinations(range(len(self.nodes)), self.waiting)
            if any(fragmented(after) <= before + 1e-6 for after in self._packed(emptied))
        ]
        return min(found, default=None)

    def _packed(self, emptied: Sequence[int]) -> Iterable[tuple[int, ...]]:
        """What is free of the other nodes, for each way to pack the pods of the emptied ones."""
        leaving = sorted((size for i in emptied for size in self.nodes[i]), reverse=True)
        free = [GPUS - sum(sizes) for i, sizes in enumerate(self.nodes) if i not in emptied]
        found = {tuple(sorted(free))}
        for size in leaving:
            found = {
                tuple(sorted((*each[:i], room - size, *each[i + 1 :])))
                for each in found
                for i, room in enumerate(each)
                if room >= size
            }
        return found


def _random(seed: int) -> Small:
    chance = Random(seed)  # noqa: S311  (no secret)

    def sizes() -> Iterator[int]:
        left = chance.randint(1, GPUS)
        while left > 0:
            size = min(left, chance.choice([1, 1, 1, 2, 4]))
            yield size
            left -= size

    nodes = [tuple(sizes()) for _ in range(chance.randint(4, 7))]
    return Small(nodes, chance.randint(1, 2))


def test_drains_take_hardly_more_moves_than_an_exhaustive_search_finds() -> None:
    solvable = [s for s in map(_random, range(150)) if s.fewest_moves() is not None]
    plans = [(small, small.plan()) for small in solvable]
    served = [(s, p) for s, p in plans if _served(p) == s.waiting]
    moves = sum(len(plan.evictions) for _, plan in served)
    fewest = sum(small.fewest_moves() or 0 for small, _ in served)
    assert moves <= 1.05 * fewest
    assert len(served) >= 0.8 * len(plans), f"{len(served)} of {len(plans)}"


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_a_drain_empties_its_nodes_and_nothing_else_moves(seed: int, waiting: int) -> None:
    small = _random(seed)._replace(waiting=waiting)
    plan = small.plan()
    drained = {each.node for each in plan.evictions}
    left = {(each.pod.namespace, each.pod.name) for each in plan.evictions}
    for pod in small.seen.cluster.pods:
        assert ((pod.namespace, pod.name) in left) == (pod.node in drained)
    for each in plan.evictions:
        assert each.node in drain_for(each).nodes
        assert drained <= set(each.steered)
        assert drained.isdisjoint(each.likely_nodes)
    assert _served(plan) + len(DrainPlan.of(plan.extras).unserved) == waiting
    assert all(each.why for each in DrainPlan.of(plan.extras).unserved)


@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from([None, 0]), st.randoms())
def test_the_order_of_pods_and_nodes_changes_nothing(
    seed: int, waiting: int, threshold: int | None, order: Random
) -> None:
    """Neither the moves nor the reasons; perhaps no pod may leave."""
    small = _random(seed)._replace(waiting=waiting)
    by = drains(protections=Protections(priority_threshold=PriorityThreshold(value=threshold)))
    cluster = small.seen.cluster
    nodes, pods = (order.sample(each, len(each)) for each in (cluster.nodes, cluster.pods))
    other = replace(small.seen, cluster=replace(cluster, nodes=(*nodes,), pods=(*pods,)))
    assert planned(other, by) == planned(small.seen, by)


def _served(plan: Plan) -> int:
    return len({str(drain_for(eviction)) for eviction in plan.evictions})
