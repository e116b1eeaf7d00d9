"""Volcano's metrics of nodes, as prometheus-adapter answers."""

from datetime import timedelta
from email.utils import format_datetime

import pytest

from desched.adapters.kubernetes.client.connection import LONGEST_BODY_BYTES
from desched.adapters.metrics_apis.kept_samples import decode_samples
from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.errors import ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import UnknownReason
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, MetricsType
from tests.builders import NOW, node, pod, policy, rule
from tests.unit.adapters.kubernetes.fake_api_server import Reply, connection_to, status
from tests.unit.adapters.metrics_apis.test_reader import PODS, pod_metrics

GROUP = "/apis/custom.metrics.k8s.io"
CPU, MEMORY = Resource.CPU, Resource.MEMORY
CLUSTER = ClusterState((node("node-1"), node("node-2")), (pod("web-1", "node-1"),))
RULES = (rule(windows_seconds=(900,)), rule(MEMORY, windows_seconds=(900,)))


def source(averaged_seconds=600):
    return MetricsSource("", type=MetricsType.PROMETHEUS_ADAPTOR, averaged_seconds=averaged_seconds)


def group(*versions):
    found = [{"groupVersion": f"custom.metrics.k8s.io/{v}", "version": v} for v in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "custom.metrics.k8s.io",
        "versions": found,
        "preferredVersion": found[0],
    }


def value(at, metric, name, text, version="v1beta1", window=None):
    """One item of a MetricValueList, with the fields of its version."""
    item = {
        "describedObject": {"kind": "Node", "name": name, "apiVersion": "/v1"},
        "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "value": text,
    }
    if version == "v1beta1":
        named = {"metricName": metric, "selector": None}
        return item | named | ({"window": window} if window is not None else {})
    named = {"metric": {"name": metric, "selector": None}}
    return item | named | ({"windowSeconds": window} if window is not None else {})


class Adapter:
    """Answers for two nodes; a test changes what it has."""

    def __init__(self, server, averaged_seconds=600):
        self.server = server
        self.versions = ["v1beta1"]
        self.cpu = {"node-1": "532m", "node-2": "100m"}
        self.memory = {"node-1": "700m", "node-2": "0"}
        self.window = None
        self.late = timedelta()
        self.instead = None
        self.asked = []
        self.at = NOW
        server.answer = self.answer
        self.by = policy(*RULES, metrics=source(averaged_seconds))
        self.reader = SampledLoadReader(
            connection_to(server),
            lambda _: False,
            deadline_seconds=30.0,
            metrics=source(averaged_seconds),
        )

    def answer(self, request):
        path = request.path
        if not path.startswith(GROUP):
            return None
        self.asked.append(path)
        if path == GROUP:
            if not self.versions:
                return status(404, "not found")
            return Reply(body=group(*self.versions))
        if self.instead is not None:
            return self.instead
        version, _, _, metric = path.removeprefix(f"{GROUP}/").split("/")
        assert version in self.versions
        values = self.cpu if metric == "node_cpu_usage_avg" else self.memory
        items = [
            value(self.at - self.late, metric, name, text, version, self.window)
            for name, text in values.items()
        ]
        head = {"kind": "MetricValueList", "apiVersion": f"custom.metrics.k8s.io/{version}"}
        return Reply(body={**head, "metadata": {}, "items": items})

    def read(self, at=NOW):
        self.at = at
        self.server.date = format_datetime(at, usegmt=True)
        self.server.lists[PODS] = [pod_metrics(at, ("500m", "1Gi"))]
        return self.reader.read_load(CLUSTER, self.by)

    def read_for(self, seconds, *, until=NOW):
        for back in range(seconds, -1, -15):
            load = self.read(until - timedelta(seconds=back))
        return load


@pytest.fixture
def adapter(server):
    return Adapter(server)


def ratios(load, name="node-1"):
    return {each: load.nodes[name][each].levels[0].ratio for each in (CPU, MEMORY)}


@pytest.mark.parametrize(
    ("versions", "asked"),
    [
        (["v1beta1"], "v1beta1"),
        (["v1beta1", "v1beta2"], "v1beta2"),
        (["v1beta2"], "v1beta2"),
    ],
)
def test_the_newest_version_that_is_served_is_asked_once(adapter, versions, asked):
    adapter.versions = versions
    adapter.read()
    adapter.read(NOW + timedelta(seconds=15))
    of_nodes = [f"{GROUP}/{asked}/nodes/*/node_{of}_usage_avg" for of in ("cpu", "memory")]
    assert adapter.asked == [GROUP, *of_nodes, *of_nodes]


def test_shares_of_capacity_over_the_window_are_the_load(adapter):
    load = adapter.read_for(300)
    assert ratios(load) == {CPU: pytest.approx(0.532), MEMORY: pytest.approx(0.7)}
    assert ratios(load, "node-2") == {CPU: pytest.approx(0.1), MEMORY: 0.0}
    assert load.server_times == (NOW, NOW)


def test_values_that_are_means_already_count_as_a_part_of_the_window(adapter):
    """A mean over 10m is as old as its window, so the last 5m of values tell about 15m."""
    adapter.read_for(600, until=NOW - timedelta(seconds=315))
    adapter.cpu["node-1"] = "900m"
    assert ratios(adapter.read_for(300))[CPU] == pytest.approx(0.9)


