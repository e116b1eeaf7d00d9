import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from desched.adapters.prometheus.nodes import Match, NodeIndex, Way
from desched.model.cluster import HostPort, Pod, SchedulingClass
from desched.model.resources import Amounts
from tests.unit.adapters.prometheus.worlds import cluster, node, pod

WORLD = cluster(
    node("n-a", "10.0.0.1", "n-a.internal"),
    node("n-b", "10.0.0.2", "fd00::2", labels={"kubernetes.io/hostname": "host-b"}),
    node("10.0.0.3", "10.0.0.3"),
    pods=(pod("mon", "ne-b", "n-b"), pod("mon", "pending"), pod("mon", "lost", "n-gone")),
)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"node": "n-a", "instance": "10.0.0.2:9100"}, "n-a"),
        ({"instance": "n-b", "namespace": "mon", "pod": "ne-x"}, "n-b"),
        ({"instance": "10.0.0.3"}, "10.0.0.3"),
        ({"instance": "10.0.0.1:9100", "namespace": "mon", "pod": "ne-b"}, "n-b"),
        ({"nodename": "n-a.internal", "instance": "10.0.0.2:9100"}, "n-a"),
        ({"hostname": "host-b"}, "n-b"),
        ({"Hostname": "n-a"}, "n-a"),
        ({"instance": "10.0.0.1:9100"}, "n-a"),
        ({"instance": "[fd00::2]:9100"}, "n-b"),
        ({"instance": "n-a:9100"}, "n-a"),
        ({"instance": "10.0.0.1:9100", "namespace": "mon", "pod": "pending"}, "n-a"),
    ],
)
def test_a_series_belongs_to_the_node_that_its_labels_name(
    labels: dict[str, str], expected: str
) -> None:
    assert NodeIndex(WORLD).resolve(labels) == expected


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"instance": "10.9.9.9:9100"},
        {"instance": "[broken:9100"},
        {"namespace": "mon", "pod": "lost"},
        {"node": "", "instance": "", "namespace": "", "pod": ""},
        {"node": "n-a", "namespace": "mon", "pod": "ne-b"},
        {"instance": "n-a", "namespace": "mon", "pod": "ne-b"},
    ],
)
def test_a_series_that_names_no_node_belongs_to_none(labels: dict[str, str]) -> None:
    assert NodeIndex(WORLD).resolve(labels) is None


@pytest.mark.parametrize(
    ("labels", "way"),
    [
        ({"node": "n-a", "instance": "10.0.0.2:9100"}, Way.NODE_LABEL),
        ({"instance": "n-a", "namespace": "mon", "pod": "ne-x"}, Way.INSTANCE),
        ({"nodename": "n-a.internal", "instance": "10.0.0.2:9100"}, Way.HOST_NAME),
        ({"instance": "10.0.0.1:9100"}, Way.ADDRESS),
    ],
)
def test_what_led_to_the_node_is_known(labels: dict[str, str], way: Way) -> None:
    assert NodeIndex(WORLD).match(labels) == Match("n-a", way)


def test_the_pod_of_an_exporter_leads_to_its_node() -> None:
    labels = {"instance": "10.0.0.1:9100", "namespace": "mon", "pod": "ne-b"}
    assert NodeIndex(WORLD).match(labels) == Match("n-b", Way.EXPORTER)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({}, "it has neither a label node nor instance"),
        ({"node": "foreign", "instance": "10.0.0.1"}, 'its label node="foreign" names no node'),
        ({"instance": "10.9.9.9:9100"}, 'instance="10.9.9.9:9100" is no name or address of a node'),
        (
            {"instance": "10.9.9.9:9100", "namespace": "mon", "pod": "gone"},
            "and its exporter's pod mon/gone is not known",
        ),
        (
            {"node": "n-a", "namespace": "mon", "pod": "ne-b"},
            "its exporter's pod mon/ne-b runs on n-b, its labels name another",
        ),
    ],
)
def test_why_a_series_belongs_to_no_node_names_the_labels(labels: dict[str, str], why: str) -> None:
    index = NodeIndex(WORLD)
    assert index.match(labels) is None
    assert why in index.why_unmatched(labels)


def test_a_node_label_of_another_cluster_is_not_overruled_by_an_address() -> None:
    assert NodeIndex(WORLD).resolve({"node": "foreign", "instance": "10.0.0.1:9100"}) is None


def test_an_address_that_two_nodes_claim_belongs_to_neither() -> None:
    index = NodeIndex(cluster(node("a", "10.0.0.1"), node("b", "10.0.0.1")))

    assert index.resolve({"instance": "10.0.0.1:9100"}) is None


