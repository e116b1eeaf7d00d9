"""Pods in the model's words."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from desched.adapters.kubernetes.client.api_types import pods
from desched.adapters.kubernetes.objects import bounded_constraints
from desched.adapters.kubernetes.objects.pods import UNNAMED, PodBuilder
from desched.model.cluster import (
    CLAIMS_NOT_READ,
    HostPort,
    Owner,
    Pod,
    PodVolume,
    SchedulingClass,
    Toleration,
    VolumeKind,
)
from desched.model.resources import Amounts
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.plugins.annotations import ANNOTATIONS
from tests.unit.adapters.kubernetes import manifests

GI = 2**30


def built(document: manifests.Object, builder: PodBuilder | None = None) -> Pod:
    body = msgspec.json.encode(document)
    return (builder or PodBuilder()).pod(msgspec.json.decode(body, type=pods.Pod))


def test_a_realistic_pod_comes_out_whole() -> None:
    assert built(manifests.pod()) == Pod(
        namespace="shop",
        name="web-1",
        uid="uid-web-1",
        scheduling=SchedulingClass(
            requests=Amounts(cpu_millicores=500, memory_bytes=GI, pods=1),
            tolerations=(Toleration("node.kubernetes.io/not-ready", "Exists", effect="NoExecute"),),
            scored_cpu_millicores=500,
            scored_memory_bytes=GI,
            images=("registry.example/web:1",),
        ),
        created_at=datetime(2026, 1, 10, 8, tzinfo=UTC),
        labels={"app": "web", "pod-template-hash": "5d4"},
        annotations={"controller.kubernetes.io/pod-deletion-cost": "7"},
        owner=Owner("ReplicaSet", "web-5d4", "uid-web-5d4", "apps/v1"),
        node="te1",
        phase="Running",
        ready=True,
        started_at=datetime(2026, 1, 10, 8, tzinfo=UTC),
        priority=100,
        qos="Burstable",
        scheduler="default-scheduler",
    )


def test_a_builder_that_goes_on_shares_the_kept_classes_and_counts_their_terms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_constraints, "MOST_TERMS_OF_NAMESPACE", 2)

    def pod(app: str) -> manifests.Object:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        return manifests.pod(f"{app}-1", affinity={"podAntiAffinity": required})

    first = PodBuilder()
    kept = [built(pod("a"), first), built(pod("b"), first)]
    following = PodBuilder(kept)

    assert built(pod("a"), following).scheduling is kept[0].scheduling
    assert built(pod("c"), following).scheduling.unevaluated
    assert not built(pod("c"), PodBuilder(kept[:1])).scheduling.unevaluated


def test_a_pending_pod_may_lack_almost_everything_or_have_nulls_for_it() -> None:
    bare = {
        "metadata": manifests.metadata(
            "p", labels=None, annotations=None, ownerReferences=None, deletionTimestamp=None
        ),
        "spec": {
            "containers": [{"name": "a"}],
            "initContainers": None,
            "volumes": None,
            "nodeName": None,
            "priority": None,
            "affinity": None,
            "tolerations": None,
            "nodeSelector": None,
            "overhead": None,
        },
        "status": {"conditions": None, "containerStatuses": None},
    }
    pod = built(bare)

    assert (pod.node, pod.phase, pod.priority, pod.ready) == ("", "Pending", 0, False)
    assert (pod.owner, pod.started_at, pod.labels, pod.annotations) == (None, None, {}, {})
    assert (pod.grace_period_seconds, pod.resizing) == (30, False)
    assert pod.scheduling == SchedulingClass(
        Amounts(pods=1),
        scored_cpu_millicores=100,
        scored_memory_bytes=200 * 2**20,
        images=(":latest",),
    )


@pytest.mark.parametrize(("ready", "expected"), [("True", True), ("False", False)])
def test_ready_is_what_the_condition_says(ready: str, *, expected: bool) -> None:
    document = manifests.pod()
    document["status"]["conditions"] = [
        {"type": "ContainersReady", "status": "True"},
        {"type": "Ready", "status": ready},
    ]

    assert built(document).ready is expected


def test_a_pod_with_a_deletion_time_is_on_its_way_out() -> None:
    document = manifests.pod()
    document["metadata"]["deletionTimestamp"] = manifests.CREATED

    found = built(document)
    assert found.deleting
    assert found.leaves_at is not None
    assert f"{found.leaves_at:%Y-%m-%dT%H:%M:%SZ}" == manifests.CREATED


def test_only_the_controller_among_the_owners_counts() -> None:
    document = manifests.pod()
    document["metadata"]["ownerReferences"] = [
        manifests.owner("Application", "shop", controller=False),
        manifests.owner("StatefulSet", "db"),
    ]

    assert built(document).owner == Owner("StatefulSet", "db", "uid-db", "apps/v1")


def test_volumes_that_tie_or_lose_data_are_kept() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "cache", "emptyDir": {"medium": "Memory"}},
        {"name": "pages", "emptyDir": {"medium": "HugePages-2Mi"}},
        {"name": "logs", "hostPath": {"path": "/var/log"}},
        {"name": "config", "configMap": {"name": "web"}},
        {
            "name": "model",
            "csi": {
                "driver": "model.csi.gpustack.ai",
                "volumeAttributes": {"artifact": "qwen", "manifestDigest": "sha256:33"},
            },
        },
        {"name": "bare", "csi": {"driver": "model.csi.gpustack.ai"}},
        {"name": "secret", "csi": {"driver": "other", "volumeAttributes": None}},
    ]

    assert built(manifests.pod(volumes=volumes)).volumes == (
        PodVolume(VolumeKind.CLAIM, "data-web-1"),
        PodVolume(VolumeKind.EPHEMERAL_CLAIM, "web-1-scratch"),
        PodVolume(VolumeKind.EMPTY_DIR, name="tmp"),
        PodVolume(VolumeKind.EMPTY_DIR, in_memory=True),
        PodVolume(VolumeKind.EMPTY_DIR, in_memory=True),
        PodVolume(VolumeKind.HOST_PATH, path="/var/log", name="logs"),
        PodVolume(VolumeKind.MODEL, model="sha256:33"),
        PodVolume(VolumeKind.MODEL),
    )


@pytest.mark.parametrize("key", sorted(ANNOTATIONS))
def test_the_annotations_that_desched_reads_are_kept_and_no_others(key: str) -> None:
    document = manifests.pod()
    document["metadata"]["annotations"] = {"cni/ip": "10.0.0.1", key: "1", f"{key}-x": "1"}

    assert built(document).annotations == {key: "1"}


@pytest.mark.parametrize(
    "key",
    [
        rb"descheduler.alpha.kubernetes.io\/evict",
        rb"descheduler\u002ealpha.kubernetes.io/evict",
        rb"\u0064escheduler.alpha.kubernetes.io/evict",
    ],
)
def test_an_opt_out_is_seen_however_its_json_is_escaped(key: bytes) -> None:
    document = manifests.pod()
    document["metadata"]["annotations"] = {"KEY": "false"}
    body = msgspec.json.encode(document).replace(b"KEY", key)

    pod = PodBuilder().pod(msgspec.json.decode(body, type=pods.Pod))

    assert pod.annotations == {"descheduler.alpha.kubernetes.io/evict": "false"}


def test_a_grace_period_is_kept() -> None:
    pod = built(manifests.pod(terminationGracePeriodSeconds=3600))

    assert pod.grace_period_seconds == 3600


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"type": "PodResizePending", "status": "True", "reason": "Deferred"}, (True, True)),
        ({"type": "PodResizePending", "status": "True", "reason": "Infeasible"}, (True, False)),
        ({"type": "PodResizeInProgress", "status": "True"}, (True, False)),
        ({"type": "PodResizeInProgress", "status": "False"}, (False, False)),
        ({"type": "Initialized", "status": "True"}, (False, False)),
    ],
)
def test_a_pod_whose_resize_is_pending_or_under_way_is_resizing(
    condition: dict[str, str], expected: tuple[bool, bool]
) -> None:
    document = manifests.pod()
    document["status"]["conditions"].append(condition)

    found = built(document)
    assert (found.resizing, found.resize_deferred) == expected


def waits(reason: str) -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason}}}


RUNS: dict[str, Any] = {"name": "main", "state": {"running": {}}}


@pytest.mark.parametrize(
    ("init", "main", "expected"),
    [
        (None, [RUNS, waits("CrashLoopBackOff")], "CrashLoopBackOff"),
        ([waits("ImagePullBackOff")], [waits("PodInitializing")], "ImagePullBackOff"),
        ([RUNS], [waits("PodInitializing")], ""),
        (None, [RUNS, {"name": "main"}, {"name": "main", "state": {"waiting": {}}}], ""),
        (None, None, ""),
    ],
)
def test_a_pod_that_is_not_ready_says_what_it_waits_for(
    init: object, main: object, expected: str
) -> None:
    document = manifests.pod()
    document["status"] |= {"initContainerStatuses": init, "containerStatuses": main}
    assert built(document).waiting_for == ""

    document["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert built(document).waiting_for == expected


def required(kind: str, content: object) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": content}}


def test_node_selector_and_required_node_affinity_are_read() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["te1"]}]},
        {},
    ]
    affinity = required("nodeAffinity", {"nodeSelectorTerms": terms})

    scheduling = built(
        manifests.pod(affinity=affinity, nodeSelector={"disk": "ssd", "arch": "amd64"})
    ).scheduling

    assert scheduling.node_selector == (("arch", "amd64"), ("disk", "ssd"))
    assert scheduling.required_node_affinity == (
        NodeSelectorTerm((Requirement("zone", Operator.IN, ("a", "b")),)),
        NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.NOT_IN, ("te1",)),)),
        NodeSelectorTerm(),
    )
    assert scheduling.unevaluated == ()


def test_no_required_affinity_differs_from_one_that_selects_no_node() -> None:
    empty = required("nodeAffinity", {"nodeSelectorTerms": []})
    preferred: dict[str, Any] = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}
    }

    assert built(manifests.pod(affinity=empty)).scheduling.required_node_affinity == ()
    assert built(manifests.pod(affinity=preferred)).scheduling.required_node_affinity is None


def test_preferred_node_affinity_keeps_its_weights() -> None:
    preferred = [
        {"weight": 80, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}},
        {"weight": 1, "preference": {}},
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}

    assert built(manifests.pod(affinity=affinity)).scheduling.preferred_node_affinity == (
        (80, NodeSelectorTerm((Requirement("ssd", Operator.EXISTS),))),
        (1, NodeSelectorTerm()),
    )


def test_host_ports_are_those_of_containers_that_run_as_long_as_the_pod() -> None:
    def container(name: str, port: int, **more: Any) -> dict[str, Any]:
        ports = [{"containerPort": port, "hostPort": port, **more}, {"containerPort": 9}]
        return {"name": name, "ports": ports}

    spec = {
        "containers": [
            container("a", 80),
            container("b", 53, protocol="UDP", hostIP="10.0.0.1"),
            container("c", 81, hostIP="0.0.0.0"),  # noqa: S104  (nothing is bound to it)
        ],
        "initContainers": [
            container("i", 70),
            container("s", 71, protocol="SCTP") | {"restartPolicy": "Always"},
        ],
    }

    assert built(manifests.pod(**spec)).scheduling.host_ports == (
        HostPort(71, "SCTP"),
        HostPort(80),
        HostPort(53, "UDP", "10.0.0.1"),
        HostPort(81),
    )


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("web", "web:latest"),
        ("registry:5000/web", "registry:5000/web:latest"),
        ("registry:5000/web:2", "registry:5000/web:2"),
        ("web@sha256:4f53", "web@sha256:4f53"),
    ],
)
def test_images_have_the_name_under_which_nodes_list_them(image: str, expected: str) -> None:
    spec = {
        "containers": [{"name": "a", "image": image}, {"name": "b", "image": image}],
        "initContainers": [{"name": "i", "image": "setup:1"}],
    }

    assert built(manifests.pod(**spec)).scheduling.images == ("setup:1", expected, expected)


def test_tolerations_get_the_apis_defaults() -> None:
    tolerations = [{"key": "gpu", "value": "yes"}, {"operator": "Exists"}]

    assert built(manifests.pod(tolerations=tolerations)).scheduling.tolerations == (
        Toleration("gpu", "Equal", "yes"),
        Toleration("", "Exists"),
    )


PEER = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]
PORT = [{"name": "a", "ports": [{"containerPort": 53}, {"containerPort": 54, "hostPort": 54}]}]
NEWER_TERM = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
NEWER = {"nodeSelectorTerms": [NEWER_TERM]}
BAD_BOUND = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1_000"]}]}
GOOD_BOUND = {"matchExpressions": [{"key": "a", "operator": "Lt", "values": ["08"]}]}
NEWER_PEER = [{"weight": 1, "podAffinityTerm": PEER[0] | {"labelSelector": NEWER_TERM}}]
HARD_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SOFT_SPREAD = HARD_SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}


def preferred(kind: str, content: object) -> dict[str, Any]:
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": content}}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"schedulingGates": [{"name": "later"}]}, "scheduling gates"),
        ({"affinity": required("nodeAffinity", NEWER)}, "node affinity Like"),
        (
            {"affinity": preferred("nodeAffinity", [{"weight": 1, "preference": NEWER_TERM}])},
            "node affinity Like",
        ),
        (
            {"affinity": preferred("nodeAffinity", [{"weight": 1, "preference": BAD_BOUND}])},
            "preferred node affinity Gt 1_000",
        ),
        ({"affinity": preferred("podAffinity", NEWER_PEER)}, "pod affinity Like"),
        ({"affinity": preferred("podAntiAffinity", NEWER_PEER)}, "pod anti-affinity Like"),
        (
            {"topologySpreadConstraints": [SOFT_SPREAD | {"labelSelector": NEWER_TERM}]},
            "topology spread Like",
        ),
        (
            {"topologySpreadConstraints": [SOFT_SPREAD | {"whenUnsatisfiable": "Sometimes"}]},
            "topology spread Sometimes",
        ),
    ],
)
def test_hard_constraints_that_planning_does_not_evaluate_are_named(
    spec: dict[str, Any], name: str
) -> None:
    assert built(manifests.pod(**spec)).scheduling.unevaluated == (name,)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": required("nodeAffinity", {"nodeSelectorTerms": [BAD_BOUND]})},
        {"affinity": preferred("nodeAffinity", [{"weight": 1, "preference": GOOD_BOUND}])},
        {"affinity": required("podAffinity", PEER)},
        {"affinity": required("podAntiAffinity", PEER)},
        {"topologySpreadConstraints": [HARD_SPREAD, SOFT_SPREAD]},
        {"containers": PORT},
        {"resourceClaims": [], "schedulingGates": None},
    ],
)
def test_what_planning_evaluates_is_not_named(spec: dict[str, Any]) -> None:
    pod = built(manifests.pod(**spec))

    assert pod.scheduling.unevaluated == ()
    assert not pod.has_resource_claims
    assert not pod.gated


def test_gates_are_flagged_on_the_pod_too() -> None:
    assert built(manifests.pod(schedulingGates=[{"name": "g"}])).gated


def test_claims_from_templates_may_be_counted() -> None:
    """R3.4: a claim that others may share never is."""
    own = {"name": "a", "resourceClaimTemplateName": "gpu"}
    shared = {"name": "b", "resourceClaimName": "gpu-0"}

    pod = built(manifests.pod(resourceClaims=[own, own]))
    assert (pod.claim_templates, pod.uncounted_claims) == (("gpu", "gpu"), CLAIMS_NOT_READ)
    pod = built(manifests.pod(resourceClaims=[own, shared]))
    assert (pod.claim_templates, pod.uncounted_claims) == ((), "others may share its claim b")
    assert pod.has_resource_claims


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("schedulingGroup", {"podGroupName": "training"}, "training"),
        ("workloadRef", {"name": "training", "podGroup": "workers"}, "training"),
        ("schedulingGroup", {"form": "of tomorrow"}, UNNAMED),
        ("schedulingGroup", ["training"], UNNAMED),
        ("schedulingGroup", None, ""),
    ],
)
def test_a_pod_names_its_scheduling_group_whatever_its_form(
    field: str, value: object, expected: str
) -> None:
    assert built(manifests.pod(**{field: value})).scheduling_group == expected
    assert not built(manifests.pod()).scheduling_group


def test_pods_of_a_workload_share_what_they_have_in_common() -> None:
    builder = PodBuilder()
    first, second = (built(manifests.pod(name), builder) for name in ("web-1", "web-2"))

    assert first.scheduling is second.scheduling
    assert first.labels is second.labels
    assert first.owner is second.owner


def test_the_same_constraints_written_differently_are_one_class() -> None:
    builder = PodBuilder()
    one = built(manifests.pod(nodeSelector={"a": "1", "b": "2"}), builder)
    other = built(manifests.pod(nodeSelector={"b": "2", "a": "1"}), builder)

    assert one.scheduling is other.scheduling


@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"a": "1"}},
        {"tolerations": []},
        {"overhead": {"cpu": "1m"}},
        {"resources": {"requests": {"cpu": "2"}}},
        {"schedulingGates": [{"name": "g"}]},
        {"topologySpreadConstraints": [HARD_SPREAD]},
        {"affinity": required("podAffinity", PEER)},
        {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "9"}}}]},
        {"containers": [{"name": "app", "resources": {"requests": {"cpu": "501m"}}}]},
        {"containers": [{"name": "app", "image": "registry.example/web:2"}]},
    ],
)
def test_whatever_differs_in_what_decides_makes_another_class(change: dict[str, Any]) -> None:
    builder = PodBuilder()
    one, other = built(manifests.pod(), builder), built(manifests.pod(**change), builder)

    assert one.scheduling != other.scheduling
    assert other.scheduling == built(manifests.pod(**change)).scheduling


def test_a_resize_of_one_pod_makes_a_class_of_its_own() -> None:
    builder = PodBuilder()
    resized = manifests.pod()
    resized["status"]["containerStatuses"][0]["allocatedResources"] = {"cpu": "2"}
    one, other = built(manifests.pod(), builder), built(resized, builder)

    assert (one.scheduling.requests.cpu_millicores, other.scheduling.requests.cpu_millicores) == (
        500,
        2000,
    )
    resized["status"]["conditions"].append({"type": "PodResizePending", "reason": "Infeasible"})
    resized["status"]["containerStatuses"][0]["allocatedResources"] = {"cpu": "100m"}
    resized["status"]["containerStatuses"][0]["resources"] = {}
    assert built(resized, builder).scheduling.requests.cpu_millicores == 100


def test_the_node_that_the_scheduler_prepares_is_known() -> None:
    document = manifests.pod(nodeName=None)
    assert built(document).nominated_node == ""
    document["status"]["nominatedNodeName"] = "te2"
    assert built(document).nominated_node == "te2"


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("False", "Unschedulable", True),
        ("False", "SchedulingGated", False),
        ("True", "Unschedulable", False),
    ],
)
def test_a_pod_for_which_the_scheduler_found_no_node_is_unschedulable(
    status: str, reason: str, *, expected: bool
) -> None:
    document = manifests.pod()
    condition = {"type": "PodScheduled", "status": status, "reason": reason}
    document["status"]["conditions"] = [condition]
    assert built(document).unschedulable is expected


def unready(**status: object) -> manifests.Object:
    """A pod that is not Ready, with a container of this status."""
    document = manifests.pod()
    document["metadata"]["creationTimestamp"] = "2026-05-01T00:00:00Z"
    document["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    document["status"]["containerStatuses"] = [{"name": "app", **status}]
    return document


def crashed(at: str, restarts: int) -> manifests.Object:
    return unready(
        restartCount=restarts,
        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
        lastState={"terminated": {"finishedAt": f"2026-05-01T{at}:00Z", "exitCode": 1}},
    )


@pytest.mark.parametrize(
    ("document", "reason", "since"),
    [
        (unready(state={"waiting": {"reason": "ImagePullBackOff"}}), "ImagePullBackOff", (0, 0)),
        (crashed("06:00", restarts=2), "CrashLoopBackOff", (6, 0)),
        (crashed("06:00", restarts=17), "CrashLoopBackOff", (5, 0)),  # 12 times 5 minutes
        (crashed("06:00", restarts=900), "CrashLoopBackOff", (0, 0)),  # never before it was created
    ],
)
def test_a_pod_that_cannot_start_has_the_reason_and_since_when(
    document: manifests.Object, reason: str, since: tuple[int, int]
) -> None:
    pod = built(document)
    assert pod.waiting_for == reason
    assert pod.cannot_start
    assert pod.waiting_since == datetime(2026, 5, 1, *since, tzinfo=UTC)


def test_an_init_container_that_cannot_start_counts() -> None:
    document = unready(state={"waiting": {"reason": "PodInitializing"}})
    failed = {"name": "init", "state": {"waiting": {"reason": "ErrImagePull"}}}
    document["status"]["initContainerStatuses"] = [failed]
    assert built(document).waiting_for == "ErrImagePull"


@pytest.mark.parametrize(
    "document",
    [
        unready(),
        unready(state=None),
        unready(state={"running": {"startedAt": manifests.CREATED}}),
    ],
)
def test_a_pod_that_starts_has_no_such_reason(document: manifests.Object) -> None:
    pod = built(document)
    assert (pod.waiting_for, pod.waiting_since, pod.cannot_start) == ("", None, False)


def test_a_container_that_is_being_created_waits_but_can_start() -> None:
    pod = built(unready(state={"waiting": {"reason": "ContainerCreating"}}))
    assert (pod.waiting_for, pod.cannot_start) == ("ContainerCreating", False)


def test_a_ready_pod_starts_whatever_its_containers_say() -> None:
    document = crashed("06:00", restarts=2)
    document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert built(document).waiting_for == ""
