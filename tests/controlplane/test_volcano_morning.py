"""The morning of a user of Volcano: paste the guide, see why nothing moves, then see an eviction.

API server, controllers, Prometheus and the commands of the tutorial are real. Volcano is not:
`VolcanoStandIn` binds pods and creates those of the Job by a few of its rules.
"""

import re
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.controlplane import kube_prometheus_stack as stack
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import VOLCANO_GROUPS, Object, deployment, pod_spec, usage
from tests.controlplane.prometheus_server import PrometheusServer
from tests.controlplane.test_tutorial_volcano import PAGE, published_prometheus
from tests.controlplane.user import User
from tests.controlplane.volcano_stand_in import SCHEDULER, VOLCANO_JOBS, VolcanoStandIn
from tests.controlplane.written_history import History, write_blocks
from tests.documented_commands import documented_commands
from tests.unit.test_tutorial_volcano import PASTED, changed_document, objects, shown

EVICTION = "One eviction, and why the rest stays"
NODES = ("te1", "te2", "te3", "te4", "te5")
HOT = "te3"
BUSY = {"te1": 0.3, "te2": 0.2, "te3": 0.95, "te4": 0.2, "te5": 0.05}
LOW, REPLICAS = "low-priority-workload", 3
LOW_ESCAPED = re.escape(LOW)
PODS = "/api/v1/namespaces/default/pods"
ON_HOT = 6
"""Pods of the Job there; the others are on te1."""

SCRAPE_SECONDS = 30
"""As rarely as the keys of the page allow."""


@pytest.fixture
def user(
    running_control_plane: ControlPlane, binaries: Mapping[str, Path], tmp_path: Path
) -> Iterator[User]:
    plane = running_control_plane
    server = PrometheusServer(binaries["prometheus"], None, tmp_path / "prometheus")
    try:
        address = _paste(plane, server)
        with server, plane.pod_network({address: server.url}):
            yield User(plane, binaries["kubectl"], tmp_path / "desched")
    finally:
        plane.reset()


def _paste(plane: ControlPlane, server: PrometheusServer) -> str:
    """The cluster of the page, recorded; the address of its Prometheus."""
    plane.add_node(*NODES, cpu="4")
    plane.create_namespace(stack.NAMESPACE)
    plane.serve(VOLCANO_GROUPS)
    plane.serve(VOLCANO_JOBS)
    *_, exporters = stack.manifests(NODES[-1])
    plane.apply(exporters)
    address = published_prometheus(plane, NODES[-1])
    plane.wait_for_ready_pods(stack.NAMESPACE, len(NODES))
    job = _job()
    (task,) = job["spec"]["tasks"]
    stress = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stress", "namespace": "default", "annotations": usage("2")},
        "spec": {**pod_spec(), "nodeName": HOT},
    }
    low = deployment(LOW, REPLICAS, "400m", "default")
    low["spec"]["template"]["spec"] = {**task["template"]["spec"], "schedulerName": SCHEDULER}
    with plane.paused_scheduler():  # it would place pods of Volcano, too
        plane.apply(stress, low, job)
        names = plane.wait_for("the Deployment", lambda: _named(plane, LOW, REPLICAS))
        of_job = {
            f"{job['metadata']['name']}-{task['name']}-{i}": i for i in range(task["replicas"])
        }
        places = {name: HOT if i < ON_HOT else NODES[0] for name, i in of_job.items()}
        VolcanoStandIn(plane).step(places | dict.fromkeys(names, HOT))
    plane.wait_for_ready_pods("default", len(names) + len(places) + 1)
    plane.make_older(timedelta(days=1))
    history = History(time.time(), every=SCRAPE_SECONDS)
    stack.record(plane, history, BUSY)
    write_blocks([history], server.data)
    return address


def _job() -> Object:
    """That of the page, with pods that use a tenth of a core."""
    (job,) = (each for each in objects(EVICTION) if each.get("kind") == "Job")
    (task,) = job["spec"]["tasks"]
    task["template"]["metadata"] = {"annotations": usage("100m")}
    return {**job, "status": {"state": {"phase": "Running"}}}


def _named(plane: ControlPlane, name: str, count: int) -> list[str]:
    """The names of the pods that begin so, empty before there are so many."""
    found = [pod["metadata"]["name"] for pod in plane.pods("default")]
    found = [each for each in found if each.startswith(name)]
    return found if len(found) == count else []


def _missing(title: str, report: str, *, exact: bool = True) -> list[str]:
    """The lines that a section shows and the report lacks, whatever the pods of the Deployment are.

    Without `exact` also whatever the numbers are.
    """
    text, found = " ".join(report.split()), []
    for line in shown(title):
        pattern = re.escape(re.sub(rf"{LOW}-\S+", LOW, line)).replace(LOW_ESCAPED, f"{LOW}-\\S+")
        pattern = pattern if exact else re.sub(r"\d+", r"\\d+", pattern)
        if re.search(pattern, text) is None:
            found.append(line)
    return found


def test_a_user_of_volcano_sees_why_nothing_moves_and_then_an_eviction(
    running_control_plane: ControlPlane, user: User
) -> None:
    """S2.7, S2.9, R0.4, R2.2: from the guide as pasted to the replacements elsewhere."""
    plane = running_control_plane
    pasted = "".join(map(user.types, documented_commands(PAGE, PASTED)))
    assert "Would evict" not in pasted
    assert _missing(PASTED, pasted, exact=False) == [], pasted  # there without the Job

    user.types(f"cat > mine.yaml <<'EOF'\n{changed_document(EVICTION)}\nEOF")
    validate, plan, create, evict, *look = documented_commands(PAGE, EVICTION)
    told = user.types(validate) + user.types(plan)
    before = _pods(plane)
    with plane.paused_scheduler():
        told += user.types(create) + user.types(evict)
        plane.wait_for("the replacements", lambda: _replaced(plane, len(before)))
    told += "".join(map(user.types, look))
    assert _missing(EVICTION, told) == [], told
    new = {pod["metadata"]["name"]: pod for uid, pod in _pods(plane).items() if uid not in before}
    assert len(new) == 2
    assert HOT not in {pod["spec"]["nodeName"] for pod in new.values()}

    ended = {"status": {"phase": "Succeeded"}}
    assert plane.request("PATCH", f"{PODS}/stress/status", ended)[0] == HTTPStatus.OK
    explained = user.types(look[-1])
    assert "te3 is balanced." in explained, explained
    assert "departed_load" in explained, explained


def _pods(plane: ControlPlane) -> dict[str, Object]:
    return {pod["metadata"]["uid"]: pod for pod in plane.pods("default")}


def _replaced(plane: ControlPlane, count: int) -> bool:
    VolcanoStandIn(plane).step()
    pods = plane.pods("default")
    return len(pods) == count and all("nodeName" in pod["spec"] for pod in pods)
