"""The adapter reads a real API server and understands its answers."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from desched.adapters.bounded_http import Deadline
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, connect
from desched.adapters.kubernetes.client.paged_reads import Reading
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.events import LONGEST_NOTE_BYTES, EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.adapters.kubernetes.objects.autoscalers import AUTOSCALERS
from desched.adapters.kubernetes.objects.volcano_scheduler import KEY
from desched.api_objects.access import Access
from desched.errors import ObservationError, StopActing
from desched.model.cluster import (
    ClusterState,
    HostPort,
    Pod,
    PodAffinityTerm,
    PodRef,
    PodVolume,
    Service,
    SpreadConstraint,
    Taint,
    Toleration,
    VolumeKind,
    Workload,
)
from desched.model.report import EvictionVerdict
from desched.model.resources import Amounts, quantity
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.model.snapshot import FreshPod
from desched.plugins.queues.objects import Queue, QueueObjects
from desched.ports import Announcement, PodToRead
from desched.service.process.clock import SystemClock
from tests.builders import planned_eviction
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import DEPLOY
from tests.controlplane.manifests import custom_kind, pod_spec

Object = dict[str, Any]

MI = 2**20
GI = 2**30


def container(name: str = "main", **requests: str) -> Object:
    return {"name": name, "image": "none", "resources": {"requests": requests}}


def workload(
    namespace: str, kind: str = "Deployment", name: str = "web", replicas: int = 1, **pod: object
) -> Object:
    spec: Object = {"containers": [container(cpu="100m", memory="64Mi")], **pod}
    found: Object = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }
    if kind == "StatefulSet":
        found["spec"]["serviceName"] = name
    return found


def budget(namespace: str, name: str, **spec: object) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def reader_of(kubeconfig: Path, page_size: int = 500) -> KubernetesReader:
    return KubernetesReader(connect(kubeconfig, None), page_size=page_size)


def evictor_of(kubeconfig: Path) -> KubernetesEvictor:
    connection = connect(kubeconfig, None)
    return KubernetesEvictor(connection, EventWriter(connection, SystemClock()))


def test_only_a_group_that_the_server_lacks_makes_a_kind_absent(
    control_plane: ControlPlane,
) -> None:
    account = control_plane.kubeconfig_for("default", "default")
    assert connect(account, None).get("/apis").status == 200  # it has no rights of its own

    connection = connect(control_plane.admin_kubeconfig, None)
    read = Reading(connection, 500, DEADLINE_SECONDS, Deadline(DEADLINE_SECONDS))

    def autoscalers(group: str, version: str) -> list[Any]:
        what = Access("list", group, "horizontalpodautoscalers", "", "", version)
        return list(read.all(AUTOSCALERS._replace(access=what)))

    assert autoscalers("absent.example", "v2") == []
    with pytest.raises(ObservationError, match="does not have that kind"):
        autoscalers("autoscaling", "v9")


def pods_of(cluster: ClusterState, namespace: str) -> list[Pod]:
    return sorted((p for p in cluster.pods if p.namespace == namespace), key=lambda pod: pod.name)


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    control_plane.add_node("te1", "te2")
    return control_plane.create_namespace(labels={"team": "shop"})


def test_nodes_are_read_as_they_are(control_plane: ControlPlane) -> None:
    control_plane.add_node(
        "te1",
        cpu="3920m",
        memory="16Gi",
        labels={"disk": "ssd"},
        taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        resources={"nvidia.com/gpu": "2"},
    )

    (node,) = reader_of(control_plane.admin_kubeconfig).read_cluster().nodes

    assert node.name == "te1"
    assert node.ready
    assert not node.unschedulable
    assert node.labels["disk"] == "ssd"
    assert node.taints == (Taint("gpu", "NoSchedule", "yes"),)
    assert node.allocatable == Amounts(3920, 16 * GI, pods=110, extended=(("nvidia.com/gpu", 2),))
    assert "te1" in node.addresses
    assert node.operating_system == "linux"


def test_a_deployments_pod_is_read_with_all_that_decides(
    control_plane: ControlPlane, namespace: str
) -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "Exists"}]}
                ]
            }
        }
    }
    control_plane.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "low"},
            "value": 1000,
        },
        workload(
            namespace,
            affinity=affinity,
            nodeSelector={"kubernetes.io/os": "linux"},
            tolerations=[{"key": "gpu", "operator": "Exists"}],
            priorityClassName="low",
            schedulerName="volcano",
            containers=[container(cpu="500m", memory="64Mi")],
            initContainers=[
                container("proxy", cpu="100m") | {"restartPolicy": "Always"},
                container("migrate", cpu="900m"),
            ],
            volumes=[{"name": "tmp", "emptyDir": {}}],
        ),
    )
    control_plane.wait_for_ready_pods(namespace, 1)

    cluster = reader_of(control_plane.admin_kubeconfig).read_cluster()

    (pod,) = pods_of(cluster, namespace)
    assert pod.ready
    assert pod.node in {"te1", "te2"}
    assert (pod.priority, pod.scheduler, pod.phase) == (1000, "volcano", "Running")
    assert pod.volumes == (PodVolume(VolumeKind.EMPTY_DIR, name="tmp"),)
    assert pod.scheduling.requests == Amounts(1000, 64 * MI, pods=1)
    assert pod.scheduling.node_selector == (("kubernetes.io/os", "linux"),)
    assert pod.scheduling.required_node_affinity == (
        NodeSelectorTerm((Requirement("kubernetes.io/arch", Operator.EXISTS),)),
    )
    assert Toleration("gpu", "Exists") in pod.scheduling.tolerations
    assert pod.scheduling.unevaluated == ()
    owner = cluster.workload_of(pod)
    assert owner is not None
    assert (owner.kind, owner.name, owner.desired_replicas) == ("Deployment", "web", 1)
    assert cluster.namespaces[namespace]["team"] == "shop"
    assert cluster.priority_classes["low"] == 1000
    assert cluster.server_version.startswith("v1.")


HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
IS_WEB = Requirement("app", Operator.IN, ("web",))


def required(*terms: Object) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def test_constraints_between_pods_are_read_as_the_server_keeps_them(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.add_node("te3", labels={ZONE: "a"})
    selector = {"matchLabels": {"app": "web"}}
    control_plane.apply(
        workload(
            namespace,
            affinity={
                "podAntiAffinity": required(
                    {
                        "topologyKey": HOSTNAME,
                        "labelSelector": selector,
                        "namespaceSelector": {},
                        "mismatchLabelKeys": ["pod-template-hash"],
                    }
                )
            },
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                    "minDomains": 1,
                    "nodeTaintsPolicy": "Honor",
                    "matchLabelKeys": ["pod-template-hash"],
                }
            ],
            hostNetwork=True,
            terminationGracePeriodSeconds=7,
            containers=[container() | {"ports": [{"containerPort": 8080}]}],
            volumes=[
                {"name": "cache", "emptyDir": {"medium": "Memory"}},
                {"name": "logs", "hostPath": {"path": "/var/log"}},
            ],
        ),
    )
    control_plane.wait_for_ready_pods(namespace, 1)
    cluster = reader_of(control_plane.admin_kubeconfig).read_cluster()

    (pod,) = pods_of(cluster, namespace)
    revision = pod.labels["pod-template-hash"]
    of_revision = Requirement("pod-template-hash", Operator.IN, (revision,))
    of_others = Requirement("pod-template-hash", Operator.NOT_IN, (revision,))
    assert pod.scheduling.pod_anti_affinity == (
        PodAffinityTerm(
            HOSTNAME, LabelSelector((IS_WEB, of_others)), namespace_selector=LabelSelector()
        ),
    )
    assert pod.scheduling.spread == (
        SpreadConstraint(
            ZONE,
            1,
            hard=True,
            selector=LabelSelector((IS_WEB, of_revision)),
            honors_taints=True,
            match_label_keys=("pod-template-hash",),
        ),
    )
    assert pod.scheduling.host_ports == (HostPort(8080),)
    assert pod.scheduling.images == ("none:latest",)
    assert pod.scheduling.unevaluated == ()
    assert (pod.grace_period_seconds, pod.resizing) == (7, False)
    assert pod.volumes == (
        PodVolume(VolumeKind.EMPTY_DIR, in_memory=True),
        PodVolume(VolumeKind.HOST_PATH, path="/var/log", name="logs"),
    )
    assert pod.owner is not None
    assert cluster.controller_selectors[pod.namespace, pod.owner.uid].requirements == (
        IS_WEB,
        of_revision,
    )


def job(namespace: str, name: str, **spec: object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {
                "metadata": {"annotations": {"desched.test/keep-running": "true"}},
                "spec": {"restartPolicy": "Never", "containers": [container()]},
            },
            **spec,
        },
    }


def test_a_job_says_whether_it_survives_an_eviction(
    control_plane: ControlPlane, namespace: str
) -> None:
    ignores = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    control_plane.apply(
        job(namespace, "frail"), job(namespace, "robust", podFailurePolicy={"rules": [ignores]})
    )
    control_plane.wait_for_ready_pods(namespace, 4)
    cluster = reader_of(control_plane.admin_kubeconfig).read_cluster()

    workloads = {w.name: w for w in map(cluster.workload_of, cluster.pods) if w is not None}
    assert {name: w.survives_disruption for name, w in workloads.items()} == {
        "frail": False,
        "robust": True,
    }
    assert {(w.kind, w.desired_replicas) for w in workloads.values()} == {("Job", 2)}


def test_replicas_autoscaler_and_policy_for_unhealthy_pods_are_read(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(
        workload(namespace, replicas=2),
        budget(namespace, "web", minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow"),
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 2,
                "maxReplicas": 5,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 50},
                        },
                    }
                ],
            },
        },
    )
    control_plane.wait_for_ready_pods(namespace, 2)
    reader = reader_of(control_plane.admin_kubeconfig)

    def told() -> Workload | None:
        found = list(reader.read_cluster().workloads.values())
        return found[0] if [w.ready_replicas for w in found] == [2] else None

    web = control_plane.wait_for("both replicas are told as Ready", told)
    assert web is not None
    assert web.autoscaler is not None
    assert (web.autoscaler.max_replicas, web.autoscaler.above_target) == (5, False)
    assert not web.scaling
    assert len(reader.read_cluster().budgets) == 1


SIDECAR = container("proxy", cpu="300m", memory="32Mi") | {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container("a", cpu="0.25", memory="64M"), container("b", cpu="1")]},
        {"initContainers": [SIDECAR, container("migrate", cpu="1", memory="1Gi")]},
        {"initContainers": [container("migrate", cpu="350m"), SIDECAR]},
        {"resources": {"requests": {"cpu": "700m", "memory": "1Gi"}}},
    ],
)
def test_requests_are_what_kubectl_counts_on_the_node(
    control_plane: ControlPlane, namespace: str, spec: Object
) -> None:
    control_plane.apply(workload(namespace, **spec))
    control_plane.wait_for_ready_pods(namespace, 1)
    (pod,) = pods_of(reader_of(control_plane.admin_kubeconfig).read_cluster(), namespace)

    described = control_plane.kubectl("describe", "node", pod.node)
    allocated = described.partition("Allocated resources:")[2].splitlines()
    shown = {words[0]: words[1] for words in map(str.split, allocated) if len(words) > 1}

    assert pod.scheduling.requests.cpu_millicores == quantity(shown["cpu"], per_unit=1000)
    assert pod.scheduling.requests.memory_bytes == quantity(shown["memory"])


def test_a_rollout_is_over_when_its_pods_are_ready(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.apply(
        workload(namespace, name="web", replicas=2),
        workload(namespace, "StatefulSet", "db", replicas=2),
    )
    reader = reader_of(control_plane.admin_kubeconfig)

    def settled() -> set[tuple[str, str]]:
        found = reader.read_cluster().workloads.values()
        return {
            (w.kind, w.name)
            for w in found
            if w.ready_replicas == w.desired_replicas and not w.rolling_out and not w.scaling
        }

    expected = {("Deployment", "web"), ("StatefulSet", "db")}
    control_plane.wait_for("both are settled", lambda: settled() == expected)


def test_budgets_services_and_storage_are_read(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(
        workload(namespace, replicas=3),
        budget(namespace, "web", minAvailable=2),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "example.com/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace},
            "spec": {
                "storageClassName": "fast",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    control_plane.wait_for_ready_pods(namespace, 3)
    reader = reader_of(control_plane.admin_kubeconfig)
    cluster = control_plane.wait_for(
        "the budget has room",
        lambda: next(
            (state for state in [reader.read_cluster()] if state.budgets[0].disruptions_allowed),
            None,
        ),
    )
    assert cluster is not None

    (found,) = cluster.budgets
    assert found.selector == LabelSelector((Requirement("app", Operator.IN, ("web",)),))
    assert (found.disruptions_allowed, found.up_to_date) == (1, True)
    assert all(cluster.budgets_of(pod) == (found,) for pod in pods_of(cluster, namespace))
    assert Service(namespace, "web", {"app": "web"}) in cluster.services
    assert cluster.claims[namespace, "data"].storage_class == "fast"
    assert cluster.storage_classes["fast"].waits_for_consumer


def test_pages_give_the_same_as_one_large_list(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(workload(namespace, replicas=7))
    control_plane.wait_for_ready_pods(namespace, 7)

    one = reader_of(control_plane.admin_kubeconfig).read_cluster()
    paged = reader_of(control_plane.admin_kubeconfig, page_size=2).read_cluster()

    assert len(pods_of(one, namespace)) == 7
    assert pods_of(paged, namespace) == pods_of(one, namespace)


def pod_now(reader: KubernetesReader, ref: PodRef) -> Pod | None:
    (look,) = reader.read_around([PodToRead(ref)])
    assert not isinstance(look, ObservationError)
    return look.pod if look else None


def test_a_pod_is_read_again_until_it_is_gone(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply(workload(namespace))
    control_plane.wait_for_ready_pods(namespace, 1)
    reader = reader_of(control_plane.admin_kubeconfig)
    (pod,) = pods_of(reader.read_cluster(), namespace)

    assert pod_now(reader, pod.ref) == pod
    assert pod_now(reader, PodRef(namespace, "nobody")) is None


def test_an_account_without_rights_is_told_which_one_it_lacks(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubectl("create", "serviceaccount", "stranger", "-n", namespace)
    stranger = control_plane.kubeconfig_for(namespace, "stranger")

    with pytest.raises(ObservationError, match=r"may not list nodes \(403\)"):
        reader_of(stranger).read_cluster()
    answer = evictor_of(stranger).evict(PodRef(namespace, "web", "uid"), "a test")

    assert answer.verdict is EvictionVerdict.FORBIDDEN
    assert "stranger" in answer.detail


def test_controllers_of_declared_kinds_are_read_by_the_right_to_list_them(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.serve(custom_kind("argoproj.io", "v1alpha1", "Rollout"))
    metadata = {"name": "web", "namespace": namespace, "annotations": {"desched.io/evict": "false"}}
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": metadata}
    control_plane.apply(rollout)
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/rollouts/web"
    uid = control_plane.get(path)["metadata"]["uid"]
    own = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": uid}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1",
            "namespace": namespace,
            "ownerReferences": [{**own, "controller": True}],
        },
        "spec": pod_spec(),
    }
    control_plane.apply(pod)
    reader = reader_of(control_plane.admin_kubeconfig)

    found = reader.read_cluster(["argoproj.io/Rollout", "argoproj.io/Absent"])
    assert found.declared_owners[namespace, uid] == {"desched.io/evict": "false"}
    assert found.unread_kinds == {"argoproj.io/Absent": "the API server does not have this kind"}
    (look,) = reader.read_around([PodToRead(PodRef(namespace, "web-1"))])
    assert isinstance(look, FreshPod)
    assert look.owner_annotations == {"desched.io/evict": "false"}


def test_queues_and_the_configuration_of_volcano_are_read_by_rights_of_their_own(
    control_plane: ControlPlane, namespace: str
) -> None:
    """X3, X4: as `deploy/` grants them; without them, nothing is known of either."""
    place = "volcano-system/volcano-scheduler-configmap"
    kueue, volcano = "kueue.x-k8s.io", "scheduling.volcano.sh"
    kinds = [
        custom_kind(kueue, "v1beta1", "ClusterQueue", scope="Cluster"),
        custom_kind(kueue, "v1beta1", "LocalQueue"),
        custom_kind(volcano, "v1beta1", "Queue", scope="Cluster"),
    ]
    active = [{"type": "Active", "status": "True", "reason": "Ready"}]
    for name in ("desched-system", "volcano-system"):
        control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for kind in kinds:
        control_plane.serve(kind)
    control_plane.apply(
        (DEPLOY / "base" / "rbac.yaml").read_text(),
        {
            "apiVersion": f"{kueue}/v1beta1",
            "kind": "ClusterQueue",
            "metadata": {"name": "team-a"},
            "status": {"pendingWorkloads": 2, "conditions": active},
        },
        {
            "apiVersion": f"{kueue}/v1beta1",
            "kind": "LocalQueue",
            "metadata": {"name": "main", "namespace": namespace},
            "spec": {"clusterQueue": "team-a"},
            "status": {"conditions": active},
        },
        {
            "apiVersion": f"{volcano}/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "research"},
            "status": {"state": "Closed"},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": place.partition("/")[2], "namespace": "volcano-system"},
            "data": {KEY: "tiers: [{plugins: [{name: predicates}, {name: nodeorder}]}]"},
        },
    )
    reader = reader_of(control_plane.kubeconfig_for("desched-system", "desched"))

    def readable() -> ClusterState | None:
        try:
            return reader.read_cluster((), (place,))
        except ObservationError:  # the authorizer learns of the ClusterRole a moment later
            return None

    found = control_plane.wait_for("the rights of the base", readable)
    assert found is not None
    assert found.extras == {}
    assert "may not get configmaps" in found.volcano_configurations[place].unclear
    for file in ("queues/kueue.yaml", "queues/volcano.yaml", "volcano-configuration.yaml"):
        control_plane.apply((DEPLOY / file).read_text())

    def fully_readable() -> ClusterState | None:
        read = reader.read_cluster((), (place,))
        stated = read.volcano_configurations[place]
        return (
            read if len(QueueObjects.of(read.extras).queues) == 3 and not stated.unclear else None
        )

    found = control_plane.wait_for("the rights", fully_readable)
    assert found is not None
    assert set(QueueObjects.of(found.extras).queues) == {
        Queue("Kueue", "", "team-a", waiting=2),
        Queue("Kueue", namespace, "main", cluster_queue="team-a"),
        Queue("Volcano", "", "research", closed="it admits nothing (Closed)"),
    }
    stated = found.volcano_configurations[place]
    assert (stated.unclear, stated.weights["tainttoleration.weight"]) == ("", 3)
    assert stated.weights["binpack.weight"] == 0
    for kind in kinds:
        control_plane.kubectl("delete", "crd", kind["metadata"]["name"])


def test_credentials_that_nobody_knows_are_refused_with_a_sentence(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    text = control_plane.admin_kubeconfig.read_text()
    token = next(line for line in text.splitlines() if "token:" in line).split()[-1]
    forged = tmp_path / "kubeconfig"
    forged.write_text(text.replace(token, "forged"))

    with pytest.raises(ObservationError, match=r"credentials are not accepted \(401\)"):
        reader_of(forged).read_cluster()
    with pytest.raises(StopActing, match="with 401"):
        evictor_of(forged).evict(PodRef("default", "web", "uid"), "a test")


class TestEvictions:
    @pytest.fixture(autouse=True)
    def deployed(self, control_plane: ControlPlane, namespace: str) -> None:
        control_plane.apply(workload(namespace, replicas=2))
        control_plane.wait_for_ready_pods(namespace, 2)
        self.control_plane = control_plane
        self.namespace = namespace
        self.reader = reader_of(control_plane.admin_kubeconfig)
        self.evictor = evictor_of(control_plane.admin_kubeconfig)
        self.pod = pods_of(self.reader.read_cluster(), namespace)[0].ref

    def budgets(self, *budgets: Object) -> None:
        """Applies them and waits until their controller has counted the pods."""
        self.control_plane.apply(*budgets)

        def counted() -> bool:
            path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
            found = [item.get("status", {}) for item in self.control_plane.items(path)]
            return all(status.get("currentHealthy") == 2 for status in found)

        self.control_plane.wait_for("budgets are counted", counted)

    def test_a_budget_without_room_refuses_with_its_numbers(self) -> None:
        self.budgets(budget(self.namespace, "web", minAvailable=2))

        answer = self.evictor.evict(self.pod, "a test")

        assert answer.verdict is EvictionVerdict.BLOCKED_BY_BUDGET
        assert "needs 2 healthy pods and has 2 currently" in answer.detail
        fresh = pod_now(self.reader, self.pod)
        assert fresh is not None
        assert not fresh.deleting

    def test_events_are_shown_on_the_pod_and_on_its_node(self) -> None:
        pod = pod_now(self.reader, self.pod)
        assert pod is not None
        note = "Evicted because 节 is hot. " * 100

        with structlog.testing.capture_logs() as logs:
            self.evictor.announce(
                [Announcement(planned_eviction(pod.ref, pod.node, "te2"), note, datetime.now(UTC))]
            )

        assert logs == []
        on_pod = self.control_plane.kubectl("describe", "pod", pod.name, "-n", pod.namespace)
        on_node = self.control_plane.kubectl("describe", "node", pod.node)
        for shown in (on_pod, on_node):
            assert "Descheduled" in shown
            assert "Evicted because 节 is hot." in shown
            assert "desched" in shown
        assert len(note.encode()) > LONGEST_NOTE_BYTES

    def test_a_warning_on_desched_itself_is_shown_on_its_pod(self) -> None:
        connection = connect(self.control_plane.admin_kubeconfig, None)
        own = PodRef(self.namespace, self.pod.name)
        writer = EventWriter(connection, SystemClock(), own)

        with structlog.testing.capture_logs() as logs:
            writer.warn_on_self("PolicyRefused", "line 3: no such key")

        assert logs == []
        shown = self.control_plane.kubectl("describe", "pod", self.pod.name, "-n", self.namespace)
        assert "PolicyRefused" in shown
        assert "line 3: no such key" in shown
