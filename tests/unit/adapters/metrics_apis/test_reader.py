from datetime import timedelta
from email.utils import format_datetime
from threading import Event

import msgspec
import pytest
import structlog

from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.errors import ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import Measured, PodUsage, Unknown, UnknownReason
from desched.model.resources import Resource
from desched.policy.policy import DestinationWindow
from tests.builders import GIB, NOW, node, pod, policy, rule
from tests.unit.adapters.kubernetes.fake_api_server import Reply, connection_to, status

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/pods"
PATIENCE_SECONDS = 60.0
CPU, MEMORY = Resource.CPU, Resource.MEMORY
CLUSTER = ClusterState((node("node-1"),), (pod("web-1", "node-1"),))
POLICY = policy(rule(), rule(MEMORY), sustained_seconds=600)


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

    def read(self, at, *, cluster=CLUSTER, by=POLICY, nodes=None, pods=None):
        self.server.date = format_datetime(at, usegmt=True)
        self.server.lists[NODES] = [node_metrics(at)] if nodes is None else nodes
        self.server.lists[PODS] = [pod_metrics(at, ("500m", "1Gi"))] if pods is None else pods
        return self.reader.read_load(cluster, by)

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


def test_history_shows_how_long_a_load_lasts_and_where_it_begins(times):
    load = times.read_for(900)
    assert load.history["node-1"][CPU].step_seconds == 60
    assert load.history["node-1"][CPU].ratios == pytest.approx((0.5,) * 11)
    assert times_of_unknown(times, 600) == 4


def times_of_unknown(times, seconds):
    """How many points of the history are unknown if samples exist for so long."""
    load = Times(times.server).read_for(seconds)
    return load.history["node-1"][CPU].ratios.count(None)


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
