"""What must hold for the pace of moves, however load moves from replica to replica."""

import math
from collections import Counter
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.lab.closed_loop import (
    INTERVAL_SECONDS,
    REPEAT_SECONDS,
    Day,
    Deployment,
    Descheduler,
    LoopMove,
    run,
)
from desched.lab.history import Usage, UsageSeries
from desched.lab.template import PodTemplate
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share
from tests.builders import policy

NODE = Amounts(cpu_millicores=4_000, memory_bytes=16 * 2**30)
CYCLES = 20
"""An hour and forty minutes, so that replicas may move again after their rest."""
STEPS = 7
STEP_SECONDS = 3 * INTERVAL_SECONDS


class Loop:
    """Workloads whose replicas change their load every quarter of an hour, and their moves."""

    def __init__(self, chance: Random) -> None:
        nodes = [f"n{i}" for i in range(chance.randint(3, 6))]
        deployments = [
            _deployment(f"app{i}", chance.randint(1, 9), nodes, chance)
            for i in range(chance.randint(1, 3))
        ]
        shares: list[int | Share] = [Share(0.05), 1, 2, 5]
        workload = chance.choice(shares)
        limits = EvictionLimits(
            node=chance.choice([1, 2, 5]), workload=workload, in_flight_workload=workload
        )
        by = policy(limits=limits)
        itself = Descheduler(by, "test")
        simulation = Day(dict.fromkeys(nodes, NODE), tuple(deployments)).begin()
        result = run(simulation, itself.cycle, by, CYCLES)
        self.moves = result.moves
        self.replica_repeats = result.replica_repeats
        self._replicas = result.replicas

    def half_of(self, move: LoopMove) -> int:
        """Half of the replicas of the move's workload, rounded up."""
        return math.ceil(self._replicas[move.workload] / 2)

    def within_an_hour(self, move: LoopMove) -> int:
        """How many replicas of its workload move in the hour that begins with this move."""
        hour = (m for m in self.moves if 0 <= m.at - move.at < REPEAT_SECONDS)
        return Counter(m.workload for m in hour)[move.workload]


def _deployment(name: str, replicas: int, nodes: list[str], chance: Random) -> Deployment:
    levels = [Usage(cpu, 2**28) for cpu in (100, 400, 900, 1_600)]
    series = (UsageSeries(STEP_SECONDS, chance.choices(levels, k=STEPS)) for _ in range(replicas))
    template = PodTemplate(
        scheduling=SchedulingClass(Amounts(cpu_millicores=100, memory_bytes=2**28, pods=1)),
        usage_by_replica=tuple(series),
        labels={"app": name},
    )
    return Deployment(name, template, tuple(chance.choices(nodes[:2], k=replicas)), "apps")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=True))
def test_no_replica_moves_twice_and_at_most_half_of_a_workload_moves_within_an_hour(
    chance: Random,
) -> None:
    loop = Loop(chance)
    assert loop.replica_repeats == 0
    for move in loop.moves:
        assert loop.within_an_hour(move) <= loop.half_of(move)


def test_the_strategy_makes_workloads_that_reach_the_limit() -> None:
    """The property above would hold for cycles that move nothing."""
    loops = [Loop(Random(seed)) for seed in range(10)]  # noqa: S311  no secret
    assert any(
        loop.within_an_hour(move) == loop.half_of(move) > 1 for loop in loops for move in loop.moves
    )
