from datetime import timedelta
from email.utils import format_datetime
from threading import Event

import msgspec
import pytest
import structlog

from desched.adapters.metrics_apis.kept_samples import decode_samples
from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.errors import ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import Measured, PodChoice, PodUsage, Unknown, UnknownReason
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow, MetricsType
from desched.ports import all_pods
from tests.builders import GIB, NOW, node, pod, policy, rule
from tests.unit.adapters.kubernetes.fake_api_server import Reply, connection_to, status

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
PATIENCE_SECONDS = 60.0
CPU, MEMORY = Resource.CPU, Resource.MEMORY
CLUSTER = ClusterState((node("node-1"),), (pod("web-1", "node-1"),))
POLICY = policy(rule(), rule(MEMORY))


def node_metrics(at, name="node-1", *, cpu="2", memory="8Gi", window="15.04s"):
    usage = {"cpu": cpu, "memory": memory}
    return {
        "metadata": {"name": name, "labels": {"a": "b"}},
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "window": window,
        "usage": usage,
    }


def pod_metrics(at, *usages, name="web-1", window="15s"):
    return {
        "metadata": {"name": name, "namespace": "apps"},
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "window": window,
        "containers": [{"name": "c", "usage": {"cpu": c, "memory": m}} for c, m in usages],
    }


class Times:
    """Reads at times of the server's clock that a test chooses."""

    def __init__(self, server):
        self.server = server
        self.reader = SampledLoadReader(
            connection_to(server), lambda _: False, deadline_seconds=30.0
        )

    def read(self, at, *, cluster=CLUSTER, by=POLICY, nodes=None, pods=None, choose=all_pods):
        self.server.date = format_datetime(at, usegmt=True)
        self.server.lists[NODES] = [node_metrics(at)] if nodes is None else nodes
        self.server.lists[PODS] = [pod_metrics(at, ("500m", "1Gi"))] if pods is None else pods
        return self.reader.read_load(cluster, by, choose)

    def read_for(self, seconds, *, until=NOW, step=15, **how):
        """Read at regular times that end with `until`; the load that was read last."""
        for back in range(seconds, -1, -step):
            load = self.read(until - timedelta(seconds=back), **how)
        return load


@pytest.fixture
def times(server):
    return Times(server)


def loads_of(load, name="node-1"):
    return load.nodes[name]


def test_a_single_look_knows_no_window_and_says_from_when_on_it_will(times):
    load = times.read(NOW)
    cpu = loads_of(load)[CPU]
    assert cpu.reason is UnknownReason.WINDOW_NOT_COVERED
    assert cpu.detail == (
        "desched's own samples cover 5% of the last 5m, and metrics-server has no history"
    )
    seen = load.seen["node-1"][CPU]
    assert [level.ratio for level in seen.levels] == [pytest.approx(0.5)]
    assert seen.usable_in_seconds == pytest.approx(240 - 15.04)
    assert load.pods["apps", "web-1"] == PodUsage()


def test_samples_of_a_whole_window_are_its_load(times):
    load = times.read_for(300)
    assert loads_of(load)[CPU].levels[0].ratio == pytest.approx(0.5)
    assert loads_of(load)[MEMORY].levels[0].ratio == pytest.approx(0.5)
    assert load.pods["apps", "web-1"].cpu_millicores == pytest.approx((500.0,))
    assert load.pods["apps", "web-1"].memory_bytes == pytest.approx((1.0 * GIB,))
    assert load.server_times == (NOW, NOW)
    assert load.problems == ()


def test_a_load_is_the_mean_of_its_window_and_not_the_newest_sample(times):
    times.read_for(300, until=NOW - timedelta(seconds=150), nodes=None)
    hot = NOW
    for back in range(135, -1, -15):
        at = hot - timedelta(seconds=back)
        load = times.read(at, nodes=[node_metrics(at, cpu="4")])
    assert loads_of(load)[CPU].levels[0].ratio == pytest.approx(0.75)


def known_points(load, name="node-1", resource=CPU):
    """The points of the history that are known, without the present one."""
    points = load.history[name][resource].ratios[:-1]
    assert len(points) == 37
    return [point for point in points if point is not None]


def test_history_has_regular_times_and_now(times):
    at = NOW + timedelta(seconds=100)
    load = times.read_for(900, until=at)
    history = load.history["node-1"][CPU]
    assert history.ages_seconds[:2] == [36 * 300 + 100, 35 * 300 + 100]
    assert history.ages_seconds[-2:] == [100, 0]
    assert history.ratios[-1] == pytest.approx(0.5)
    # Of the first of four windows the samples cover less than half.
    assert known_points(load) == pytest.approx([0.5] * 2)


