"""X4: queues of Kueue and Volcano, as they are and as nobody should write them."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from desched.api_objects.memory_bounds import ORDINARY_BYTES, kept_bytes
from desched.plugins.gangs.pod_groups import POD_GROUPS
from desched.plugins.queues.kinds import QUEUES
from desched.plugins.queues.objects import Queue

ACTIVE = [{"type": "Active", "status": "True", "reason": "Ready", "message": "Can admit"}]
STOPPED = [{"type": "Active", "status": "False", "reason": "Stopped"}]


def read(resource: str, spec: Any, status: Any, namespace: str = "") -> Queue:
    """The queue, which all versions read alike."""
    (found,) = set(_read(resource, spec, status, namespace))
    return found


def _read(resource: str, spec: Any, status: Any, namespace: str) -> Iterator[Queue]:
    metadata = {"name": "q"} | ({"namespace": namespace} if namespace else {})
    body = json.dumps({"items": [{"metadata": metadata, "spec": spec, "status": status}]})
    for kind in QUEUES:
        if kind.access.resource == resource:
            yield kind.decoder().page(body.encode()).values[0]


def test_a_cluster_queue_has_the_number_of_pending_workloads() -> None:
    """kueue apis/kueue/v1beta2/clusterqueue_types.go:382."""
    status = {"pendingWorkloads": 3, "admittedWorkloads": 5, "conditions": ACTIVE}
    found = read("clusterqueues", {"cohortName": "all", "resourceGroups": []}, status)
    assert found == Queue("Kueue", "", "q", waiting=3)


def test_a_local_queue_leads_to_its_cluster_queue() -> None:
    """What waits in it alone does not count: the quota is that of the ClusterQueue."""
    status = {"pendingWorkloads": 3, "conditions": ACTIVE}
    found = read("localqueues", {"clusterQueue": "team-a"}, status, "apps")
    assert found == Queue("Kueue", "apps", "q", cluster_queue="team-a")


@pytest.mark.parametrize("resource", ["clusterqueues", "localqueues"])
def test_a_queue_of_kueue_that_is_stopped_admits_nothing(resource: str) -> None:
    status = {"pendingWorkloads": 0, "conditions": STOPPED}
    assert read(resource, {}, status).closed == "it admits nothing (Stopped)"


@pytest.mark.parametrize("resource", ["clusterqueues", "localqueues", "queues"])
@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"pendingWorkloads": None, "conditions": None, "state": None},
        {"pendingWorkloads": "many", "conditions": ACTIVE, "state": 1},
        {"pendingWorkloads": 2**40, "conditions": [{"type": "Active", "status": "Unknown"}]},
        [],
    ],
)
def test_a_queue_without_a_readable_status_is_unclear(resource: str, status: Any) -> None:
    found = read(resource, {"clusterQueue": "team-a"}, status)
    assert found.unclear


def test_a_cluster_queue_must_say_how_many_wait_and_a_local_queue_where() -> None:
    assert read("clusterqueues", {}, {"conditions": ACTIVE}).unclear
    assert read("localqueues", {}, {"conditions": ACTIVE}).unclear == "it names no ClusterQueue"


@pytest.mark.parametrize(("state", "closed"), [("Open", ""), ("Closed", "(Closed)")])
def test_a_queue_of_volcano_admits_while_it_is_open(state: str, closed: str) -> None:
    found = read("queues", {"weight": 1}, {"state": state, "pending": 3})
    assert found == Queue("Volcano", "", "q", closed=closed and f"it admits nothing {closed}")


def test_no_queue_takes_much_memory() -> None:
    """A tenant may write LocalQueues."""
    long = "x" * 60_000
    conditions = [{"type": "Active", "status": "False", "reason": long}]
    found = read("localqueues", {"clusterQueue": long}, {"conditions": conditions}, "apps")
    assert kept_bytes(found) < ORDINARY_BYTES
    assert found.cluster_queue not in {"", long}


def group(queue: Any, phase: str) -> Any:
    document = {
        "metadata": {"name": "llama", "namespace": "train"},
        "spec": {"minMember": 8, "queue": queue},
        "status": {"phase": phase},
    }
    body = msgspec.json.encode({"metadata": {}, "items": [document]})
    return POD_GROUPS["Volcano"][0].decoder().page(body).values[0]


@pytest.mark.parametrize(
    "phase",
    ["", "Pending", "Inqueue", "Running", "Unknown", "Completed"],
)
def test_a_group_of_volcano_waits_in_its_queue_until_it_runs(phase: str) -> None:
    found = group("research", phase)
    assert found.queue == "research"
    assert found.waits is (phase in {"", "Pending", "Inqueue"})


def test_no_group_keeps_a_long_name_of_a_queue() -> None:
    assert len(group("x" * 60_000, "Pending").queue) < 300
