"""Which evictions met an overload that would have passed by itself."""

import pytest

from benchmarks.closed_loop import default_policy
from benchmarks.hindsight import brief_evictions
from desched.lab.closed_loop import Day, Deployment, run
from desched.lab.history import UsageSeries
from desched.lab.template import PodTemplate
from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts
from desched.ports import World

GIB = 2**30
NODE = Amounts(8_000, 64 * GIB)
CYCLES = 23


def _brief(*levels: float, evict_at: tuple[float, ...] = (600.0,), pods: int = 4) -> int:
    """The brief evictions from a node on which each of the pods uses these millicores.

    There is an empty node beside it. The levels hold for five minutes each, the last one for ever.
    """
    usage = UsageSeries(300, [(level, GIB) for level in levels])
    template = PodTemplate(
        scheduling=SchedulingClass(Amounts(100, GIB, pods=1)),
        usage_by_replica=(usage,) * pods,
        labels={"app": "web"},
    )
    day = Day({"n0": NODE, "n1": NODE}, (Deployment("web", template, ("n0",) * pods),))
    simulation = day.begin()

    def act(world: World) -> None:
        assert world.evictor is not None
        if world.clock.monotonic() in evict_at:
            pods_there = world.cluster.read_cluster().pods_by_node["n0"]
            world.evictor.evict(pods_there[0].ref, "test")

    result = run(simulation, act, default_policy(), CYCLES)
    assert len(result.moves) == len(evict_at)
    return brief_evictions(simulation, result)


def test_an_overload_that_ends_within_a_quarter_of_an_hour_was_brief() -> None:
    assert _brief(1_000, 1_800, 1_800, 1_800, 1_000) == 1


def test_an_overload_that_goes_on_was_not_although_the_eviction_ended_it() -> None:
    assert _brief(1_000, 1_800) == 0


@pytest.mark.parametrize(("gap", "brief"), [(4, 0), (14, 1)])
def test_it_was_not_brief_if_it_would_have_come_back_within_the_hour(gap: int, brief: int) -> None:
    assert _brief(1_000, 1_800, *[1_000] * (gap + 1), 1_800, 1_800, 1_000) == brief


def test_all_pods_that_were_evicted_from_then_on_are_put_back() -> None:
    # Without the second eviction five minutes later, the node would still be overloaded.
    assert _brief(1_000, 1_800, evict_at=(600.0, 900.0)) == 0
    # 3 x 2,300 millicores are more than the target, too, but only for a moment.
    assert _brief(1_000, 2_300, 2_300, 2_300, 1_000, evict_at=(600.0, 900.0)) == 2


def test_an_eviction_from_a_node_without_overload_is_no_brief_one() -> None:
    assert _brief(1_000) == 0
