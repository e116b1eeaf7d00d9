"""Requirements of AI clusters, by `desched plan` on manifests as users write them.

Controllers and schedulers are played here: pods are where a case puts them. From the API server on,
all is real: the command reads the objects and the load, plans, and prints the report.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.unit.commands.sampled_cluster import SampledCluster
from tests.unit.commands.test_doctor import OLD
from tests.unit.test_tutorial_volcano import PUBLISHED

HOT = "te1"
Object = dict[str, Any]
CommandLine = Callable[..., tuple[int, str, str]]
CLUSTER_WIDE = {"Node", "PersistentVolume", "HyperNode"}


class Manifests:
    """What users, controllers and schedulers have put into a cluster."""

    def __init__(self, nodes: Mapping[str, Object]) -> None:
        """Nodes by name, with what differs from a node of 8 cores: labels and resources."""
        self.lists: dict[str, list[Object]] = {}
        self.nodes = tuple(nodes)
        for name, differs in nodes.items():
            size = {"cpu": "8", "memory": "64Gi", "pods": "110"} | differs.get("resources", {})
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            self._add(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "labels": labels | differs.get("labels", {})},
                    "spec": {},
                    "status": {
                        "capacity": size,
                        "allocatable": size,
                        "conditions": [{"type": "Ready", "status": "True"}],
                        "nodeInfo": {"operatingSystem": "linux"},
                    },
                }
            )

    def _add(self, document: Object) -> Object:
        """Put it into the list in which an API server has it."""
        kind, version, metadata = document["kind"], document["apiVersion"], document["metadata"]
        metadata.setdefault("creationTimestamp", OLD)
        metadata.setdefault("uid", f"uid-{kind}-{metadata['name']}")
        if kind not in CLUSTER_WIDE:
            metadata.setdefault("namespace", "apps")
        plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
        path = f"/{'apis' if '/' in version else 'api'}/{version}/{plural}"
        self.lists.setdefault(path, []).append(document)
        return document

    def apply(self, text: str, *on: str) -> None:
        """Add these manifests; the pods of each are on these nodes."""
        for document in yaml.safe_load_all(text):
            made = self._add(document)
            match document["kind"]:
                case "Pod":
                    self._run(made, on[0])
                case "Deployment":
                    self._replicate(made, on)
                case "Job" if made["apiVersion"].startswith("batch.volcano.sh/"):
                    self._volcano_job(made, on)
                case "Job":
                    template = made["spec"]["template"]
                    self._pods(made, template, made["metadata"]["name"], on)

    def _replicate(self, deployment: Object, on: tuple[str, ...]) -> None:
        name, template = deployment["metadata"]["name"], deployment["spec"]["template"]
        deployment["spec"] |= {"replicas": len(on), "selector": {"matchLabels": {"app": name}}}
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        deployment["status"] = dict.fromkeys(counts, len(on)) | {"observedGeneration": 1}
        deployment["metadata"]["generation"] = 1
        template.setdefault("metadata", {}).setdefault("labels", {})["app"] = name
        replicas = copy.deepcopy(deployment) | {"kind": "ReplicaSet"}
        replicas["metadata"] = {"name": f"{name}-5d4", "ownerReferences": [_owner(deployment)]}
        self._pods(self._add(replicas), template, name, on)

    def _pods(self, owner: Object, template: Object, name: str, on: Iterable[str]) -> None:
        for number, node in enumerate(on):
            made: Object = copy.deepcopy({"apiVersion": "v1", "kind": "Pod", **template})
            made.setdefault("metadata", {}).update(
                name=f"{name}-{number}", ownerReferences=[_owner(owner)]
            )
            self._run(self._add(made), node)

    def _volcano_job(self, job: Object, on: tuple[str, ...]) -> None:
        """What the webhook, the controller and the scheduler of Volcano make of a job."""
        name, (task,) = job["metadata"]["name"], job["spec"]["tasks"]
        task.setdefault("minAvailable", task["replicas"])
        job["status"] = {"state": {"phase": "Running"}}
        group = f"{name}-{job['metadata']['uid']}"
        spec = {
            "minMember": job["spec"].get("minAvailable", task["replicas"]),
            "minTaskMember": {task["name"]: task["minAvailable"]},
        }
        self._add(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": group},
                "spec": spec,
                "status": {"phase": "Running"},
            }
        )
        marks = {
            "scheduling.k8s.io/group-name": group,
            "volcano.sh/job-name": name,
            "volcano.sh/task-spec": task["name"],
        }
        template = task["template"] | {"metadata": {"annotations": marks}}
        template["spec"]["schedulerName"] = "volcano"
        self._pods(job, template, f"{name}-{task['name']}", on)

    def _run(self, pod: Object, node: str) -> None:
        pod["spec"]["nodeName"] = node
        pod["status"] = {
            "phase": "Running",
            "qosClass": "Burstable",
            "startTime": OLD,
            "conditions": [{"type": "Ready", "status": "True"}],
        }


def _owner(of: Object) -> Object:
    metadata = of["metadata"]
    return {
        "apiVersion": of["apiVersion"],
        "kind": of["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


@pytest.fixture
def plan(
    sampled: SampledCluster,
    command_line: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., str]:
    """Runs `desched plan` on manifests with keys of LoadAware; what it printed, on one line.

    The node te1 uses 90 % of its CPU, and each pod a core.
    """
    monkeypatch.setenv("COLUMNS", "300")

    def printed(cluster: Manifests, **keys: Any) -> str:
        sampled.server.lists |= cluster.lists
        sampled.usage = {name: "7200m" if name == HOT else "800m" for name in cluster.nodes}
        pods = (each["metadata"] for each in cluster.lists["/api/v1/pods"])
        sampled.pod_usage = {(pod["namespace"], pod["name"]): "1" for pod in pods}
        sampled.begin(120)
        path = tmp_path / "policy.yaml"
        path.write_text(yaml.safe_dump(policy(keys)))
        code, out, err = command_line("plan", "--policy", str(path), "--wait", "2m", "--all")
        assert code == 0, err
        return " ".join(out.split())

    return printed


def policy(keys: Mapping[str, Any]) -> Object:
    """The published policy of Volcano's guide, by metrics-server and with these keys."""
    document: Object = yaml.safe_load(yaml.safe_load(PUBLISHED.read_text())["data"]["policy.yaml"])
    for plugin in document["profiles"][0]["pluginConfig"]:
        if plugin["name"] == "DefaultEvictor":
            plugin["args"]["ignorePvcPods"] = False
        else:
            plugin["args"] |= {
                "metrics": {"type": "metrics-server"},
                "evictableNamespaces": {"exclude": ["kube-system"]},
                "gpuPods": "Allow",
                **keys,
            }
    return document


