"""What became of moves is shown where people look: on the workload and on the node."""

from datetime import UTC, datetime

import msgspec
import pytest
import structlog

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.events import EventWriter
from desched.model.cluster import PodRef
from desched.model.state import EvictionRecord, MoveResult
from desched.service.process.clock import SystemClock
from desched.service.telemetry.kubernetes_events import move_note
from tests.builders import certain
from tests.controlplane.cluster import ControlPlane


@pytest.fixture
def record(control_plane: ControlPlane) -> EvictionRecord:
    """A move of a Deployment that is there, and so is the node that it left."""
    control_plane.add_node("te1")
    namespace = control_plane.create_namespace()
    control_plane.kubectl("create", "deployment", "web", "--image=web", "-n", namespace)
    uid = control_plane.kubectl(
        "get", "deployment", "web", "-n", namespace, "--output=jsonpath={.metadata.uid}"
    )
    return EvictionRecord(
        pod=PodRef(namespace, "web-0", "uid-of-a-pod-that-has-gone"),
        node="te1",
        workload_uid=uid,
        evicted_at=datetime(2026, 5, 1, tzinfo=UTC),
        landing=certain("te2"),
        workload=f"Deployment {namespace}/web",
        landed_on="te1",
        result=MoveResult.BACK_ON_SOURCE,
    )


def written(control_plane: ControlPlane, record: EvictionRecord) -> tuple[str, str]:
    """What kubectl shows on the Deployment and on the node once the Event is written."""
    connection = connect(control_plane.admin_kubeconfig, None)
    with structlog.testing.capture_logs() as logs:
        assert EventWriter(connection, SystemClock()).settled(record, move_note(record))
    assert logs == []
    on_workload = control_plane.kubectl("describe", "deployment", "web", "-n", record.pod.namespace)
    return on_workload, control_plane.kubectl("describe", "node", "te1")


def test_a_move_that_failed_is_a_warning_on_its_workload_and_its_node(
    control_plane: ControlPlane, record: EvictionRecord
) -> None:
    for shown in written(control_plane, record):
        assert "Warning  MoveFailed" in shown
        assert "its replacement is on the node that it left" in shown


def test_a_move_that_went_well_is_shown_on_its_workload_only(
    control_plane: ControlPlane, record: EvictionRecord
) -> None:
    landed = msgspec.structs.replace(record, result=MoveResult.LANDED_AS_FORECAST, landed_on="te2")
    on_workload, on_node = written(control_plane, landed)
    assert "Moved" in on_workload
    assert "Ready on one of the nodes that the plan named (it on te2)" in on_workload
    assert "Moved" not in on_node
