"""What is made of the recordings of a small cluster: two hours in steps of five minutes."""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.queries import (
    CADVISOR_SCOPE,
    EXPORTER_SCOPE,
    NODE_SOURCES,
    exporter_names,
)
from desched.errors import ObservationError
from desched.lab.prometheus.objects import HIGHEST_PRIORITY, Stretch
from desched.lab.prometheus.queries import KUBE_STATE_SCOPE, cluster_created
from desched.lab.prometheus.reader import HowToRead, PastReader
from desched.lab.recorded_past import Caveat, Past, PastPod
from desched.model.cluster import Effect, Taint, Toleration
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource, Policy, PriorityThreshold, Protections
from tests.builders import policy, rule, selector
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.lab.prometheus.recording import Recording, between
from tests.unit.lab.prometheus.small_cluster import (
    BEGIN,
    END,
    GIB,
    NODE_CPU,
    NOW,
    OLD,
    POD_CPU,
    ROOT_CPU,
    STATE,
    STEP,
    STEPS,
    SmallCluster,
    at,
    time,
)


@pytest.fixture
def nodes(cluster: SmallCluster) -> SmallCluster:
    """For tests of nodes: a pod is there, too."""
    cluster.add_pod("web-1-x")
    return cluster


@pytest.fixture
def cluster(fake: FakePrometheus) -> SmallCluster:
    return SmallCluster(fake)


def a_policy(**changes: Any) -> Policy:
    return policy(rule(), **changes)


def read(cluster: Recording, *policies: Policy, **how: Any) -> Past:
    connection = PrometheusConnection(url=cluster.fake.url)
    reader = PastReader(connection, lambda _: False, HowToRead(NOW, **how))
    return reader.read(policies or (a_policy(),), Stretch(BEGIN, END, STEP))


def pods(past: Past) -> dict[str, PastPod]:
    return {each.pod.name: each for each in past.pods}


def usage(past: Past, name: str) -> list[float]:
    """Cores in each step of the pod."""
    pod = pods(past)[name]
    own = slice(pod.first_row, pod.first_row + pod.levels + 1)
    levels = np.diff(past.usage.before[own, 0]) / STEP / 1000
    known = np.diff(past.usage.missing[own]) == 0
    return [x if k else math.nan for x, k in zip(levels.tolist(), known, strict=True)]


def caveats(past: Past) -> dict[Caveat, str]:
    return {doubt.caveat: doubt.detail for doubt in past.doubts}


def refusal(cluster: Recording, *policies: Policy) -> str:
    with pytest.raises(ObservationError) as raised:
        read(cluster, *policies)
    return str(raised.value)