def test_without_a_range_all_values_of_the_window_count(server):
    adapter = Adapter(server, averaged_seconds=0)
    adapter.read_for(600, until=NOW - timedelta(seconds=315))
    adapter.cpu["node-1"] = "832m"
    assert ratios(adapter.read_for(300))[CPU] == pytest.approx(0.532 + 0.3 * 315 / 900)


def test_one_look_knows_no_window_and_shows_the_newest_values(adapter):
    load = adapter.read()
    found = load.nodes["node-1"][CPU]
    assert found.reason is UnknownReason.WINDOW_NOT_COVERED
    assert found.detail == (
        "desched's own samples cover 5% of the last 5m, and the custom metrics API has no history"
    )
    assert [level.ratio for level in load.seen["node-1"][CPU].levels] == [pytest.approx(0.532)]


def test_a_node_that_lacks_one_of_the_metrics_is_unknown(adapter):
    del adapter.memory["node-2"]
    load = adapter.read_for(300)
    assert load.nodes["node-2"][CPU].reason is UnknownReason.ABSENT
    assert load.nodes["node-2"][CPU].detail == (
        "the custom metrics API has no metrics of this node"
    )
    assert ratios(load)[CPU] == pytest.approx(0.532)


@pytest.mark.parametrize("text", ["53", "1100m", "-20m"])
def test_a_value_that_is_no_share_is_no_load(adapter, text):
    adapter.cpu["node-1"] = text
    load = adapter.read_for(300)
    assert load.nodes["node-1"][CPU].reason is UnknownReason.IMPLAUSIBLE
    assert load.nodes["node-1"][MEMORY].levels[0].ratio == pytest.approx(0.7)


def test_an_old_value_is_stale_and_one_of_the_future_implausible(adapter):
    adapter.read_for(300)
    adapter.late = timedelta(seconds=200)
    stale = adapter.read(NOW + timedelta(seconds=400))
    assert stale.nodes["node-1"][CPU].reason is UnknownReason.STALE
    adapter.late = timedelta(seconds=-90)
    ahead = adapter.read(NOW + timedelta(seconds=415))
    assert ahead.nodes["node-1"][CPU].reason is UnknownReason.IMPLAUSIBLE


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_an_answer_that_names_a_longer_range_than_the_policy_is_refused(adapter, version):
    adapter.versions, adapter.window = [version], 600
    adapter.read()
    adapter.window = 1200
    with pytest.raises(ObservationError, match=r'metrics\.averagedOver is "10m"; set it to "20m"'):
        adapter.read()


@pytest.mark.parametrize(
    ("instead", "text"),
    [
        (status(404, "no metric"), "has no node_cpu_usage_avg of nodes; check the rules"),
        (status(503, "no endpoints"), "The custom metrics API does not answer; check the adapter"),
        (status(403, "no"), "the account may not get nodes/node_cpu_usage_avg in group custom"),
        (status(500, "unable to fetch metrics"), "unable to fetch metrics"),
        (Reply(body={"items": [value(NOW, "m", "node-1", "NaN")]}), "not a quantity"),
        (Reply(body={"items": [{"value": "1"}]}), "describedObject"),
        (
            Reply(body={"items": [{**value(NOW, "m", "x", "1"), "describedObject": {
                "kind": "Pod", "name": "x"}}]}),
            "it describes a Pod, not a Node",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_ends_the_cycle_with_a_reason(adapter, instead, text):
    adapter.instead = instead
    with pytest.raises(ObservationError) as caught:
        adapter.read()
    assert text in str(caught.value)


def test_of_nodes_that_do_not_exist_nothing_is_kept(adapter):
    """Whoever writes series could let an adapter report thousands of new names each time."""
    for second in range(0, 60, 15):
        adapter.cpu |= {f"none-{second}-{i}": "1" for i in range(100)}
        adapter.memory |= {f"none-{second}-{i}": "1" for i in range(100)}
        adapter.read(NOW + timedelta(seconds=second))
    kept = decode_samples(adapter.by.metrics.type, adapter.reader.kept())
    assert kept is not None
    assert set(kept.nodes) == {"node-1", "node-2"}


def test_a_server_without_the_api_is_an_error_until_it_has_it(adapter):
    adapter.versions = []
    with pytest.raises(ObservationError, match=r"does not serve custom\.metrics\.k8s\.io"):
        adapter.read()
    adapter.versions = ["v1beta1"]
    adapter.read()


def test_after_an_error_the_version_is_asked_for_again(adapter):
    adapter.read()
    adapter.instead = status(404, "not found")
    with pytest.raises(ObservationError):
        adapter.read()
    adapter.instead, adapter.versions = None, ["v1beta2"]
    adapter.read()
    assert adapter.asked[-1].startswith(f"{GROUP}/v1beta2/")


def test_the_next_process_continues_with_shares_but_not_one_of_another_source(server, adapter):
    adapter.read_for(300, until=NOW - timedelta(seconds=30))
    after = Adapter(server)
    after.reader.recall(adapter.reader.kept())
    assert ratios(after.read())[CPU] == pytest.approx(0.532)
    other = SampledLoadReader(connection_to(server), lambda _: False, deadline_seconds=30.0)
    other.recall(adapter.reader.kept())
    assert (
        other.kept()
        == SampledLoadReader(connection_to(server), lambda _: False, deadline_seconds=30.0).kept()
    )


def test_an_answer_without_end_is_not_taken_in(adapter):
    adapter.instead = Reply(body=b" " * (LONGEST_BODY_BYTES + 1))
    with pytest.raises(ObservationError, match=r"custom\.metrics\.k8s\.io has no pages"):
        adapter.read()