def test_history_grows_while_only_the_samples_of_windows_are_kept(times):
    hot_since = NOW - timedelta(seconds=1800)
    for back in range(4 * 3600, -1, -30):
        at = NOW - timedelta(seconds=back)
        load = times.read(at, nodes=[node_metrics(at, cpu="4" if at > hot_since else "2")])
    points = known_points(load)
    assert len(points) == 37
    assert points == pytest.approx([0.5] * 32 + [1.0] * 5)
    kept = decode_samples(MetricsType.METRICS_SERVER, times.reader.kept())
    assert kept is not None
    (oldest, *_) = kept.nodes["node-1"]
    assert NOW.timestamp() - oldest.at <= 600 + 2 * 180


def test_a_young_point_is_read_again(times):
    slow = [node_metrics(NOW - timedelta(seconds=50), cpu="2")]
    times.read_for(600, until=NOW - timedelta(seconds=60))
    load = times.read(NOW + timedelta(seconds=1), nodes=slow)
    assert len(known_points(load)) == 2
    for back in range(300, -1, -15):
        at = NOW + timedelta(seconds=300 - back)
        load = times.read(at, nodes=[node_metrics(at, cpu="4")])
    before_last = load.history["node-1"][CPU].ratios[-2]
    assert before_last == pytest.approx(0.5 + 0.5 * 50 / 300, abs=0.02)


def test_each_policy_has_a_history_of_its_own_window(times):
    times.read_for(600)
    load = times.read(NOW + timedelta(seconds=15), by=policy(rule(windows_seconds=(600,))))
    assert load.history["node-1"][CPU].step_seconds == 600
    assert len(load.history["node-1"][CPU].ratios) == 18 + 2


# --- the past of pods --------------------------------------------------------------------------

PASTS = PodChoice(pasts=frozenset({"node-1"}))


def past_of(load, name="web-1"):
    return load.pod_pasts["apps", name]


def test_the_past_of_pods_begins_when_their_node_is_chosen(times):
    times.read_for(900, until=NOW)
    load = times.read(NOW + timedelta(seconds=15), choose=lambda _: PASTS)
    past = past_of(load)
    assert len(past.cpu_millicores) == len(load.history["node-1"][CPU].ratios) == 38
    known = [value for value in past.cpu_millicores if value is not None]
    assert known == pytest.approx([500.0] * 4)  # three, and now
    assert past.memory_bytes[-1] == pytest.approx(GIB)
    assert load.pods_of is None
    assert times.read(NOW + timedelta(seconds=30)).pod_pasts == {}


def test_the_past_of_pods_grows_as_that_of_nodes(times):
    load = times.read_for(3 * 3600 + 900, step=60, choose=lambda _: PASTS)
    past = past_of(load)
    assert past.cpu_millicores == pytest.approx((500.0,) * 38)
    assert past.memory_bytes == pytest.approx((1.0 * GIB,) * 38)


def test_a_pod_that_is_gone_keeps_its_past_and_one_that_moved_has_none(times):
    both = [node("node-1"), node("node-2")]
    pods = [pod("web-1", "node-1"), pod("web-2", "node-1"), pod("web-3", "node-1")]
    usage = [pod_metrics(NOW, ("500m", "1Gi"), name=f"web-{i}") for i in (1, 2, 3)]

    def at(back):
        found = NOW - timedelta(seconds=back)
        return [usage_at | {"timestamp": pod_metrics(found)["timestamp"]} for usage_at in usage]

    for back in range(900, -1, -30):
        cluster = ClusterState(tuple(both), tuple(pods))
        times.read(
            NOW - timedelta(seconds=back), cluster=cluster, pods=at(back), choose=lambda _: PASTS
        )
    moved = ClusterState(tuple(both), (pods[0], pod("web-3", "node-2")))
    load = times.read(
        NOW + timedelta(seconds=30), cluster=moved, pods=at(-30)[:1], choose=lambda _: PASTS
    )
    assert load.pod_pasts.keys() == {("apps", "web-1"), ("apps", "web-2")}
    gone = past_of(load, "web-2").cpu_millicores
    assert gone[-1] is None
    assert sum(value is not None for value in gone) >= 2


def test_a_choice_may_grow_by_the_past_that_is_read(times):
    two = ClusterState(
        (node("node-1"), node("node-2")), (pod("web-1", "node-1"), pod("web-2", "node-2"))
    )

    def choose(load):
        return PodChoice(pasts=frozenset({"node-1", "node-2"})) if load.pod_pasts else PASTS

    for back in range(600, -1, -30):
        at = NOW - timedelta(seconds=back)
        usage = [pod_metrics(at, ("500m", "1Gi"), name=f"web-{i}") for i in (1, 2)]
        load = times.read(at, cluster=two, pods=usage, choose=choose)
    assert load.pod_pasts.keys() == {("apps", "web-1"), ("apps", "web-2")}