def test_a_pod_has_its_node_its_requests_its_workload_and_its_age(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x")
    found = pods(read(cluster))["web-1-x"]
    assert (found.pod.namespace, found.pod.uid, found.pod.node) == ("shop", "u-web-1-x", "a")
    requests = found.pod.scheduling.requests
    assert (requests.cpu_millicores, requests.memory_bytes, requests.pods) == (250, GIB, 1)
    assert requests.extended == (("nvidia_com_gpu", 1),)
    assert found.pod.scheduling.scored_cpu_millicores == 250
    assert str(found.workload) == "Deployment shop/web"
    assert found.pod.created_at == datetime.fromtimestamp(OLD, UTC)
    assert found.ended is None
    assert (found.first_step, found.levels) == (0, STEPS)


def test_pods_begin_and_end_with_the_steps_in_which_they_were_seen(cluster: SmallCluster) -> None:
    cluster.add_pod("whole")
    cluster.add_pod("late", seen=(at(6.5), END))
    cluster.add_pod("early", seen=(OLD, at(9.2)))
    cluster.add_pod("short", seen=(at(14.1), at(14.6)))
    cluster.add_pod("before", seen=(OLD, at(-2)))
    found = pods(read(cluster))
    spans = {name: (each.first_step, each.first_step + each.levels) for name, each in found.items()}
    assert spans == {"whole": (0, 24), "late": (6, 24), "early": (0, 10), "short": (14, 15)}
    assert abs(found["late"].began - time(6.5)) <= timedelta(seconds=60)
    assert found["late"].pod.started_at == found["late"].began
    ended = found["early"].ended
    assert ended is not None
    assert abs(ended - time(9.2)) <= timedelta(seconds=60)


def test_a_pod_that_was_seen_until_kube_state_metrics_went_away_has_not_ended(
    cluster: SmallCluster,
) -> None:
    for name in ("one", "two"):
        cluster.add_pod(name, seen=(OLD, at(20)))
    assert [each.ended for each in read(cluster).pods] == [None, None]


def test_a_pod_that_has_finished_ends_although_it_still_exists(cluster: SmallCluster) -> None:
    cluster.add_pod("job")
    of_pod = {"namespace": "shop", "pod": "job", "uid": "u-job"}
    cluster.add(STATE.pods_finished(), between(OLD, END * 2, at(4)), **of_pod)
    assert pods(read(cluster))["job"].ended == time(4)


def test_usage_is_that_of_each_step(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x", cores=lambda now: 2.0 if now > at(12) else 1.0)
    assert usage(read(cluster), "web-1-x") == pytest.approx([1.0] * 12 + [2.0] * 12)


def test_usage_that_is_missing_or_no_number_is_unknown(cluster: SmallCluster) -> None:
    values = {3.0: None, 4.0: math.nan, 5.0: math.inf, 6.0: -1.0}
    cluster.add_pod("web-1-x", cores=lambda now: values.get((now - BEGIN) / STEP, 1.0))
    found = usage(read(cluster), "web-1-x")
    expected = [math.nan if step + 1 in values else 1.0 for step in range(STEPS)]
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("other", "expected"), [(0.9, 1.0), (1.1, 1.1), (0.7, math.nan)])
def test_where_series_of_a_pod_disagree_its_usage_is_unknown(
    cluster: SmallCluster, other: float, expected: float
) -> None:
    cluster.add_pod("web-1-x")
    of_pod = {"namespace": "shop", "pod": "web-1-x", "node": "a"}
    cluster.add(POD_CPU, between(at(2), at(4), other), **of_pod, instance="other")
    cluster.add(POD_CPU, between(at(2), at(4), 1.0), **of_pod, job="third")
    found = usage(read(cluster), "web-1-x")
    assert found == pytest.approx([1.0] * 2 + [expected] * 2 + [1.0] * (STEPS - 4), nan_ok=True)


def test_only_series_of_the_node_that_a_pod_was_on_count(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x")
    cluster.add(POD_CPU, 9.0, namespace="shop", pod="web-1-x", node="b")
    cluster.add(POD_CPU, 9.0, namespace="shop", pod="stranger", node="a")
    assert usage(read(cluster), "web-1-x") == pytest.approx([1.0] * STEPS)


def test_pods_of_one_name_have_their_own_usage(cluster: SmallCluster) -> None:
    """As those of a StatefulSet, one after the other."""
    for uid, node, span in (("u1", "a", (OLD, at(9.5))), ("u2", "b", (at(10.5), END))):
        cluster.add_pod("db-0", node, seen=span, uid=uid, cores=2.0 if node == "a" else 3.0)
    past = read(cluster)
    first, second = past.pods
    assert (first.pod.uid, first.pod.node, first.levels) == ("u1", "a", 10)
    assert (second.pod.uid, second.pod.node, second.first_step) == ("u2", "b", 10)
    rows = past.usage.before[second.first_row : second.first_row + second.levels + 1, 0]
    assert (np.diff(rows)[1:] / STEP / 1000).tolist() == pytest.approx([3.0] * 13)


def test_the_load_of_nodes_is_a_share_of_their_capacity(nodes: SmallCluster) -> None:
    nodes.add_node("c", load=lambda now: 0.9 if now > at(20) else None)
    past = read(nodes)
    assert [each.node.name for each in past.nodes] == ["a", "b", "c"]
    ratios = past.node_ratios[Resource.CPU]
    assert ratios[0] == pytest.approx([0.5] * STEPS)
    assert ratios[2] == pytest.approx([math.nan] * 20 + [0.9] * 4, nan_ok=True)
    assert set(past.node_ratios) == {Resource.CPU}


def test_contradictory_and_impossible_loads_are_unknown(nodes: SmallCluster) -> None:
    nodes.add(NODE_CPU, between(at(3), at(5), 0.8), instance="a")
    nodes.add(NODE_CPU, between(at(6), at(8), 0.51), instance="a")
    nodes.add_node("c", load=lambda now: 1.5 if now > at(10) else 1.02)
    ratios = read(nodes).node_ratios[Resource.CPU]
    assert np.isnan(ratios[0]).nonzero()[0].tolist() == [3, 4]
    assert ratios[0, 6:8] == pytest.approx([0.51, 0.51])
    assert ratios[2] == pytest.approx([1.0] * 10 + [math.nan] * 14, nan_ok=True)


def test_nodes_are_found_by_the_names_that_exporters_report(nodes: SmallCluster) -> None:
    nodes.series[NODE_CPU] = []
    for name, port in (("a", 1), ("b", 2)):
        nodes.add(NODE_CPU, 0.3, instance=f"192.0.2.9:{port}")
        nodes.add(exporter_names(EXPORTER_SCOPE), instance=f"192.0.2.9:{port}", nodename=name)
    assert read(nodes).node_ratios[Resource.CPU] == pytest.approx(0.3)


def test_without_node_exporter_the_root_cgroup_counts(nodes: SmallCluster) -> None:
    nodes.series[NODE_CPU] = []
    nodes.add(ROOT_CPU.ratio(STEP, CADVISOR_SCOPE), 0.7, node="b")
    assert read(nodes).node_ratios[Resource.CPU][1] == pytest.approx(0.7)


def test_queries_of_the_user_replace_the_built_in_ones(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x")
    cluster.add("my:node:cpu300s", 0.25, node="a")
    cluster.add("my:pod:cpu", 3.0, namespace="shop", pod="web-1-x", node="a")
    queries = {"node_cpu": "my:node:cpu{window}", "pod_cpu": "my:pod:cpu"}
    past = read(cluster, a_policy(metrics=MetricsSource("http://x", queries=queries)))
    assert past.node_ratios[Resource.CPU][0] == pytest.approx(0.25)
    assert usage(past, "web-1-x") == pytest.approx([3.0] * STEPS)


def test_matchers_are_in_every_query(cluster: SmallCluster) -> None:
    matched = a_policy(metrics=MetricsSource("http://x", {"cluster": "eu1"}))
    refusal(cluster, matched)
    assert all('cluster="eu1"' in asked.query for asked in cluster.fake.asked)


def test_a_node_is_ready_cordoned_and_tainted_when_it_was(nodes: SmallCluster) -> None:
    nodes.add_node("c", ready=lambda now: float(now <= at(10)))
    nodes.add(STATE.node_cordoned(), lambda now: float(at(4) < now <= at(6)), node="c")
    taint = {"node": "c", "key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes.add(STATE.node_taints(), between(at(8), END), **taint)
    own = {"node": "c", "key": "desched.io/overloaded", "effect": "PreferNoSchedule"}
    nodes.add(STATE.node_taints(), **own)
    found = read(nodes).nodes[2]
    gpu = (Taint("gpu", Effect.NO_SCHEDULE, "yes"),)
    assert (found.node.ready, found.node.unschedulable, found.node.taints) == (True, False, ())
    assert [(e.at, e.ready, e.unschedulable, e.taints) for e in found.changes] == [
        (time(4), True, True, ()),
        (time(6), True, False, ()),
        (time(8), True, False, gpu),
        (time(10), False, False, gpu),
    ]


def test_nodes_come_and_go(nodes: SmallCluster) -> None:
    nodes.add_node("c", ready=between(at(5), at(9)))
    found = {each.node.name: each for each in read(nodes).nodes}
    assert (found["c"].began, found["c"].ended) == (time(5), time(9))
    assert (found["a"].began, found["a"].ended) == (time(0), None)


def test_a_node_has_the_labels_that_are_shown_and_well_known_or_asked_for(
    nodes: SmallCluster,
) -> None:
    shown = {"label_topology_kubernetes_io_zone": "z1", "label_pool": "web", "label_x": "y"}
    nodes.add(STATE.node_labels(), node="a", **shown)
    by_pool = a_policy(node_selector=selector(pool="web"))
    labels = read(nodes, by_pool).nodes[0].node.labels
    assert labels["topology.kubernetes.io/zone"] == "z1"
    assert (labels["pool"], labels["kubernetes.io/hostname"]) == ("web", "a")
    assert "x" not in labels


def test_pods_tolerate_the_taints_of_nodes_on_which_their_siblings_ran(
    cluster: SmallCluster,
) -> None:
    taint = {"node": "b", "key": "gpu", "value": "", "effect": "NoSchedule"}
    cluster.add(STATE.node_taints(), **taint)
    cluster.add_pod("one", "a")
    cluster.add_pod("two", "b")
    cluster.add_pod("other", "a", created_by_name="db-1")
    past = read(cluster)
    tolerations = {name: each.pod.scheduling.tolerations for name, each in pods(past).items()}
    gpu = (Toleration("gpu", "Equal", "", "NoSchedule"),)
    assert tolerations == {"one": gpu, "two": gpu, "other": ()}
    assert Caveat.TOLERATIONS_GUESSED in caveats(past)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("StatefulSet", "StatefulSet shop/x"),
        ("ReplicaSet", "ReplicaSet shop/x"),
        ("Job", "Job shop/x"),
        ("ReplicationController", "ReplicationController shop/x"),
        ("Node", "None"),
        ("DaemonSet", "None"),
        ("Rollout", "Rollout shop/x"),
        ("Unheard", "None"),
        ("<none>", "None"),
    ],
)
def test_controllers_are_understood_as_in_the_live_cluster(
    cluster: SmallCluster, kind: str, found: str
) -> None:
    cluster.add_pod("p", created_by_kind=kind, created_by_name="x")
    declared = Protections(understood_owner_kinds=("argoproj.io/Rollout",))
    past = read(cluster, a_policy(protections=declared))
    (pod,) = past.pods
    assert str(pod.workload) == found
    assert (pod.pod.owner is None) == (kind == "<none>")
    if pod.pod.owner is not None:
        group = "" if kind in {"Node", "ReplicationController"} else "apps/"
        assert pod.pod.owner.declared_kind == group + kind
    if pod.workload is not None:
        assert pod.workload.survives_disruption == (kind != "Job")
        assert pod.workload.sized == (kind != "Rollout")


def test_priorities_that_are_not_recorded_count_as_protected(cluster: SmallCluster) -> None:
    cluster.add_pod("plain")
    cluster.add_pod("critical", priority_class="system-node-critical")
    cluster.add_pod("high", priority_class="high")
    protected = Protections(priority_threshold=PriorityThreshold(class_name="medium"))
    past = read(cluster, a_policy(protections=protected))
    priorities = {name: each.pod.priority for name, each in pods(past).items()}
    assert (priorities["plain"], priorities["high"]) == (0, HIGHEST_PRIORITY)
    assert priorities["critical"] > 2_000_000_000
    assert past.priority_classes == {"medium": HIGHEST_PRIORITY}
    assert caveats(past)[Caveat.PRIORITIES_UNKNOWN] == "1 pods"
    assert pods(read(cluster))["high"].pod.priority == 0


def test_without_a_priority_that_is_not_recorded_there_is_no_doubt(cluster: SmallCluster) -> None:
    cluster.add_pod("plain")
    protected = Protections(priority_threshold=PriorityThreshold(class_name="medium"))
    assert Caveat.PRIORITIES_UNKNOWN not in caveats(read(cluster, a_policy(protections=protected)))


def test_labels_that_an_exporter_could_not_keep_are_read_under_their_new_names(
    cluster: SmallCluster,
) -> None:
    renamed = {"exported_namespace": "shop", "exported_pod": "web", "exported_node": "b"}
    own = {"namespace": "monitoring", "pod": "ksm-0", "node": "a", "uid": "u1"}
    for query in (STATE.pods_first_seen(), STATE.pods_last_seen()):
        cluster.add(query, END - 1.0, **renamed, **own)
    (pod,) = read(cluster).pods
    assert (pod.pod.namespace, pod.pod.name, pod.pod.node) == ("shop", "web", "b")


def test_what_cannot_be_known_is_said(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x")
    cluster.add_pod("unmeasured", cores=lambda _: None)
    cluster.add_pod("elsewhere", "unknown-node")
    found = caveats(read(cluster))
    assert Caveat.CONSTRAINTS_UNKNOWN in found
    assert found[Caveat.PODS_NOT_MEASURED] == "1 of 2 pods"
    assert found[Caveat.NODES_WITHOUT_SIZE] == "1 pods"
    by_label = a_policy(protections=Protections(labels=selector(app="web")))
    assert Caveat.LABELS_UNKNOWN in caveats(read(cluster, by_label))


def test_without_kube_state_metrics_nothing_is_known(fake: FakePrometheus) -> None:
    assert "needs kube-state-metrics" in refusal(Recording(fake))


def test_without_sizes_of_nodes_nothing_is_known(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x")
    cluster.series[STATE.node_capacity()] = []
    assert "kube_node_status_capacity" in refusal(cluster)


def test_without_any_load_nothing_is_known(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x")
    cluster.series[NODE_CPU] = []
    assert "no cpu load of any node" in refusal(cluster)


def test_several_clusters_need_a_matcher(cluster: SmallCluster) -> None:
    cluster.add_pod("web-1-x")
    cluster.add(NODE_CPU, 0.5, instance="a", cluster="other")
    assert "data of 2 clusters by the label cluster (other, none)" in refusal(cluster)


def test_another_job_of_kube_state_metrics_can_be_named(cluster: SmallCluster) -> None:
    with pytest.raises(ObservationError, match="--kube-state-metrics"):
        read(cluster, kube_state_scope='job="ksm"')
    assert 'job="ksm"' in cluster.fake.asked[-1].query
    assert KUBE_STATE_SCOPE not in cluster.fake.asked[-1].query


def test_policies_may_watch_different_resources(nodes: SmallCluster) -> None:
    memory = NODE_SOURCES[Resource.MEMORY][0].ratio(STEP, EXPORTER_SCOPE)
    nodes.add(memory, 0.4, instance="a")
    both = read(nodes, a_policy(), policy(rule(Resource.MEMORY)))
    assert set(both.node_ratios) == {Resource.CPU, Resource.MEMORY}
    assert both.step_seconds == STEP
    assert replace(both, nodes=()).steps == STEPS


def test_the_answers_of_another_cluster_at_the_same_address_are_not_used(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    created = cluster_created(KUBE_STATE_SCOPE)
    cluster.add_pod("web-1-x")
    cluster.add(created, 1000.0)
    assert list(pods(read(cluster, cache_directory=tmp_path))) == ["web-1-x"]

    known = len(cluster.fake.asked)
    cluster.add_pod("web-2-x")  # as if it was there all the time
    assert list(pods(read(cluster, cache_directory=tmp_path))) == ["web-1-x"]
    again = {asked.query for asked in cluster.fake.asked[known:]}
    assert again & set(cluster.series) == {created}  # and what had no series

    cluster.series[created] = [({}, 2000.0)]
    assert set(pods(read(cluster, cache_directory=tmp_path))) == {"web-1-x", "web-2-x"}


def test_where_the_cluster_is_not_known_nothing_is_kept(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    cluster.add_pod("web-1-x")
    read(cluster, cache_directory=tmp_path)
    assert list(tmp_path.iterdir()) == []
