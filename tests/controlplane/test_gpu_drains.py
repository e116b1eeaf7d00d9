"""Nodes of a real API server are drained for pods that wait for GPUs, with the real scheduler."""

import pytest

from desched.plugins.gpus.drains.drain import GPU_DEMAND, DrainEnd, drains_of
from desched.plugins.gpus.drains.rules import GpuDrainRules
from desched.plugins.gpus.plugin import Gpus
from tests.builders import STEERED, house, no_limits_but, policy, rule
from tests.controlplane.aged_cluster import AgedCluster
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import DEPLOY
from tests.controlplane.manifests import VOLCANO_GROUPS, Object, deployment, pod_spec, volcano_group
from tests.controlplane.test_deploy import install

GPU = "nvidia.com/gpu"
NODES, REPLICAS = 40, 8


def with_gpus(manifest: Object, count: int) -> Object:
    """The same with a container that requests GPUs."""
    spec = manifest["spec"]
    spec = spec["template"]["spec"] if "template" in spec else spec
    spec["containers"][0]["resources"] = {"limits": {GPU: str(count), "cpu": "4"}}
    return manifest


def waiting(namespace: str, name: str, **annotations: str) -> Object:
    """A pod with eight GPUs."""
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    spec = pod_spec(priorityClassName="")
    return with_gpus({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, 8)


@pytest.fixture
def cluster(control_plane: ControlPlane) -> AgedCluster:
    """A pod with one GPU on each node; a pod and a gang of two wait for eight GPUs each."""
    nodes = [f"gpu{i}" for i in range(NODES)]
    control_plane.add_node(*nodes, cpu="64", memory="256Gi", resources={GPU: "8"})
    install(control_plane, "overlays/evict")
    control_plane.serve(VOLCANO_GROUPS)
    control_plane.apply((DEPLOY / "pod-groups" / "volcano.yaml").read_text())
    apps, train = control_plane.create_namespace(), control_plane.create_namespace()
    apart = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
    rule_ = apart | {"topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "podAffinityTerm": rule_}]}}  # fmt: skip
    control_plane.apply(
        *(
            with_gpus(deployment(f"job{i}", REPLICAS, "1", apps, affinity=affinity), 1)
            for i in range(NODES // REPLICAS)
        )
    )
    pods = control_plane.wait_for_ready_pods(apps, NODES)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == NODES
    marks = {"scheduling.k8s.io/group-name": "llama"}
    control_plane.apply(
        volcano_group(train, "llama", 2),
        waiting(train, "big"),
        *(waiting(train, f"rank{i}", **marks) for i in range(2)),
    )
    rules = GpuDrainRules(namespaces=(train,), pending_seconds=60)
    by = policy(rule(), limits=no_limits_but(), plugins=house(Gpus(rules)), **STEERED)
    found = AgedCluster(control_plane.kubeconfig_for("desched-system", "desched"), train, by)
    found.ratios = dict.fromkeys(nodes, 0.3)
    control_plane.wait_for("settled workloads", found.is_settled)
    control_plane.wait_for(
        "pods that no node can take", lambda: all(pod.unschedulable for pod in found.members())
    )
    return found


def test_three_nodes_are_drained_for_a_pod_and_a_gang(
    control_plane: ControlPlane, cluster: AgedCluster
) -> None:
    """S4.2, S4.3: the planned moves, no others, and what waited runs on the drained nodes."""
    report = cluster.cycle()
    assert len(report.plan.evictions) == 3, report.plan
    assert {each.purpose for each in report.plan.evictions} == {GPU_DEMAND}
    drained = {each.node for each in report.plan.evictions}
    assert {change.node for change in report.taints} == drained

    def run() -> bool:
        pods = cluster.members()
        return {pod.node for pod in pods} == drained and all(pod.ready for pod in pods)

    control_plane.wait_for("pods with eight GPUs on the drained nodes", run)
    following = cluster.cycle()
    assert not following.plan.evictions
    assert [drain.end for drain in drains_of(following.state)] == [DrainEnd.LANDED] * 2
