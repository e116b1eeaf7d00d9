import math

import numpy as np
import pytest
from msgspec.structs import replace

from desched.lab.closed_loop import Pace, load_by_step
from desched.lab.past.replay import Replay
from desched.lab.recorded_past import NodeChange, Past
from desched.lab.world import Simulation
from desched.model.cluster import STEERING_TAINT, Effect, Taint
from tests.builders import NOW
from tests.unit.lab.past.pasts import STEP_SECONDS, Life, a_past, at, cordon

PACE = Pace(step_seconds=STEP_SECONDS)


def load(of: Simulation, past: Past) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    of.clock.advance(past.steps * STEP_SECONDS - of.clock.monotonic())
    return load_by_step(of, Replay(past).nodes, PACE)


def placed(on: Simulation) -> dict[str, str]:
    return {pod.name: pod.node for pod in on.cluster.read_cluster().pods}


LIVES = [
    Life("web-1", "a", [1.0, 2.0, 3.0] * 4),
    Life("web-2", "a", [0.5] * 5, first_step=4, ends=True),
    Life("db-1", "b", [math.nan, 1.0, math.nan, 1.0], of="db", ends=True),
    Life("bare", "b", [0.25] * 12, of=None),
    Life("late", "c", [2.0] * 3, first_step=9, of="db"),
]


def test_without_a_move_every_node_has_its_real_load() -> None:
    past = a_past(LIVES, unknown=[("c", 2), ("c", 3)])
    found = load(Replay(past).begin(), past)
    real = np.stack(list(past.node_ratios.values()), axis=2)
    assert found == pytest.approx(real, nan_ok=True)
    assert np.isnan(found[2, 2:4]).all()


def test_the_load_of_a_node_is_unknown_before_it_joins_and_after_it_leaves() -> None:
    past = a_past([Life("web-1", "a", [1.0] * 12)], b={"began": at(3), "ended": at(8)}, steps=12)
    found = load(Replay(past).begin(), past)
    assert np.isnan(found[1, :, 0]).tolist() == [not 3 <= step < 8 for step in range(12)]


def test_pods_come_and_go_on_the_steps_at_which_they_did() -> None:
    simulation = Replay(a_past(LIVES)).begin()
    names = []
    for _ in range(12):
        names.append(set(placed(simulation)))
        simulation.clock.advance(STEP_SECONDS)
    steady = {"web-1", "bare"}
    assert names[0] == steady | {"db-1"}
    assert names[4] == steady | {"web-2"}
    assert names[8] == steady | {"web-2"}
    assert names[9] == steady | {"late"}


def test_the_clock_shows_the_time_of_the_past() -> None:
    assert Replay(a_past([])).begin().clock.now() == NOW


def test_a_replacement_goes_on_with_the_load_of_its_pod_and_ends_with_it() -> None:
    past = a_past(LIVES)
    simulation = Replay(past).begin()
    simulation.clock.advance(5 * STEP_SECONDS)
    simulation.cluster.delete_pod("apps", "web-2")
    (where,) = [node for name, node in placed(simulation).items() if name == "web-2.1"]
    simulation.clock.advance(4 * STEP_SECONDS)
    assert "web-2.1" not in placed(simulation)
    found, real = load(simulation, past), past.node_ratios
    cpu = next(iter(real.values()))
    index = "abc".index(where)
    assert found[0, 6:9, 0] == pytest.approx(cpu[0, 6:9] - 0.125)
    assert found[index, 6:9, 0] == pytest.approx(cpu[index, 6:9] + 0.125)
    assert found[:, 9:, 0] == pytest.approx(cpu[:, 9:])


def test_usage_that_is_unknown_stays_with_the_node_and_is_not_measured() -> None:
    past = a_past(LIVES)
    simulation = Replay(past).begin()
    simulation.clock.advance(2 * STEP_SECONDS)
    history = simulation.cluster.history
    known = history.of_users(["uid-db-1"], STEP_SECONDS, 2 * STEP_SECONDS)
    unknown = history.of_users(["uid-db-1"], 0, STEP_SECONDS)
    assert known[0, 0] == pytest.approx(1000)
    assert np.isnan(unknown).all()