def deployment(
    name: str = "web", annotations: str = "{}", labels: str = "{}", spec: str = ""
) -> str:
    """A Deployment with what differs in its pod template."""
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  template:
    metadata: {{annotations: {annotations}, labels: {labels}}}
    spec: {{containers: [{{name: app, image: app, resources: {{requests: {{cpu: 500m}}}}}}]{spec}}}
"""


GROUP = "cloud.google.com/gke-placement-group"
ZONE = "topology.kubernetes.io/zone"
BLOCK, RACK = "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"
KOORDINATOR = "gang.scheduling.koordinator.sh"
GANG = f'{{{KOORDINATOR}/name: llama, {KOORDINATOR}/min-available: "2"}}'
VPC = """{networking.gke.io/interfaces: '[{"interfaceName":"e","network":"vpc1"}]'}"""
WORKER_SET = "leaderworkerset.sigs.k8s.io"


class Case(NamedTuple):
    """Manifests whose pods are on the hot node, and why they stay there; without it, one moves.

    `peers` are further nodes with one pod each, `cool` the other nodes with what differs of them.
    """

    text: str
    why: str = ""
    cool: Mapping[str, Object] = {"te2": {}}
    hot: Mapping[str, Any] = {}
    peers: tuple[str, ...] = ("te2",)


def labels(**of: str) -> Object:
    return {"labels": of}


def network(**of: str) -> Object:
    return {"labels": {BLOCK: of["block"], RACK: of["rack"]}}


AWS = "topology.k8s.aws/network-node-layer-"
LOCAL = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec:
  capacity: {storage: 1Gi}
  local: {path: /mnt/disk}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [te1]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {volumeName: pv, accessModes: [ReadWriteMany]}
---
"""
ZONAL = LOCAL.replace("local: {path: /mnt/disk}", "csi: {driver: x, volumeHandle: y}").replace(
    "key: kubernetes.io/hostname, operator: In, values: [te1]",
    "key: topology.kubernetes.io/zone, operator: In, values: [a]",
)
USES_DATA = ", volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"
BARE = """
apiVersion: v1
kind: Pod
metadata: {name: sky-head, labels: {parent: skypilot, skypilot-cluster-name: sky}}
spec: {containers: [{name: ray, image: sky, resources: {requests: {cpu: "1"}}}]}
"""
LEADER = """
apiVersion: batch/v1
kind: Job
metadata: {name: trial}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}
"""

