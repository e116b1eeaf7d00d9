"""A namespace of pods that use CPU on the lab's nodes."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.controlplane.installation import Installation
from tests.controlplane.manifests import Object, deployment, priority_class
from tests.nodes.lab import Lab

HOT = "node2"
WORKLOAD = "low-priority-workload"
BURNER_PERCENT, STRESS_PERCENT = 12, 56


def program(name: str, image: str, *arguments: str) -> Object:
    """A container of the lab's one program."""
    return {"name": name, "image": f"nodes.test/{image}:1", "args": list(arguments)}


class Story(Installation):
    """Three pods burn on the hot node, beside one that is pinned there."""

    def __init__(self, lab: Lab, directory: Path, name: str) -> None:
        super().__init__(lab.plane, lab.prometheus, directory)
        self.lab = lab
        self.namespace = name

    def begin(self, image: str = "burn", *arguments: str) -> None:
        """Returns when all of them run, and the other nodes take pods again."""
        self.plane.create_namespace(self.namespace)
        self.plane.apply(priority_class("low-priority", 1_000))
        self.lab.registry.names.add(image)
        others = [name for name in self.lab.nodes if name != HOT]
        self.cordon(others, unschedulable=True)
        self.plane.apply(self._workload(image, arguments), self._stress())
        self.plane.wait_for_ready_pods(self.namespace, 4)
        self.cordon(others, unschedulable=False)
        for name in others:
            self.plane.wait_for(f"{name} takes pods", partial(self.lab.is_ready, name))

    def cordon(self, names: Sequence[str], *, unschedulable: bool) -> None:
        for name in names:
            body = {"spec": {"unschedulable": unschedulable}}
            status, answer = self.plane.request("PATCH", f"/api/v1/nodes/{name}", body)
            assert status == 200, answer

    def _workload(self, image: str, arguments: Sequence[str]) -> Object:
        burns = program("workload", image, f"-cpu={BURNER_PERCENT}", *arguments)
        burns["resources"] = {"requests": {"cpu": "75m", "memory": "64Mi"}}
        fields = {"priorityClassName": "low-priority", "terminationGracePeriodSeconds": 40}
        whole = deployment(WORKLOAD, 3, "0", self.namespace, **fields)
        whole["spec"]["template"]["spec"]["containers"] = [burns]
        return whole

    def _stress(self) -> Object:
        burns = program("stress", "burn", f"-cpu={STRESS_PERCENT}", "-memory=200")
        burns["resources"] = {"requests": {"cpu": "375m", "memory": "256Mi"}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "stress-pod", "namespace": self.namespace},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": HOT},
                "terminationGracePeriodSeconds": 1,
                "containers": [burns],
            },
        }

    def end(self) -> None:
        """Nothing of it is left, as far as the API server and the kubelets know."""
        self.plane.delete(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        )

    def places(self) -> dict[str, str]:
        """The node of each pod of the workload that is Ready and stays."""
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in self.plane.pods(self.namespace, f"app={WORKLOAD}")
            if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
        }


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