def test_a_replacement_has_a_uid_of_its_own_whatever_those_of_the_past_are() -> None:
    past = a_past([Life(f"web-{i}", "a", [0.1] * (12 - i), first_step=i) for i in range(9)])
    pods = [
        replace(each, pod=replace(each.pod, uid=f"pod-{number}"))
        for number, each in enumerate(past.pods)
    ]
    simulation = Replay(replace(past, pods=tuple(pods))).begin()
    for name in ("web-0", "web-0.1", "web-0.2"):
        simulation.cluster.delete_pod("apps", name)
    simulation.clock.advance(9 * STEP_SECONDS)
    found = simulation.cluster.read_cluster().pods
    assert len(found) == len({pod.uid for pod in found}) == 9


def test_every_run_begins_alike() -> None:
    past = a_past(LIVES)
    replay = Replay(past)
    first = replay.begin()
    first.cluster.delete_pod("apps", "web-1")
    assert placed(replay.begin()) == {"web-1": "a", "db-1": "b", "bare": "b"}
    assert load(replay.begin(), past)[0, 0, 0] == pytest.approx(1.5 / 4)


def test_nodes_are_cordoned_and_tainted_when_they_were() -> None:
    gpu = Taint("gpu", Effect.NO_SCHEDULE)
    change = NodeChange(at(6), ready=False, unschedulable=False, taints=(gpu,))
    simulation = Replay(a_past([], a={"changes": (cordon(3), change)})).begin()
    found = []
    for _ in range(8):
        node = simulation.cluster.read_cluster().node_by_name["a"]
        found.append((node.ready, node.unschedulable, node.taints))
        simulation.clock.advance(STEP_SECONDS)
    assert found[2] == (True, False, ())
    assert found[3] == found[5] == (True, True, ())
    assert found[6] == (False, False, (gpu,))


def test_a_change_of_the_past_keeps_the_soft_taint_of_the_replay() -> None:
    simulation = Replay(a_past([], a={"changes": (cordon(3),)})).begin()
    simulation.steerer.taint("a", at(9))
    simulation.clock.advance(4 * STEP_SECONDS)
    node = simulation.cluster.read_cluster().node_by_name["a"]
    assert (node.unschedulable, node.taints) == (True, (STEERING_TAINT,))


def test_a_later_pod_gets_its_recorded_node_although_the_scheduler_would_avoid_it() -> None:
    past = a_past([Life("web-1", "a", [0.1] * 12), Life("late", "a", [0.1] * 3, first_step=9)])
    simulation = Replay(past).begin()
    simulation.steerer.taint("a", at(12))
    simulation.clock.advance(10 * STEP_SECONDS)
    assert placed(simulation)["late"] == "a"
    simulation.cluster.delete_pod("apps", "late")
    assert placed(simulation)["late.1"] != "a"


def test_pods_of_a_node_that_left_are_gone_and_those_that_had_moved_there_are_placed_again() -> (
    None
):
    lives = [
        Life("web-1", "a", [1.0] * 12, request_cores=3.0),
        Life("web-2", "b", [1.0] * 6, ends=True, of="db"),
        Life("web-3", "c", [1.0] * 12, of="db", request_cores=3.0),
    ]
    simulation = Replay(a_past(lives, b={"ended": at(6)})).begin()
    simulation.clock.advance(2 * STEP_SECONDS)
    simulation.cluster.delete_pod("apps", "web-1")
    assert placed(simulation)["web-1.1"] == "b"
    simulation.clock.advance(4 * STEP_SECONDS)
    assert placed(simulation) == {"web-3": "c", "web-1.2": "a"}


def test_the_scheduler_compares_some_nodes_of_a_large_cluster() -> None:
    small, large = (a_past([], hosts=[f"n{i}" for i in range(nodes)]) for nodes in (100, 101))
    assert Replay(small).begin().cluster.sample is None
    assert Replay(large).begin().cluster.sample is not None