def test_a_node_that_metrics_server_lacks_is_unknown(times):
    cluster = ClusterState((node("node-1"), node("node-2")), ())
    load = times.read_for(300, cluster=cluster)
    assert isinstance(loads_of(load)[CPU], Measured)
    assert loads_of(load, "node-2")[CPU] == Unknown(
        UnknownReason.ABSENT, "metrics-server has no metrics of this node"
    )


def test_a_sample_that_does_not_change_any_more_is_stale(times):
    times.read_for(300)
    frozen = [node_metrics(NOW)]
    later = times.read(NOW + timedelta(seconds=181), nodes=frozen)
    assert loads_of(later)[CPU] == Unknown(UnknownReason.STALE, "the newest sample is 181s old")


def test_a_node_that_has_just_joined_is_unknown_whatever_was_under_its_name(times):
    joined = NOW - timedelta(seconds=120)
    cluster = ClusterState((node("node-1", created_at=joined),), ())
    load = times.read_for(300, cluster=cluster)
    assert loads_of(load)[CPU] == Unknown(
        UnknownReason.WINDOW_NOT_COVERED, "the node joined 120s ago, within the last 5m"
    )


def test_a_gap_in_the_samples_leaves_a_window_uncovered(times):
    times.read_for(300, until=NOW - timedelta(seconds=200))
    load = times.read(NOW)
    assert loads_of(load)[CPU].reason is UnknownReason.WINDOW_NOT_COVERED


def test_samples_of_a_slow_metrics_server_cover_as_well(times):
    for back in range(360, -1, -15):
        at = NOW - timedelta(seconds=back)
        measured = at - timedelta(seconds=at.second)  # once a minute
        load = times.read(at, nodes=[node_metrics(measured, window="1m0.02s")])
    assert isinstance(loads_of(load)[CPU], Measured)


def test_the_cpu_of_a_young_pod_is_a_mean_over_the_whole_window(times):
    young = pod("web-1", "node-1", started_at=NOW - timedelta(seconds=150))
    load = times.read_for(300, cluster=ClusterState((node("node-1"),), (young,)))
    assert load.pods["apps", "web-1"].cpu_millicores == pytest.approx((250.0,))
    assert load.pods["apps", "web-1"].memory_bytes == pytest.approx((1.0 * GIB,))


def test_all_containers_of_a_pod_count_and_a_pod_without_any_was_not_measured(times):
    for back in range(300, -1, -15):
        at = NOW - timedelta(seconds=back)
        both = pod_metrics(at, ("100m", "1Mi"), ("250000000n", "1024Ki"))
        load = times.read(at, pods=[both, pod_metrics(at, name="web-2")])
    assert load.pods["apps", "web-1"].cpu_millicores == pytest.approx((350.0,))
    assert load.pods["apps", "web-1"].memory_bytes == pytest.approx((2.0 * 2**20,))
    assert ("apps", "web-2") not in load.pods


def test_destinations_are_judged_by_their_own_windows(times):
    further = (DestinationWindow(600, 1.0), DestinationWindow(3600, 1.0))
    by = policy(rule(destination_windows=further))
    times.read_for(300, until=NOW - timedelta(seconds=300), by=by)
    for back in range(300, -1, -15):
        at = NOW - timedelta(seconds=back)
        load = times.read(at, by=by, nodes=[node_metrics(at, cpu="1")])
    known, unknown = load.destination_ratios["node-1"][CPU]
    assert known == pytest.approx(0.5, abs=0.02)
    assert unknown is None


def test_samples_are_forgotten_when_no_window_needs_them(times):
    times.read_for(300)
    much_later = NOW + timedelta(hours=1)
    load = times.read(much_later, nodes=[])
    assert loads_of(load)[CPU].reason is UnknownReason.ABSENT


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(404, b"404 page not found\n"), "kubectl get apiservice v1beta1.metrics.k8s.io"),
        (status(503, "no endpoints"), "or set metrics.type to prometheus (status 503)."),
        (status(403, "no"), "the account may not list nodes in group metrics.k8s.io (403)"),
        (Reply(body={"items": [{"metadata": {"name": "node-1"}}]}), "node-1"),
        (Reply(body={"items": [node_metrics(NOW, cpu="a")]}), "not a quantity"),
        (Reply(body={"items": [node_metrics(NOW, cpu="-1")]}), "is impossible"),
        (Reply(body={"items": [node_metrics(NOW, window="soon")]}), "not a duration"),
    ],
)
def test_what_cannot_be_read_ends_the_cycle_with_a_reason(server, times, reply, text):
    server.answer = lambda request: reply if request.path == NODES else None
    with pytest.raises(ObservationError) as caught:
        times.read(NOW)
    assert text in str(caught.value)


