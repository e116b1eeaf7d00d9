"""Jobs of Volcano: how many pods they need, and which policies make one eviction one of the job.

The lines are of volcano-sh/volcano@ed72c7c8, below pkg/controllers/job/ where they name no folder.
"""

from typing import Any

import msgspec
import pytest
import yaml

from desched.gangs.objects import DeclaredGroup
from desched.planning.eligibility.controllers import VOLCANO_JOB
from desched.plugins.gangs.jobs import VOLCANO_JOBS

GUIDE = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: topology-job, namespace: apps}
spec:
  minAvailable: 6
  schedulerName: volcano
  queue: default
  networkTopology: {mode: hard, highestTierAllowed: 2}
  tasks:
  - replicas: 10
    name: worker
    template:
      spec:
        containers: [{name: worker, image: nginx, resources: {requests: {cpu: "1"}}}]
        restartPolicy: OnFailure
"""


def read(changes: dict[str, Any] | None = None, phase: str = "Running", **task: Any) -> Any:
    document = yaml.safe_load(GUIDE)
    document["spec"] |= changes or {}
    document["spec"]["tasks"][0] |= task
    document["status"] = {"state": {"phase": phase}}
    body = msgspec.json.encode({"metadata": {}, "items": [document]})
    (found,) = VOLCANO_JOBS.decoder().page(body).values
    assert isinstance(found, DeclaredGroup)
    assert (found.system, found.namespace, found.name) == (VOLCANO_JOB, "apps", "topology-job")
    return found


def minima(found: DeclaredGroup) -> dict[str, int]:
    return {part.name: part.minimum for part in found.parts}


def test_the_job_of_the_guide_spares_four_of_ten() -> None:
    """R2.2: minAvailable 6 of 10 and no policies; the webhook has written 10 for its task."""
    for found in read(), read(minAvailable=10):
        assert (found.minimum, found.stays, minima(found)) == (6, "", {"worker": 1})


def test_a_task_that_needs_less_than_its_pods_says_so() -> None:
    """R2.2: pkg/scheduler/api/job_info.go CheckTaskValid."""
    assert minima(read(minAvailable=8)) == {"worker": 8}
    enforced = read({"minAvailable": 10}, minAvailable=10)
    assert (enforced.minimum, minima(enforced)) == (10, {"worker": 10})


def test_without_a_minimum_the_job_needs_all_its_pods() -> None:
    """R2.2: pkg/webhooks/admission/jobs/mutate/mutate_job.go:169-183, 215-217."""
    for absent in (None, 0):
        found = read({"minAvailable": absent})
        assert (found.minimum, minima(found)) == (10, {"worker": 10})
    assert read({"minAvailable": None}, minAvailable=7).minimum == 7


def test_the_only_pod_of_a_task_stays() -> None:
    """R2.2: a master beside its workers, whatever the job needs in all."""
    tasks = [{"name": "master", "replicas": 1}, {"name": "worker", "replicas": 9}, {"replicas": 2}]
    found = read({"tasks": tasks})
    assert minima(found) == {"master": 1, "worker": 1, "default2": 1}


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"event": "PodEvicted", "action": "RestartJob"}, "RestartJob on PodEvicted"),
        ({"event": "PodFailed", "action": "RestartJob"}, "RestartJob on PodFailed"),
        ({"events": ["PodFailed", "Unknown"], "action": "AbortJob"}, "AbortJob on PodFailed"),
        ({"event": "Unknown", "action": "RestartJob"}, "RestartJob on Unknown"),
        ({"event": "*", "action": "TerminateJob"}, "TerminateJob on *"),
        ({"exitCode": 137, "action": "CompleteJob"}, "CompleteJob on exit code 137"),
        ({"event": "PodPending", "action": "RestartTask", "timeout": "1m"}, "on PodPending"),
        ({"event": "OfALaterVersion", "action": "RestartPod"}, "on OfALaterVersion"),
    ],
)
def test_a_policy_that_an_eviction_may_raise_keeps_the_job(
    policy: dict[str, Any], why: str
) -> None:
    """R2.3: job_controller_handler.go:269-281, 377-380, 479-490; of the job and of a task alike."""
    assert why in read({"policies": [policy]}).stays
    assert why in read(policies=[policy]).stays


@pytest.mark.parametrize(
    "policy",
    [
        {"event": "PodEvicted", "action": "SyncJob"},
        {"events": ["PodFailed", "*"], "action": "SyncJob"},
        {"exitCode": 137, "action": "SyncJob"},
        {"event": "PodRunning", "action": "RestartJob"},
        {"event": "TaskCompleted", "action": "CompleteJob"},
    ],
)
def test_a_policy_that_no_eviction_raises_does_not(policy: dict[str, Any]) -> None:
    """R2.3: job_controller_util.go:182-192, 199, 407-416."""
    assert not read({"policies": [policy]}).stays
    assert not read(policies=[policy]).stays


def test_a_task_that_needs_no_pod_may_complete_by_an_eviction() -> None:
    """R2.3: the kubelet calls a pod succeeded whose containers end with 0."""
    completes = {"event": "TaskCompleted", "action": "CompleteJob"}
    assert "on TaskCompleted" in read(policies=[completes], minAvailable=0).stays


@pytest.mark.parametrize(
    ("retries", "ends"),
    [
        (None, "3 such evictions end the job"),
        (0, "3 such evictions end the job"),
        (1, "the first such eviction ends the job"),
        (5, "5 such evictions end the job"),
    ],
)
def test_the_refusal_says_how_many_restarts_end_the_job(retries: int | None, ends: str) -> None:
    """R2.3: state/restarting.go:98-106; mutate_job.go:161-166."""
    policy = {"event": "PodFailed", "action": "RestartJob"}
    assert read({"policies": [policy], "maxRetry": retries}).stays.endswith(ends)
    policy["action"] = "AbortJob"
    assert "such eviction" not in read({"policies": [policy]}).stays


@pytest.mark.parametrize("phase", ["", "Pending", "Restarting", "Aborting", "Completed"])
def test_a_job_that_does_not_run_stays(phase: str) -> None:
    """R2.5."""
    assert read(phase=phase).stays == f"its phase is {phase or 'not known'}"


def test_one_run_of_all_pods_stays() -> None:
    """R2.3: mpirun ends with each of its pods."""
    assert "plugin mpi" in read({"plugins": {"mpi": ["--master=m"], "ssh": []}}).stays
    assert not read({"plugins": {"svc": [], "env": []}}).stays


@pytest.mark.parametrize(
    "spec", [{"tasks": "many"}, {"minAvailable": "six"}, {"policies": [{"event": 1}]}]
)
def test_a_job_that_cannot_be_read_stays(spec: dict[str, Any]) -> None:
    """X4: and it is no error for the other objects."""
    document = yaml.safe_load(GUIDE)
    document["spec"] |= spec
    body = msgspec.json.encode({"metadata": {}, "items": [document]})
    (found,) = VOLCANO_JOBS.decoder().page(body).values
    assert found.stays.startswith("its Job cannot be read: ")


def test_tasks_of_one_name_keep_the_job() -> None:
    """X4: they would be counted together."""
    tasks = [{"name": "worker", "replicas": 5}, {"name": "worker", "replicas": 5}]
    assert read({"tasks": tasks}).stays == "several of its tasks have one name"