def test_a_reported_name_comes_before_the_address() -> None:
    index = NodeIndex(WORLD)
    series = {"instance": "10.0.0.1:9100"}
    assert index.would_need_names(series)

    index.learn_names([{**series, "nodename": "host-b"}])

    assert index.resolve(series) == "n-b"
    assert not index.would_need_names(series)


def test_an_instance_that_reports_two_names_has_none() -> None:
    index = NodeIndex(WORLD)
    index.learn_names([{"instance": "x:1", "nodename": name} for name in ("n-a", "n-b", "n-a")])

    assert index.resolve({"instance": "x:1"}) is None


def test_only_a_named_and_unknown_exporter_is_gone() -> None:
    index = NodeIndex(WORLD)

    assert index.exporter_is_gone({"namespace": "mon", "pod": "old"})
    assert not index.exporter_is_gone({"namespace": "mon", "pod": "ne-b"})
    assert not index.exporter_is_gone({"namespace": "mon"})
    assert not index.exporter_is_gone({})


WORDS = st.sampled_from(
    ["", "n-a", "n-b", "10.0.0.1", "10.0.0.1:9100", "10.0.0.2:9100", "host-b", "mon", "ne-b", "?"]
)
LABELS = st.dictionaries(
    st.sampled_from(["node", "instance", "namespace", "pod", "nodename", "hostname"]), WORDS
)


@given(LABELS)
def test_a_series_never_belongs_to_a_node_that_does_not_exist(labels: dict[str, str]) -> None:
    assert NodeIndex(WORLD).resolve(labels) in {None, *WORLD.node_by_name}


@given(LABELS, st.sampled_from(["n-a", "n-b"]))
def test_a_node_label_that_names_a_node_decides_unless_the_exporter_runs_on_another(
    labels: dict[str, str], name: str
) -> None:
    exporter = (labels.get("namespace", ""), labels.get("pod", ""))
    runs_on = {(pod.namespace, pod.name): pod.node for pod in WORLD.pods}.get(exporter)
    elsewhere = runs_on in WORLD.node_by_name and runs_on != name
    assert NodeIndex(WORLD).resolve({**labels, "node": name}) == (None if elsewhere else name)


@given(LABELS, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_pods_does_not_matter(
    labels: dict[str, str], chance: random.Random
) -> None:
    nodes, pods = list(WORLD.nodes), list(WORLD.pods)
    chance.shuffle(nodes)
    chance.shuffle(pods)
    shuffled = NodeIndex(cluster(*nodes, pods=tuple(pods)))

    assert shuffled.resolve(labels) == NodeIndex(WORLD).resolve(labels)


@given(LABELS)
def test_labels_without_a_value_say_nothing(labels: dict[str, str]) -> None:
    said = {name: value for name, value in labels.items() if value}

    assert NodeIndex(WORLD).resolve(labels) == NodeIndex(WORLD).resolve(said)


EXPORTER = {"job": "kubernetes-service-endpoints", "namespace": "monitoring"}


def _host_pod(namespace: str, port: int) -> Pod:
    scheduling = SchedulingClass(Amounts(), host_ports=(HostPort(port),))
    return replace(pod(namespace, "exporter", on="n-a"), scheduling=scheduling)


@pytest.mark.parametrize(
    ("labels", "believed"),
    [
        ({"instance": "10.0.0.1:9100"}, True),
        ({"instance": "10.0.0.1:9100", "node": "n-a"}, True),
        ({"instance": "n-a", "node": "n-a"}, True),  # relabelled
        ({"instance": "10.9.9.9:9100", "node": "n-a"}, False),  # a pod of its own address
        ({"instance": "10.0.0.1:8080", "node": "n-a"}, False),  # another port of the node
        ({"instance": "10.0.0.1:9100", "namespace": "evil"}, False),
        ({"instance": "10.0.0.1:9100", "node": "n-b"}, False),
    ],
)
def test_of_a_job_for_all_services_only_a_port_of_the_node_itself_is_believed(
    labels: dict[str, str],
    believed: bool,  # noqa: FBT001  (a parameter of the cases)
) -> None:
    world = cluster(*WORLD.nodes, pods=(_host_pod("monitoring", 9100),))
    labels = EXPORTER | labels

    assert (NodeIndex(world).resolve(labels) is not None) is believed
    assert NodeIndex(WORLD).resolve(labels) is None  # without any exporter
    assert NodeIndex(WORLD, named=True).resolve(labels) is not None
    if not believed:
        assert "name your exporters in metrics.sources" in NodeIndex(world).why_unmatched(labels)
