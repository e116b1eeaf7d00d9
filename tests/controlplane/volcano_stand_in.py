"""A stand-in for Volcano's scheduler and controllers. It is not Volcano, which cannot run here.

It acts by a few rules of volcano-sh/volcano@ed72c7c8, and by nothing else:

* pods of a Job have its name, a label and an annotation for job and task, and one that is gone is
  created again under its name (pkg/controllers/job/job_controller_actions.go:472-488);
* the PodGroup of a Job has its minimum, and all replicas of each task that names no minimum
  (pkg/webhooks/admission/jobs/mutate/mutate_job.go:169-183);
* pods of another controller have one PodGroup with the minimum 1
  (pkg/controllers/podgroup/pg_controller_handler.go:270-288);
* a pod goes to a node where its requests fit and that has no hard taint
  (pkg/scheduler/plugins/predicates/predicates.go:556-561), the highest score first
  (pkg/scheduler/util/scheduler_helper.go:195-209). The score is 300 without a soft taint
  (pkg/scheduler/plugins/nodeorder/nodeorder.go:312-318) and up to 100 for alike shares of CPU and
  memory (:142-151). The scores of free and of full nodes add up to the same for each node, as
  binpack has the same weight (pkg/scheduler/plugins/binpack/binpack.go:112-155).

Where Volcano draws one of equal nodes at random, it takes the fullest: for a pod that was evicted
from an overloaded node, the worst draw.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object, custom_kind, volcano_group
from tests.controlplane.usage_exporter import quantity

SCHEDULER = "volcano"
VOLCANO_JOBS = custom_kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")

_JOBS = "/apis/batch.volcano.sh/v1alpha1/jobs"
_GROUP_NAME = "scheduling.k8s.io/group-name"


class VolcanoStandIn:
    """Does what is due when it is asked to: nothing happens between two steps."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def step(self, places: Mapping[str, str] | None = None) -> None:
        """Create the pods that are missing, then bind those that are pending.

        `places` has the node of pods that are bound for the first time, by name.
        """
        for job in self._plane.items(_JOBS):
            self._sync(job)
        for pod in self._pods():
            if pod["spec"]["schedulerName"] == SCHEDULER and "nodeName" not in pod["spec"]:
                self._group(pod)
                self._bind(pod, (places or {}).get(pod["metadata"]["name"]) or self._node_for(pod))

    def _pods(self) -> list[Object]:
        return self._plane.items("/api/v1/pods")

    def _sync(self, job: Object) -> None:
        metadata, spec = job["metadata"], job["spec"]
        namespace, name = metadata["namespace"], metadata["name"]
        group = f"{name}-{metadata['uid']}"
        minima = {
            task["name"]: task.get("minAvailable", task["replicas"]) for task in spec["tasks"]
        }
        minimum = spec.get("minAvailable", sum(minima.values()))
        self._apply_group(namespace, group, minimum, minTaskMember=minima)
        there = {pod["metadata"]["name"] for pod in self._plane.pods(namespace)}
        for task in spec["tasks"]:
            for index in range(task["replicas"]):
                if f"{name}-{task['name']}-{index}" not in there:
                    self._plane.apply(_pod(job, task, index, group))

    def _group(self, pod: Object) -> None:
        """Give a pod of another controller than a Job's the PodGroup of that controller."""
        metadata = pod["metadata"]
        if _GROUP_NAME in metadata.get("annotations", {}):
            return
        group = f"podgroup-{metadata['ownerReferences'][0]['uid']}"
        self._apply_group(metadata["namespace"], group, 1)
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        body = {"metadata": {"annotations": {_GROUP_NAME: group}}}
        status, answer = self._plane.request("PATCH", path, body)
        assert status == HTTPStatus.OK, answer

    def _apply_group(self, namespace: str, name: str, minimum: int, **spec: object) -> None:
        running = {"status": {"phase": "Running"}}
        self._plane.apply(volcano_group(namespace, name, minimum, **spec) | running)

    def _node_for(self, pod: Object) -> str:
        pods = self._pods()
        scores: dict[str, tuple[float, float]] = {}
        for node in self._plane.items("/api/v1/nodes"):
            name, taints = node["metadata"]["name"], node["spec"].get("taints", [])
            here = [other for other in pods if other["spec"].get("nodeName") == name]
            after = _Share.of([*here, pod], node["status"]["allocatable"])
            soft = [taint for taint in taints if taint["effect"] == "PreferNoSchedule"]
            if max(after) <= 1 and len(soft) == len(taints):
                balance = 1 - abs(after.cpu - after.memory) / 2
                scores[name] = 300 * (not soft) + 100 * balance, after.cpu
        assert scores, f"{pod['metadata']['name']} fits nowhere"
        return max(scores, key=lambda name: scores[name])

    def _bind(self, pod: Object, node: str) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        status, answer = self._plane.request("POST", path, body)
        assert status == HTTPStatus.CREATED, answer


class _Share(NamedTuple):
    """The requests of pods as shares of a node."""

    cpu: float
    memory: float

    @classmethod
    def of(cls, pods: list[Object], allocatable: Mapping[str, str]) -> "_Share":
        requests = [
            container.get("resources", {}).get("requests", {})
            for pod in pods
            for container in pod["spec"]["containers"]
        ]
        return cls(
            *(
                sum(quantity(each.get(resource, "0")) for each in requests)
                / quantity(allocatable[resource])
                for resource in cls._fields
            )
        )


def _pod(job: Object, task: Object, index: int, group: str) -> Object:
    metadata, template = job["metadata"], task["template"]
    marks = {"volcano.sh/job-name": metadata["name"], "volcano.sh/task-spec": task["name"]}
    annotations = template["metadata"]["annotations"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-{task['name']}-{index}",
            "namespace": metadata["namespace"],
            "labels": marks,
            # KWOK would end pods whose owner has the kind Job at once.
            "annotations": {
                **annotations,
                **marks,
                _GROUP_NAME: group,
                "desched.test/keep-running": "true",
            },
            "ownerReferences": [
                {
                    "apiVersion": job["apiVersion"],
                    "kind": job["kind"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {**template["spec"], "schedulerName": SCHEDULER},
    }
