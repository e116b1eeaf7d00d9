"""What of KubeVirt decides on evictions: machines, the webhook that answers, and migrations.

KubeVirt itself does not run. The webhook answers as KubeVirt's does, and a test says when a machine
that it took over moves.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Self

from desched.model.cluster import MIGRATING_ANNOTATION
from desched.plugins.virtual_machines.kubevirt import TAKES_OVER
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.manifests import Object, custom_kind, pod_spec, usage
from tests.controlplane.sites import SITE, Site
from tests.loopback import Handler, Server

GROUP, VERSION = "kubevirt.io", "v1"
MACHINE, MIGRATION = "VirtualMachineInstance", "VirtualMachineInstanceMigration"
HOSTNAME = "kubernetes.io/hostname"
_LAUNCHER = {"kubevirt.io": "virt-launcher"}
_CREATED_BY = "kubevirt.io/created-by"


class KubeVirt:
    """Machines on a site, whose evictions a webhook on loopback answers.

    Each has a pod named `MACHINE-launcher-N`. `taken_over` are the machines that the webhook took
    over, in this order.
    """

    def __init__(self, plane: ControlPlane, site: Site) -> None:
        self._plane = plane
        self.site = site
        self._uids: dict[str, str] = {}
        self.taken_over: list[str] = []
        for kind in (MACHINE, MIGRATION):
            plane.serve(custom_kind(GROUP, VERSION, kind))
        namespace = {"name": site.name}
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
        self._server = Server(self._handler())
        self._server.use_tls(plane.ca_file, plane.key_file)

    def __enter__(self) -> Self:
        self._server.__enter__()
        self._plane.apply(self._webhook())
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    # Objects

    def machine(self, name: str, on: str, uses: str, *, moving: bool = False) -> None:
        """A machine with its pod and its budget; `moving` if KubeVirt migrates it already."""
        machine = self._object(MACHINE, name, spec={"evictionStrategy": "LiveMigrate"})
        self._plane.apply(machine)
        path = self._path(MACHINE, name)
        self._uids[name] = self._plane.get(path)["metadata"]["uid"]
        pod = self._pod(f"{name}-launcher-1", name, uses)
        if moving:
            pod["metadata"]["annotations"][MIGRATING_ANNOTATION] = "kubevirt"
        self.site.manifests += [pod, self._budget(name)]
        self.site.places[name] = [f"{self.site.name}-{on}"]

    def begin_migration(self, name: str) -> str:
        """Mark the machine's pod and start a second one elsewhere; returns the name of the first.

        Ends once both are Ready.
        """
        (source,) = self._plane.pods(self.site.name, f"app={name}")
        pod, node = source["metadata"]["name"], source["spec"]["nodeName"]
        self._plane.apply(
            self._object(MIGRATION, f"kubevirt-evacuation-{name}", spec={"vmiName": name})
        )
        marked = {"metadata": {"annotations": {MIGRATING_ANNOTATION: "kubevirt"}}}
        self._patch(f"/api/v1/namespaces/{self.site.name}/pods/{pod}", marked)
        uses = source["metadata"]["annotations"]["kwok.x-k8s.io/usage-cpu"]
        elsewhere = {"key": HOSTNAME, "operator": "NotIn", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        self._plane.apply(self._pod(f"{name}-launcher-2", name, uses, affinity=affinity))
        self._plane.wait_for_ready_pods(self.site.name, 2, f"app={name}")
        return str(pod)

    def migrate(self, name: str) -> None:
        """Move the machine, and end its first pod."""
        source = self.begin_migration(name)
        migration = self._path(MIGRATION, f"kubevirt-evacuation-{name}")
        self._patch(migration, {"status": {"phase": "Succeeded"}})
        self._plane.request("DELETE", f"/api/v1/namespaces/{self.site.name}/pods/{source}")
        self._plane.wait_for_ready_pods(self.site.name, 1, f"app={name}")

    def _pod(self, pod: str, machine: str, uses: str, **spec: Any) -> Object:
        owner = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": MACHINE,
            "name": machine,
            "uid": self._uids[machine],
            "controller": True,
        }
        created_by = {_CREATED_BY: self._uids[machine]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod,
                "namespace": self.site.name,
                "labels": {"app": machine, **_LAUNCHER, **created_by},
                "annotations": {**usage(uses), TAKES_OVER: ""},
                "ownerReferences": [owner],
            },
            "spec": pod_spec("500m", nodeSelector={SITE: self.site.name}, **spec),
        }

    def _budget(self, machine: str) -> Object:
        """The budget by which KubeVirt keeps anybody from ending the pod without its webhook."""
        selector = {"matchLabels": {_CREATED_BY: self._uids[machine]}}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {
                "name": f"kubevirt-disruption-budget-{machine}",
                "namespace": self.site.name,
            },
            "spec": {"minAvailable": 1, "selector": selector},
        }

    def _object(self, kind: str, name: str, **fields: Any) -> Object:
        metadata = {"name": name, "namespace": self.site.name}
        return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, **fields}

    def _path(self, kind: str, name: str) -> str:
        plural = f"{kind.lower()}s"
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.site.name}/{plural}/{name}"

    def _patch(self, path: str, change: Mapping[str, Any]) -> None:
        status, answer = self._plane.request("PATCH", path, change)
        assert status == 200, answer

    # The webhook

    def _webhook(self) -> Object:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods/eviction"],
        }
        port = self._server.server_address[1]
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "virt-launcher-eviction-interceptor"},
            "webhooks": [
                {
                    "name": "virt-launcher-eviction-interceptor.kubevirt.io",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "NoneOnDryRun",
                    "timeoutSeconds": 30,
                    "rules": [rule],
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": self.site.name}
                    },
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{port}/launcher-eviction-validate",
                        "caBundle": base64.b64encode(self._plane.ca_file.read_bytes()).decode(),
                    },
                }
            ],
        }

    def _review(self, request: Object) -> Object:
        """Take the eviction over: KubeVirt notes it in the machine, and refuses the request."""
        pods = f"/api/v1/namespaces/{request['namespace']}/pods"
        pod = self._plane.get(f"{pods}/{request['name']}")
        name = pod["metadata"]["labels"]["app"]
        leaving = {"status": {"evacuationNodeName": pod["spec"]["nodeName"]}}
        self._patch(self._path(MACHINE, name), leaving)
        self.taken_over.append(name)
        said = f'Eviction triggered evacuation of VMI "{request["namespace"]}/{name}"'
        return {
            "uid": request["uid"],
            "allowed": False,
            "status": {"code": 429, "message": said},
        }

    def _handler(self) -> type[Handler]:
        review = self._review

        class Webhook(Handler):
            def respond(self) -> None:
                asked = json.loads(self.body())
                response = {**asked, "response": review(asked["request"])}
                self.reply(json.dumps(response).encode())

        return Webhook