class Pauses:
    """Ends a thread after some pauses; each is a quarter of a minute of the server's clock."""

    def __init__(self, server, count):
        self.server, self.left, self.over = server, count, Event()
        self.before = lambda: None
        self.at = NOW - timedelta(seconds=15 * count)
        self.move(0)

    def move(self, seconds):
        self.at += timedelta(seconds=seconds)
        self.server.date = format_datetime(self.at, usegmt=True)
        self.server.lists[NODES] = [node_metrics(self.at)]
        self.server.lists[PODS] = [pod_metrics(self.at, ("500m", "1Gi"))]

    def __call__(self, seconds):
        self.before()
        if not self.left:
            self.over.set()
            return True
        self.left -= 1
        self.move(seconds)
        return False


def test_a_service_samples_between_its_cycles(server):
    pauses = Pauses(server, 24)
    reader = SampledLoadReader(
        connection_to(server), pauses, deadline_seconds=30.0, keeps_sampling=True
    )
    assert isinstance(loads_of(reader.read_load(CLUSTER, POLICY))[CPU], Unknown)
    assert pauses.over.wait(PATIENCE_SECONDS)
    load = reader.read_load(CLUSTER, POLICY)
    assert isinstance(loads_of(load)[CPU], Measured)
    assert load.pods["apps", "web-1"].cpu_millicores == pytest.approx((500.0,))


def test_a_service_logs_once_that_it_cannot_sample(server):
    pauses = Pauses(server, 6)
    reader = SampledLoadReader(
        connection_to(server), pauses, deadline_seconds=30.0, keeps_sampling=True
    )
    with structlog.testing.capture_logs() as logs:
        pauses.before = lambda: setattr(server, "answer", lambda _: status(403, "no"))
        reader.read_load(CLUSTER, POLICY)
        assert pauses.over.wait(PATIENCE_SECONDS)
    assert [entry["event"] for entry in logs].count("load.not_sampled") == 1


def test_samples_are_taken_for_as_long_as_a_window_needs(server):
    reader = SampledLoadReader(connection_to(server), Pauses(server, 20), deadline_seconds=30.0)
    shares: list[float] = []
    reader.collect(POLICY, 300, shares.append)
    load = reader.read_load(CLUSTER, POLICY)
    assert isinstance(loads_of(load)[CPU], Measured)
    assert load.pods["apps", "web-1"].cpu_millicores == pytest.approx((500.0,))
    assert shares == [pytest.approx(step / 20) for step in range(20)]


def test_a_sample_that_fails_between_is_a_gap(server):
    pauses = Pauses(server, 20)
    reader = SampledLoadReader(connection_to(server), pauses, deadline_seconds=30.0)

    def fail_once():
        failing = pauses.left == 10
        server.answer = lambda _: status(403, "no") if failing else None

    pauses.before = fail_once
    with structlog.testing.capture_logs() as logs:
        reader.collect(POLICY, 300, lambda _: None)
    assert [entry["event"] for entry in logs] == ["load.not_sampled"]
    assert isinstance(loads_of(reader.read_load(CLUSTER, POLICY))[CPU], Measured)


def test_samples_end_when_desched_stops(server):
    reader = SampledLoadReader(connection_to(server), Pauses(server, 3), deadline_seconds=30.0)
    with pytest.raises(ObservationError, match="desched is stopping"):
        reader.collect(POLICY, 300, lambda _: None)


def test_a_policy_without_memory_asks_for_none(times):
    load = times.read(NOW, by=msgspec.structs.replace(POLICY, rules=(rule(),)))
    assert loads_of(load).keys() == {CPU}


def test_the_next_process_continues_with_the_samples_that_were_kept(server, times):
    times.read_for(300, until=NOW - timedelta(seconds=30))
    after = Times(server)
    after.reader.recall(times.reader.kept())
    load = after.read(NOW)
    assert loads_of(load)[CPU].levels[0].ratio == pytest.approx(0.5)
    assert load.pods["apps", "web-1"].cpu_millicores == pytest.approx((500.0,))


@pytest.mark.parametrize("text", ["", "damaged"])
def test_without_kept_samples_windows_fill_again(server, text):
    after = Times(server)
    after.reader.recall(text)
    assert loads_of(after.read(NOW))[CPU].reason is UnknownReason.WINDOW_NOT_COVERED
