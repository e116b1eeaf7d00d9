"""Whatever an API server sends, a cycle ends in a report or an error that desched understands."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from desched.adapters.kubernetes.client.access import LIST_PODS
from desched.adapters.kubernetes.client.api_types.pods import Pod
from desched.adapters.kubernetes.objects.autoscalers import AUTOSCALERS
from desched.adapters.kubernetes.objects.budgets import (
    BUDGETS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICES,
)
from desched.adapters.kubernetes.objects.nodes import NODES
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.adapters.kubernetes.objects.storage import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES
from desched.adapters.kubernetes.objects.workloads import (
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Controllers,
    owners_by_controller,
    selectors_by_controller,
    workloads_by_controller,
)
from desched.api_objects.kinds import Kind
from desched.errors import DeschedError, ObservationError
from desched.model.report import CycleReport, CycleResult, Mode
from desched.model.resources import Resource
from desched.model.state import State
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Protections, SteeringRules
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
        steering=SteeringRules(SteeringMode.ALWAYS),
        max_landing_risk=0.15,
        protections=Protections(
            understood_owner_kinds=("apps/GameServer",), min_pod_age_seconds=60, min_replicas=2
        ),
    ),
    policy(rule(), rule(Resource.MEMORY), rule(Resource.PODS, target_ratio=0.03), deviation=True),
)


def understood(kind: Kind[Any, Any], field: str) -> Kind[Any, Any]:
    """All that is made of a controller."""

    def build(item: Any) -> object:
        found = Controllers(**{field: [item]})
        return (
            workloads_by_controller(found, {}, {}),
            owners_by_controller(found),
            selectors_by_controller(found),
        )

    return kind._replace(build=build)


KINDS: tuple[Kind[Any, Any], ...] = (
    NODES,
    Kind(LIST_PODS, Pod, PodBuilder().pod),
    understood(DEPLOYMENTS, "deployments"),
    understood(REPLICA_SETS, "replica_sets"),
    understood(STATEFUL_SETS, "stateful_sets"),
    understood(JOBS, "jobs"),
    AUTOSCALERS,
    BUDGETS,
    PRIORITY_CLASSES,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    SERVICES,
)
DECODERS = {kind.access.path(): kind.decoder() for kind in KINDS}


def test_every_list_that_is_served_is_fuzzed() -> None:
    assert set(DECODERS) == set(DOCUMENTS)


@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=list(HealthCheck)
)
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


@settings(deadline=None, suppress_health_check=list(HealthCheck))
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
