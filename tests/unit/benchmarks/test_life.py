"""What happens on a day besides load, on small clusters."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.closed_loop import default_policy
from benchmarks.day import Size
from benchmarks.eventful_days import (
    day_with_cronjobs,
    day_with_life,
    relieved_node,
    with_own_minutes,
)
from benchmarks.life import (
    Autoscaling,
    CronJob,
    Drain,
    NodeArrival,
    NodeLoss,
    Restart,
    Rollout,
    autoscaled,
    replicas_for,
)
from benchmarks.trace import SAMPLES
from desched.lab.closed_loop import Day, Deployment, Event, run
from desched.lab.history import UsageSeries
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import Pod, SchedulingClass
from desched.model.resources import Amounts
from desched.ports import World

GIB = 2**30
NODE = Amounts(8_000, 64 * GIB)


def _deployment(*pods: list[float], nodes: tuple[str, ...] = ()) -> Deployment:
    """A Deployment whose pods use these millicores in each sample."""
    series = [[(cpu, GIB) for cpu in levels] for levels in pods]
    usage = tuple(UsageSeries(300, levels) for levels in series)
    requests = SchedulingClass(Amounts(500, GIB, pods=1))
    template = PodTemplate(scheduling=requests, usage_by_replica=usage, labels={"app": "web"})
    return Deployment("web", template, nodes)


def _begun(deployment: Deployment, *events: Event, nodes: int = 3) -> Simulation:
    sizes = {f"n{i}": NODE for i in range(nodes)}
    simulation = Day(sizes, (deployment,), events=events).begin()
    simulation.clock.advance(10)
    return simulation


def _pods(simulation: Simulation) -> list[Pod]:
    return [pod for pod in simulation.cluster.read_cluster().pods if not pod.deleting]


def _used(simulation: Simulation, begin: float) -> float:
    """The millicores of the whole cluster, from then on for ten seconds."""
    simulation.clock.advance(begin + 10 - simulation.clock.monotonic())
    names = [node.name for node in simulation.cluster.nodes]
    return float(simulation.cluster.history.of_nodes(names, begin, begin + 10)[:, 0].sum())


def test_a_rollout_replaces_all_pods_and_keeps_their_usage() -> None:
    web = _deployment([100.0], [200.0], [300.0], [400.0], [500.0])
    simulation = _begun(web, Rollout(60, "default", "web"))
    before = {pod.name for pod in _pods(simulation)}
    simulation.clock.advance(60)
    seen = simulation.cluster.read_cluster()
    assert any(each.rolling_out for each in seen.workloads.values())
    assert len({pod.owner.uid for pod in _pods(simulation) if pod.owner}) == 2
    simulation.clock.advance(200)
    after = _pods(simulation)
    assert len(after) == 5
    assert not before & {pod.name for pod in after}
    (workload,) = simulation.cluster.read_cluster().workloads.values()
    assert not workload.rolling_out
    assert (workload.desired_replicas, workload.ready_replicas) == (5, 5)
    assert _used(simulation, 300) == pytest.approx(1_500)


def test_a_second_rollout_replaces_the_pods_of_the_first() -> None:
    rollouts = (Rollout(60, "default", "web"), Rollout(70, "default", "web"))
    simulation = _begun(_deployment(*[[100.0]] * 8), *rollouts)
    simulation.clock.advance(600)
    assert len(_pods(simulation)) == 8
    assert len({pod.owner.uid for pod in _pods(simulation) if pod.owner}) == 1


def test_an_autoscaler_follows_the_load_and_all_pods_together_use_what_the_trace_says() -> None:
    load = [100.0] * 3 + [300.0] * 4 + [50.0] * 5
    web, scaling = autoscaled(_deployment(load, load), 300)
    assert isinstance(scaling, Autoscaling)
    simulation = _begun(web, scaling)
    counts = []
    for sample in range(len(load)):
        # Pods that end keep their usage for their grace period.
        assert _used(simulation, sample * 300 + 60) == pytest.approx(2 * load[sample])
        counts.append(len(_pods(simulation)))
    assert counts == list(scaling.replicas)
    assert min(counts) == 2
    assert counts[3] < counts[4] == max(counts)


def test_the_replicas_rise_at_once_fall_a_sample_later_and_stay_for_a_small_change() -> None:
    total = np.array([400.0, 410.0, 800.0, 800.0, 400.0, 400.0, 400.0, 10.0, 10.0, 10.0])
    assert replicas_for(total, 100, 100) == [4, 4, 4, 8, 8, 8, 4, 4, 4, 2]
    assert replicas_for(total, 100, 6)[3] == 6


def test_a_scaled_rollout_ends_with_the_wanted_pods() -> None:
    usage = UsageSeries(300, [(100.0, GIB)] * 4)
    scaling = Autoscaling("default", "web", usage, [8, 4, 4, 4])
    simulation = _begun(_deployment(*[[100.0]] * 8), Rollout(290, "default", "web"), scaling)
    simulation.clock.advance(900)
    assert len(_pods(simulation)) == 4
    assert len({pod.owner.uid for pod in _pods(simulation) if pod.owner}) == 1


@pytest.mark.parametrize("minute", [0, 17])
def test_a_job_begins_every_hour_at_its_minute_and_ends(minute: int) -> None:
    report = CronJob("report", 200, 1_200, 20, range(1, 3), minute)
    simulation = _begun(_deployment([100.0]), report)
    assert len(_pods(simulation)) == 1
    for hour in (1, 2):
        begins_at = hour * 3600 + minute * 60
        assert _used(simulation, begins_at - 60) == pytest.approx(100)
        assert _used(simulation, begins_at + 60) == pytest.approx(1_300)
        (job,) = (pod for pod in _pods(simulation) if pod.labels["app"] == "report")
        assert job.owner is not None
        assert job.owner.kind == "Job"
        assert _used(simulation, begins_at + 1_300) == pytest.approx(100)


def test_each_cronjob_of_a_day_may_have_a_minute_of_its_own() -> None:
    arrival = NodeArrival(1_200, "n1", NODE)
    jobs = [CronJob(f"cron{i}", 200, 1_200, 20, range(1, 3)) for i in range(60)]
    day = with_own_minutes(Day({"n0": NODE}, (), events=(arrival, *jobs)), 1)
    assert day.events[0] is arrival
    minutes = [event.at_minute for event in day.events if isinstance(event, CronJob)]
    assert len(minutes) == 60
    assert 30 < len(set(minutes)) < 60
    assert day == with_own_minutes(day, 1)


def test_a_lost_node_counts_for_the_time_in_which_it_existed() -> None:
    web = _deployment([7_900.0], [100.0], nodes=("n0", "n1"))
    events = (NodeLoss(900, "n0"), NodeArrival(1_200, "n0-new", NODE))
    simulation = Day(dict.fromkeys(("n0", "n1"), NODE), (web,), events=events).begin()

    def idle(world: World) -> None:
        pass

    result = run(simulation, idle, default_policy(), 5)
    assert len(result.load) == 3
    known = ~np.isnan(result.load[:, :, 0]).any(axis=0)
    names = [node.name for node in simulation.cluster.all_nodes]
    minutes = dict(zip(names, (~np.isnan(result.load[:, :, 0])).sum(axis=1).tolist(), strict=True))
    assert minutes == {"n0": 15, "n1": 30, "n0-new": 10}
    assert not known.all()
    # On n0 for 15 minutes, then beside the other pod on n1.
    assert result.overload.node_minutes == pytest.approx(30)


def test_a_drain_evicts_all_pods_and_lets_the_node_back_later() -> None:
    web = _deployment(*[[100.0]] * 6, nodes=("n0", "n0", "n0", "n1", "n1", "n1"))
    simulation = _begun(web, Drain(60, "n0", 30))
    simulation.clock.advance(120)
    assert Counter(pod.node for pod in _pods(simulation))["n0"] == 0
    assert [node.unschedulable for node in simulation.cluster.nodes] == [True, False, False]
    simulation.clock.advance(1_800)
    assert not any(node.unschedulable for node in simulation.cluster.nodes)
    assert len(_pods(simulation)) == 6


def test_a_pod_that_restarts_is_not_ready_for_a_moment() -> None:
    simulation = _begun(_deployment([100.0], [100.0]), Restart(60, "default", "web", 1))
    simulation.clock.advance(51)
    assert [pod.ready for pod in _pods(simulation)] == [True, False]
    simulation.clock.advance(10)
    assert all(pod.ready for pod in _pods(simulation))


def test_an_evicted_pod_that_nobody_wants_any_longer_has_no_replacement() -> None:
    simulation = Day(
        {"n0": NODE}, (_deployment([100.0], [100.0]),), events=(Rollout(299, "default", "web"),)
    ).begin()

    def evict_the_oldest(world: World) -> None:
        oldest = world.cluster.read_cluster().pods[0]
        assert world.evictor is not None
        if world.clock.monotonic() < 400:
            world.evictor.evict(oldest.ref, "test")

    result = run(simulation, evict_the_oldest, default_policy(), 2)
    (move,) = result.moves
    assert (move.replacement, move.landed_at) == ("", None)
    assert result.pending_minutes == 0


def test_the_first_node_is_overloaded_and_has_more_requests_than_the_others() -> None:
    simulation = relieved_node().begin()
    simulation.clock.advance(60)
    cluster = simulation.cluster.read_cluster()
    requested = {
        node.name: sum(
            p.scheduling.requests.cpu_millicores for p in cluster.pods_by_node[node.name]
        )
        for node in cluster.nodes
    }
    assert requested.pop("n0") == 4_500
    assert set(requested.values()) == {4_000}
    names = ["n0", "n1"]
    used = simulation.cluster.history.of_nodes(names, 0, 60)[:, 0] / 8_000
    assert used.tolist() == pytest.approx([0.875, 0.3875], abs=0.03)
    simulation.clock.advance(3_600)
    pods = simulation.cluster.read_cluster().pods
    assert sum(pod.name.startswith("cron") for pod in pods) == 10


@pytest.mark.parametrize("draw", [day_with_cronjobs, day_with_life])
def test_every_run_of_an_eventful_day_meets_the_same_events(draw: object) -> None:
    assert callable(draw)
    chance = np.random.default_rng(1)
    rows = np.stack(
        [chance.gamma(4.0, 0.1, (20, SAMPLES)), chance.gamma(90.0, 0.01, (20, SAMPLES))], axis=2
    )
    day = draw((rows,), 3, Size(10, 80))

    def idle(world: World) -> None:
        pass

    first, second = (run(day.begin(), idle, default_policy(), 80) for _ in range(2))
    np.testing.assert_array_equal(first.load, second.load)
    assert np.nanmean(first.load[:, :, 0]) > 0.5
