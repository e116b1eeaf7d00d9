"""Whatever an API server sends, a cycle ends in a report or an error that desched understands."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from desched.adapters.kubernetes.client import api_types
from desched.adapters.kubernetes.client.decoding import Decoder
from desched.adapters.kubernetes.objects import budgets, nodes, storage
from desched.adapters.kubernetes.objects.autoscalers import scaling_of_target
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.adapters.kubernetes.objects.workloads import (
    Controllers,
    owners_by_controller,
    selectors_by_controller,
    workloads_by_controller,
)
from desched.errors import DeschedError, ObservationError
from desched.model.report import CycleReport, CycleResult, Mode
from desched.model.resources import Resource
from desched.model.state import State
from desched.policy.policy import Protections, Steering, SteeringRules
from tests.builders import policy, rule
from tests.properties.hostile_cluster import HostileCluster, documents
from tests.properties.mutations import STEERING_TEXTS, TIMES, json_values, mutated
from tests.properties.outputs import every_output, harmless
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer

DOCUMENTS = documents()
LONGEST_NOTE_BYTES = 1024
POLICIES = (
    policy(),
    policy(
        steering=SteeringRules(Steering.ALWAYS),
        max_landing_risk=0.15,
        protections=Protections(
            understood_owner_kinds=("apps/GameServer",), min_pod_age_seconds=60, min_replicas=2
        ),
    ),
    policy(rule(), rule(Resource.MEMORY), rule(Resource.PODS, target_ratio=0.03), deviation=True),
)


def same(item: Any) -> Any:
    return item


def controllers(**lists: Any) -> Controllers:
    return Controllers(**{field: lists.get(field, []) for field in Controllers._fields})


def understood(field: str) -> Callable[[Any], object]:
    """All that is made of a controller."""

    def build(item: Any) -> object:
        found = controllers(**{field: [item]})
        return (
            workloads_by_controller(found, {}),
            owners_by_controller(found),
            selectors_by_controller(found),
        )

    return build


KINDS: tuple[tuple[str, Any, Callable[[Any], object]], ...] = (
    ("/api/v1/nodes", api_types.Node, nodes.node),
    ("/api/v1/pods", api_types.Pod, PodBuilder().pod),
    ("/apis/apps/v1/deployments", api_types.Deployment, understood("deployments")),
    ("/apis/apps/v1/replicasets", api_types.ReplicaSet, understood("replica_sets")),
    ("/apis/apps/v1/statefulsets", api_types.StatefulSet, understood("stateful_sets")),
    ("/apis/batch/v1/jobs", api_types.Job, understood("jobs")),
    (
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        api_types.HorizontalPodAutoscaler,
        scaling_of_target,
    ),
    (
        "/apis/policy/v1/poddisruptionbudgets",
        api_types.PodDisruptionBudget,
        budgets.budget,
    ),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", api_types.PriorityClass, same),
    ("/api/v1/namespaces", api_types.Namespace, same),
    ("/api/v1/persistentvolumeclaims", api_types.PersistentVolumeClaim, storage.claim),
    ("/api/v1/persistentvolumes", api_types.PersistentVolume, storage.volume),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        api_types.StorageClass,
        storage.storage_class,
    ),
    ("/apis/storage.k8s.io/v1/csinodes", api_types.CSINode, storage.csi_node),
    ("/api/v1/services", api_types.Service, budgets.service),
)
DECODERS = {path: Decoder(kind, build) for path, kind, build in KINDS}


def test_every_list_that_is_served_is_fuzzed() -> None:
    assert set(DECODERS) == set(DOCUMENTS)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(DOCUMENTS)).flatmap(
        lambda path: st.tuples(st.just(path), mutated(DOCUMENTS[path]))
    )
)
def test_any_list_is_decoded_or_an_error_that_names_the_object(found: tuple[str, Any]) -> None:
    path, items = found
    body = msgspec.json.encode({"metadata": {}, "items": items})
    with suppress(ObservationError):
        DECODERS[path].page(body)


@pytest.fixture(scope="module")
def cluster() -> Iterator[HostileCluster]:
    with FakeApiServer() as server:
        yield HostileCluster(server)


def pods_with(**changes: object) -> dict[str, Any]:
    """The cluster with other metadata on each pod."""
    found = documents()
    for pod in found["/api/v1/pods"]:
        pod["metadata"] |= changes
    return found


def test_the_cluster_as_it_is_gives_evictions(cluster: HostileCluster) -> None:
    cluster.holds(documents())
    report = cluster.cycle(policy(), Mode.EVICT, State())
    assert report.result is CycleResult.EVICTED
    assert len(report.outcomes) == 2
    every_output(report)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    mutated(DOCUMENTS),
    st.sampled_from(POLICIES),
    st.sampled_from([None, *({"kind": "Status", "message": t * 99} for t in STEERING_TEXTS)])
    | json_values,
)
@example(pods_with(creationTimestamp=TIMES[0]), POLICIES[0], None)
@example(pods_with(creationTimestamp=TIMES[1]), POLICIES[1], None)
@example(pods_with(uid="one-for-all"), POLICIES[0], None)
@example(pods_with(namespace="else\x1b[2J"), POLICIES[0], None)
@example(pods_with(annotations={"desched.io/evict": "\x1b[2J" * 9999}), POLICIES[1], None)
@example(
    pods_with(ownerReferences=[manifests.owner("Deployment\x9b", "x" * 9999)]), POLICIES[0], None
)
def test_any_cluster_gives_a_report_or_an_error_and_every_output_is_harmless(
    cluster: HostileCluster, lists: Any, by: Any, denial: object
) -> None:
    if not isinstance(lists, dict):
        return
    cluster.holds(lists, denial)
    try:
        report = cluster.cycle(by, Mode.EVICT, State())
    except DeschedError:
        return
    every_output(report)
    only_what_was_seen_is_evicted(cluster, report)
    for note in (w.body["note"] for w in cluster.written if "/events" in w.path):
        harmless(note)
        assert len(note.encode()) <= LONGEST_NOTE_BYTES


def only_what_was_seen_is_evicted(cluster: HostileCluster, report: CycleReport) -> None:
    asked = [w.body for w in cluster.written if w.path.endswith("/eviction")]
    uids = [body["deleteOptions"]["preconditions"]["uid"] for body in asked]
    assert all(uids)
    assert set(uids) <= {eviction.pod.uid for eviction in report.plan.evictions}
    assert not {body["metadata"]["name"] for body in asked} & {"agent"}