EIGHT_RAILS = (
    ', priorityClassName: "", initContainers: '
    '[{name: i, image: i, resources: {requests: {vpc.amazonaws.com/efa: "8"}}}]'
)
TCPX = (
    ", volumes: [{name: libs, hostPath: {path: /home/kubernetes/bin/nvidia}}, "
    "{name: sock, hostPath: {path: /run/tcpx}}, {name: shm, emptyDir: {medium: Memory}}], "
    'initContainers: [{name: i, image: i, resources: {requests: {nvidia.com/gpu: "1"}}}]'
)
HYPER_NODES = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s0}
spec: {tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: "^te[12]$"}}}]}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: s1}
spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: te3}}}]}
---
"""
TOPOLOGY = """{scheduling.k8s.io/group-name: podgroup-1,
  volcano.sh/network-topology-mode: hard, volcano.sh/network-topology-highest-tier: "1"}"""
GROUP_OF_ONE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: one}
spec: {minMember: 1}
status: {phase: Running}
---
"""
GUIDE_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: topology-job}
spec:
  minAvailable: 6
  schedulerName: volcano
  tasks:
  - replicas: 10
    name: worker
    template:
      spec: {restartPolicy: OnFailure, containers: [{name: worker, image: nginx}]}
"""
RESTARTING = GUIDE_JOB + "  policies: [{event: PodEvicted, action: RestartJob}]\n"

CLUSTER_QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-a, namespace: ""}
status: {pendingWorkloads: %d, conditions: [{type: Active, status: "True", reason: Ready}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main}
spec: {clusterQueue: team-a}
status: {conditions: [{type: Active, status: "True"}]}
---
"""
OF_KUEUE = '{kueue.x-k8s.io/managed: "true", kueue.x-k8s.io/queue-name: main}'
VOLCANO_QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research, namespace: ""}
status: {state: Open}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: podgroup-1}
spec: {minMember: 1, queue: research}
status: {phase: Running}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: llama}
spec: {minMember: 8, queue: research}
status: {phase: %s}
---
"""
OF_VOLCANO = "{scheduling.k8s.io/group-name: podgroup-1}"

CASES = {
    "R0.1 a rack of the same name in another block is another one": Case(
        deployment(annotations=GANG),
        "outside its placement domain",
        {"te2": network(block="b1", rack="r1"), "te3": network(block="b2", rack="r1")}
        | {"te2": network(block="b1", rack="r1") | {"resources": {"cpu": "1"}}},
        network(block="b1", rack="r1"),
        ("te2", "te2"),
    ),
    "R0.2 a pod without a selector stays in its placement group": Case(
        deployment(),
        "placement_domain: cloud.google.com/gke-placement-group=pg1",
        {"te2": {"labels": {GROUP: "pg2"}}},
        {"labels": {GROUP: "pg1"}},
    ),
    "R0.2 and moves inside it": Case(
        deployment(), "", {"te2": {"labels": {GROUP: "pg1"}}}, {"labels": {GROUP: "pg1"}}
    ),
    "R0.3 a pod of a gang stays in the rack of its nearest peer": Case(
        deployment(annotations=GANG),
        "outside its placement domain",
        {
            "te2": network(block="b1", rack="r1") | {"resources": {"cpu": "1"}},
            "te3": network(block="b1", rack="r2"),
        },
        network(block="b1", rack="r1"),
        ("te2", "te2"),
    ),
    "R0.4 a bare pod of SkyPilot stays": Case(BARE, "nothing creates its pods again", peers=()),
    "R0.6 layers of EKS count from the widest": Case(
        deployment(annotations=GANG),
        "outside its placement domain",
        {
            "te2": {"labels": {f"{AWS}1": "n1", f"{AWS}2": "m1"}, "resources": {"cpu": "1"}},
            "te3": {"labels": {f"{AWS}1": "n2", f"{AWS}2": "m1"}},
        },
        {"labels": {f"{AWS}1": "n1", f"{AWS}2": "m1"}},
        ("te2", "te2"),
    ),
    "R1.1 data on the disk of the node keeps it": Case(
        LOCAL + deployment(spec=USES_DATA), "node_bound_volume: claim data: its volume pv"
    ),
    "R1.1 a hostPath with data keeps it": Case(
        deployment(spec=", volumes: [{name: m, hostPath: {path: /models}}]"), "host_path: /models"
    ),
    "R1.2 a pod stays while only its node has its model": Case(
        deployment(annotations="{desched.io/cache-key: llama-70b}"),
        "model_cache: model llama-70b is on te1 only",
        hot=labels(**{"cache.desched.io/llama-70b": "true"}),
    ),
    "R1.2 and moves to another one that has it": Case(
        deployment(annotations="{desched.io/cache-key: llama-70b}"),
        "",
        {"te2": labels(**{"cache.desched.io/llama-70b": "true"})},
        labels(**{"cache.desched.io/llama-70b": "true"}),
    ),
    "R1.3 a volume of another zone keeps it": Case(
        ZONAL + deployment(spec=USES_DATA),
        "no_node_fits",
        {
            "te2": labels(**{ZONE: "b"}),
            "te3": labels(**{ZONE: "a"}) | {"resources": {"cpu": "400m"}},
        },
        labels(**{ZONE: "a"}),
        ("te2",),
    ),
    "R1.4 a pod with a hostname in its selector stays": Case(
        deployment(spec=", nodeSelector: {kubernetes.io/hostname: te1}"), "no_node_fits"
    ),
    "R2.1 ranks of Kubeflow stay": Case(
        deployment(labels="{training.kubeflow.org/job-name: llama}"), "(Kubeflow)"
    ),
    "R2.1 a group that needs one pod is no gang": Case(
        GROUP_OF_ONE + deployment(annotations="{scheduling.k8s.io/group-name: one}")
    ),
    "R2.2 a gang that needs all its pods keeps them": Case(
        deployment(annotations=GANG), "gang apps/llama (Koordinator): 2 of 2 needed"
    ),
    "R2.3 a group of a LeaderWorkerSet stays": Case(
        deployment(
            labels=f'{{{WORKER_SET}/name: llama, {WORKER_SET}/group-index: "0"}}',
            annotations=f'{{{WORKER_SET}/size: "2"}}',
        ),
        "2 of 2 needed",
    ),
    "R2.3 a Volcano Job with a policy stays": Case(
        RESTARTING, "RestartJob on PodEvicted, which an eviction may raise; 3 such evictions"
    ),
    "R2.4 a hard topology holds": Case(
        HYPER_NODES + deployment(annotations=TOPOLOGY),
        "HyperNode s0",
        {"te2": {"resources": {"cpu": "1"}}, "te3": {}},
        peers=("te2",),
    ),
    "R2.5 a pod that Volcano may not preempt stays": Case(
        deployment(annotations='{volcano.sh/preemptable: "false"}'), "opted_out"
    ),
    "R2.6 a pod that Kueue assigned to a host stays": Case(
        deployment(annotations="{kueue.x-k8s.io/podset-required-topology: rack}"), "(Kueue)"
    ),
    "R2.6 a share of a GPU stays": Case(
        deployment(annotations='{gpu-fraction: "0.5"}'), "fractions of a GPU"
    ),
    "R2.10 a priority at the threshold keeps it": Case(
        deployment(spec=", priority: 10000"), "priority_threshold: priority 10000"
    ),
    "R3.1 rails that are not free keep it": Case(
        deployment(spec=EIGHT_RAILS),
        "no_node_fits",
        {
            "te2": {"resources": {"vpc.amazonaws.com/efa": "7"}},
            "te3": {"resources": {"vpc.amazonaws.com/efa": "8"}},
        },
        {"resources": {"vpc.amazonaws.com/efa": "8"}},
        ("te3",),
    ),
    "R3.5 paths of drivers and memory do not keep a pod with a device": Case(
        deployment(spec=TCPX),
        "",
        {"te2": {"resources": {"nvidia.com/gpu": "8"}}},
        {"resources": {"nvidia.com/gpu": "8"}},
    ),
    "R3.2 networks that cannot be read keep it": Case(
        deployment(annotations="{networking.gke.io/interfaces: 'eth1'}"), "networks_unknown"
    ),
    "R3.2 a network that the other node lacks keeps it": Case(
        deployment(annotations=VPC),
        "networking.gke.io.networks/vpc1",
        hot={"resources": {"networking.gke.io.networks/vpc1": "1"}},
    ),
    "R3.3 a pod with a fast network stays with its accelerator": Case(
        deployment(annotations=VPC),
        "cloud.google.com/gke-accelerator=nvidia-h100-80gb",
        {
            "te2": labels(**{"cloud.google.com/gke-accelerator": "nvidia-a100"})
            | {"resources": {"networking.gke.io.networks/vpc1": "1"}}
        },
        labels(**{"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"})
        | {"resources": {"networking.gke.io.networks/vpc1": "1"}},
    ),
    "R3.4 a claim of its own devices keeps it": Case(
        deployment(spec=", resourceClaims: [{name: gpu, resourceClaimName: shared}]"),
        "resource_claims",
    ),
    "R4.5 a Job that one eviction fails stays": Case(LEADER, "job_counts_eviction", peers=()),
    "X4 a pod that Kueue admits stays while a Workload waits in its queue": Case(
        CLUSTER_QUEUES % 2 + deployment(labels=OF_KUEUE),
        "queue_busy: ClusterQueue team-a (Kueue): 2 Workloads wait there",
    ),
    "X4 it moves while none does": Case(CLUSTER_QUEUES % 0 + deployment(labels=OF_KUEUE)),
    "X4 a pod of Volcano stays while a group waits in its queue": Case(
        VOLCANO_QUEUE % "Pending" + deployment(annotations=OF_VOLCANO),
        "queue_busy: queue research (Volcano): 1 PodGroup waits there: apps/llama",
    ),
    "X4 it moves while all run": Case(
        VOLCANO_QUEUE % "Running" + deployment(annotations=OF_VOLCANO)
    ),
    "an ordinary Deployment moves": Case(deployment()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_requirement_of_ai_clusters_is_seen_in_the_plan(
    name: str, plan: Callable[..., str]
) -> None:
    """R0.1, R0.2, R0.3, R0.4, R0.6, R1.1, R1.2, R1.3, R1.4, R2.1, R2.2, R2.3, R2.4, R2.5, R2.6,
    R2.10, R3.1, R3.2, R3.3, R3.4, R3.5, R4.5: each case has its code.
    """
    text, why, cool, hot, peers = CASES[name]
    cluster = Manifests({HOT: dict(hot), **cool})
    cluster.apply(text, HOT, *peers)
    printed = plan(cluster, volcanoJobs="Surplus")
    if not why:
        assert "It would evict 1 pod." in printed
        return
    assert "Would evict" not in printed
    for shown in why.split(": "):  # a code and a detail, with its sentence in between
        assert shown in printed


def test_the_job_of_the_guide_spares_exactly_four(plan: Callable[..., str]) -> None:
    """R2.2: minAvailable 6 of 10 without policies, with as many evictions as wanted."""
    cluster = Manifests({f"te{i}": {} for i in range(1, 9)})
    cluster.apply(GUIDE_JOB, *(HOT,) * 6, *("te2",) * 4)
    limits = {"node": 10, "workload": 10, "workloadHourly": 10, "slowStart": False}
    targets = {"cpu": 42, "memory": 85}
    keys: dict[str, Any] = {"evictionLimits": limits, "targetThresholds": targets}
    printed = plan(cluster, volcanoJobs="Surplus", **keys)
    assert "It would evict 4 pods." in printed
    assert "6 needed" in printed
    assert "Would evict" not in plan(cluster, **keys)


GANG_OF_THREE = HYPER_NODES.replace("^te[12]$", "^te[123]$").replace(
    "exactMatch: {name: te3}", 'regexMatch: {pattern: "^te[456]$"}'
) + GROUP_OF_ONE.replace("name: one", "name: llama").replace(
    "{minMember: 1}", "{minMember: 3, networkTopology: {mode: hard, highestTierAllowed: 1}}"
)
IN_GROUP = "{scheduling.k8s.io/group-name: llama}"


@pytest.mark.parametrize(
    ("requested", "aware", "shown"),
    [
        ("5000m", True, "te4"),
        ("500m", True, "Volcano may place it in HyperNode s0 or s1"),
        ("5000m", False, "te2 or te3"),
    ],
)
def test_a_whole_gang_enters_the_hyper_node_that_volcano_chooses(
    requested: str, aware: object, shown: str, plan: Callable[..., str]
) -> None:
    """R2.3, R2.4: the other rack is idle; by requests it is the fuller one with 5 CPUs a node."""
    cluster = Manifests({f"te{i}": {} for i in range(1, 7)})
    ranks = deployment("llama", IN_GROUP, spec=", schedulerName: volcano").replace("500m", "2000m")
    cluster.apply(GANG_OF_THREE + ranks, "te1", "te2", "te3")
    cluster.apply(deployment("idle").replace("500m", requested), "te4", "te5", "te6")
    printed = plan(
        cluster,
        gangMode="Whole",
        scheduler={"others": {"volcano": {"profile": "Volcano", "networkTopologyAware": aware}}},
        evictionLimits={"workloadHourly": "100%", "slowStart": False},
    )
    assert shown in printed
    assert ("It would evict 3 pods." in printed) == ("may place" not in shown)


def test_the_plan_shows_how_spread_a_gang_is(plan: Callable[..., str]) -> None:
    """R0.3: and what would bring it closer, on an overloaded node."""
    rack, other = (network(block="b1", rack=name) for name in ("r1", "r2"))
    cluster = Manifests({HOT: rack, "te2": other, "te3": other})
    cluster.apply(deployment("llama", GANG.replace('"2"', '"3"')), HOT, "te2", "te3")
    assert (
        f"gang apps/llama (Koordinator): 3 pods on 3 nodes in {BLOCK}=b1; 1 pod would have to move "
        f"for all to be in {RACK}=r2" in plan(cluster)
    )


def test_each_requirement_of_the_table_has_a_case_of_its_own() -> None:
    """Those of load are in test_tutorial_volcano.py, those of whole gangs beside their rules."""
    seen = {name.split()[0] for name in CASES}
    assert {f"R0.{i}" for i in (1, 2, 3, 4, 6)} <= seen
    assert {f"R1.{i}" for i in range(1, 5)} <= seen
    assert {f"R2.{i}" for i in (1, 2, 3, 4, 5, 6, 10)} <= seen
    assert {f"R3.{i}" for i in range(1, 6)} <= seen
