"""What is planned is right on a real cluster: what would not help stays, what moves lands well."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import structlog

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.model.state import SUCCESSES
from desched.network.objects import NetworkObjects, Topology
from desched.plugins.caches.objects import CacheObjects, ModelCopies
from desched.plugins.virtual_machines.kubevirt import KIND
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.forks import hold_if_unknown
from tests.controlplane.installation import DEPLOY
from tests.controlplane.kubevirt import KubeVirt
from tests.controlplane.manifests import (
    HYPER_NODES,
    TOPOLOGIES,
    VOLCANO_GROUPS,
    Object,
    hyper_node,
    kueue_topology,
    local_model_cache,
    model_cache_kind,
    node_model_store,
    volcano_group,
)
from tests.controlplane.sites import (
    VALUED,
    Site,
    Sites,
    app_of,
    cpu,
    evicted,
    refused,
    short,
    verdict,
)
from tests.device_manifests import DRIVER, claim_template, device_class, resource_slice

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def trap() -> Site:
    """Who requests little and uses much looks like room: the scheduler prefers the hot nodes."""
    hot, cold = ("hot1", "hot2", "hot3"), ("cold1", "cold2", "cold3")
    site = Site("trap")
    site.node(*hot, uses="1600m")
    site.node(*cold)
    site.workload("filler", cold, "200m", cpu_request="3")
    site.workload("alone", hot, "800m", cpu_request="100m")
    # The scheduler spreads replicas, so that of two on a node one is drawn to a node without any.
    site.workload("crowd", hot * 2, "500m", cpu_request="100m", priorityClassName=VALUED)
    return site


def full() -> Site:
    """The cool nodes have either no requests to give, or too little room for one pod's load."""
    site = Site("full")
    site.node("hot", uses="1500m")
    site.node("cool1", "cool2", uses="1200m")
    site.workload("filler", ("cool1", "cool2"), "400m", cpu_request="3800m")
    site.workload("wide", ("hot", "hot"), "300m", cpu_request="300m")
    site.workload("heavy", ("hot",), "1300m", cpu_request="50m")
    return site


def huge() -> Site:
    """Two nodes are hot by one pod each, and it would make any other node as hot."""
    hot = ("hot1", "hot2")
    site = Site("huge")
    site.node(*hot, uses="500m")
    site.node("cool1", "cool2", uses="800m")
    site.workload("huge", hot, "2800m", cpu_request="200m")
    site.workload("tiny", hot, "20m", cpu_request="50m")
    return site


def constrained() -> Site:
    """Two zones, and workloads with required constraints, each of them on the hot node too."""
    site = Site("constrained")
    site.node("hot", labels={ZONE: "a"})
    site.node("near", cpu="8", labels={ZONE: "a"})
    site.node("far1", "far2", cpu="8", labels={ZONE: "b"})
    everywhere = ("hot", "near", "far1", "far2")
    site.workload("ballast", ("hot",), "1200m", cpu_request="1500m")

    def constrain(app: str, *on: str, **constraint: Any) -> None:
        site.workload(app, on, "550m", cpu_request="100m", **constraint)

    constrain("apart", "hot", "near", "far1", affinity=apart("apart"))
    constrain("apart-full", *everywhere, affinity=apart("apart-full"))
    constrain("zones", "hot", "far1", topologySpreadConstraints=[evenly("zones", ZONE)])
    constrain("hosts", *everywhere, topologySpreadConstraints=[evenly("hosts", HOSTNAME)])
    return site


def apart(app: str) -> Object:
    """Never two on a node."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def evenly(app: str, key: str) -> Object:
    """Never two more in one place than in another."""
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }


def pools() -> Site:
    """Two pools with a node at 72.5 % each; the line of one is 60 %, that of the other 80 %."""
    site = Site("pools")
    for pool in ("batch", "online"):
        busy, idle, of_pool = f"{pool}-busy", f"{pool}-idle", {"pool": pool}
        site.node(busy, uses="500m", labels=of_pool)
        site.node(idle, uses="600m", labels=of_pool)
        fields: dict[str, Any] = {"nodeSelector": of_pool, "cpu_request": "500m"}
        site.workload(f"{pool}-large", (busy,), "1600m", **fields)
        site.workload(f"{pool}-small", (busy,), "800m", priorityClassName=VALUED, **fields)
    return site


def gang() -> Site:
    """A pod of a group has to leave its node."""
    site = Site("gang")
    site.node("hot", uses="2600m")
    site.node("cool")
    site.workload("llama", ("hot", "hot"), "400m", cpu_request="400m")
    template = site.manifests[-1]["spec"]["template"]
    template["metadata"]["annotations"] |= {
        "scheduling.k8s.io/group-name": "llama",
        "volcano.sh/task-spec": "worker",
    }
    return site


def devices() -> Site:
    """Two pods with a device each are to run on a node, both of which ought to leave it."""
    site = Site("devices")
    site.node("hot", uses="2800m")
    site.node("cold1", "cold2")
    claim = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
    site.workload("infer", (), "400m", cpu_request="100m", resourceClaims=[claim])
    del site.places["infer"]  # its pods come when there are devices
    return site


def with_devices(sites: Sites) -> None:
    """The scheduler allocates the devices of the hot node to the pods; no other node has any."""
    plane = sites.plane
    plane.apply(device_class(), claim_template(namespace="devices"))
    plane.apply(resource_slice("devices-hot", "a", "b"))
    path = "/apis/apps/v1/namespaces/devices/deployments/infer"
    plane.request("PATCH", path, {"spec": {"replicas": 2}})
    plane.wait_for_ready_pods("devices", 2, "app=infer")


DIGEST = f"sha256:{'3' * 64}"
"""Of a model of GPUStack."""


def models() -> Site:
    """A pod with a model of KServe, or one with a model of GPUStack, has to leave its node.

    Of the two other nodes, the one that holds the models has no room for requests.
    """
    site = Site("models")
    site.node("te4", uses="2600m")
    site.node("te5", "te9")
    site.workload("filler", ("te9",), "100m", cpu_request="3900m")
    site.workload("llama", ("te4",), "400m", cpu_request="400m")
    labels = site.manifests[-1]["spec"]["template"]["metadata"]["labels"]
    labels["internal.serving.kserve.io/localmodel"] = "llama-70b"
    site.workload("qwen", ("te4",), "400m", cpu_request="400m")
    attributes = {"manifestDigest": DIGEST}
    site.manifests[-1]["spec"]["template"]["spec"]["volumes"] = [
        {"name": "m", "csi": {"driver": "model.csi.gpustack.ai", "volumeAttributes": attributes}}
    ]
    return site


MACHINES = {"hot1": ("310m", "abcd"), "hot2": ("400m", "efg"), "hot3": ("400m", "hij")}
"""What each machine on a node uses, and their names; three and twice two have to leave."""
MOVING = "a"
"""The machine that KubeVirt migrates already."""
PATIENTLY = ("--api-server-timeout", "60s")
"""The API server answers an eviction only after the webhook has answered it."""


def machines() -> Site:
    """Nodes for virtual machines."""
    site = Site("machines")
    site.node(*MACHINES, uses="2500m")
    site.node(*(f"cool{number}" for number in range(1, 6)))
    return site


@pytest.fixture(scope="module")
def kubevirt(running_control_plane: ControlPlane) -> Iterator[KubeVirt]:
    with KubeVirt(running_control_plane, machines()) as started:
        for node, (uses, names) in MACHINES.items():
            for name in names:
                started.machine(name, node, uses, moving=name == MOVING)
        yield started


@pytest.fixture(scope="module")
def sites(kubevirt: KubeVirt, empty_sites: Sites) -> Sites:
    empty_sites.build(
        *(trap(), full(), huge(), constrained(), pools(), gang(), devices(), models()),
        kubevirt.site,
    )
    with_devices(empty_sites)
    return empty_sites


def test_pods_that_would_come_back_to_hot_nodes_stay_and_those_that_land_well_go(
    sites: Sites,
) -> None:
    before = sites.where("trap", "crowd")
    report = sites.look("trap", "--evict")
    assert evicted(report) == ["crowd"]
    assert refused(report)["alone"] == {"landing_risk"}
    assert set(short("trap", sites.landed("trap", "crowd", before))) <= {"cold1", "cold2", "cold3"}
    # The refusal was right: nothing but the forecast keeps such a pod from going in circles.
    assert "hot" in sites.evict_by_hand("trap", "alone", "trap-hot2")


def test_without_room_elsewhere_nothing_is_evicted(sites: Sites) -> None:
    report = sites.look("full", "--evict", evictSingleReplica=True)
    assert report["result"] == "nothing_movable"
    assert evicted(report) == []
    assert refused(report) == {"wide": {"no_node_fits"}, "heavy": {"no_node_under_ceiling"}}


def test_a_cluster_that_is_hot_as_a_whole_is_left_alone(sites: Sites) -> None:
    lower = {"cpu": 50, "memory": 85}
    report = sites.look("full", "--evict", evictSingleReplica=True, targetThresholds=lower)
    assert (report["result"], report["plan"]["hold"]) == ("held", "cluster_saturated")
    assert evicted(report) == []
    assert set.union(*refused(report).values()) == {"no_node_fits", "no_node_under_ceiling"}


def test_a_pod_that_would_only_take_the_problem_elsewhere_stays(sites: Sites) -> None:
    report = sites.look("huge", "--evict")
    assert report["result"] == "nothing_movable"
    assert evicted(report) == []
    assert refused(report) == {"huge": {"no_node_under_ceiling"}, "tiny": {"no_relief"}}


def test_required_constraints_decide_who_may_leave_and_where_it_lands(sites: Sites) -> None:
    before = {app: sites.where("constrained", app) for app in ("apart", "zones")}
    lower = {"cpu": 65, "memory": 85}
    report = sites.look("constrained", "--evict", prepare=hold_if_unknown, targetThresholds=lower)
    assert evicted(report) == ["apart", "zones"]
    planned = {
        app_of(e["pod"]): {chance["node"] for chance in e["landing"]}
        for e in report["plan"]["evictions"]
    }
    assert planned == {"apart": {"constrained-far2"}, "zones": {"constrained-near"}}
    reasons = refused(report)
    assert (reasons["apart-full"], reasons["hosts"]) == ({"no_node_fits"}, {"no_node_fits"})
    for app, nodes in planned.items():
        assert set(sites.landed("constrained", app, before[app])) == nodes


def test_each_pool_is_relieved_by_its_own_lines(sites: Sites) -> None:
    before = sites.where("pools", "batch-small")
    batch = {
        "name": "batch",
        "nodeSelector": "pool=batch",
        "targetThresholds": {"cpu": 60, "memory": 85},
    }
    report = sites.look("pools", "--evict", nodePools=[batch], evictSingleReplica=True)
    classes = {v["node"]: (v["pool"], v["node_class"]) for v in report["plan"]["nodes"]}
    assert classes["pools-batch-busy"] == ("batch", "overloaded")
    assert classes["pools-online-busy"] == ("", "balanced")
    load = cpu(report, "pools-batch-busy")["lowest_ratio"]
    assert cpu(report, "pools-online-busy")["lowest_ratio"] == pytest.approx(load, abs=0.02)
    # The other pod would bring the pool's idle node to 55 %: under that of the other pool, not its.
    assert evicted(report) == ["batch-small"]
    assert refused(report) == {"batch-large": {"no_node_under_ceiling"}}
    assert sites.landed("pools", "batch-small", before) == ["pools-batch-idle"]
    idle = cpu(report, "pools-batch-idle")
    assert idle["after_ratio"] <= idle["ceiling_ratio"] == pytest.approx(0.5)
    assert verdict(report, "pools-online-busy")["reason"] is None


def test_what_the_object_of_a_group_says_decides_on_its_pods(sites: Sites) -> None:
    """R2.2, R2.4, X3: read from when the API server has it; above its minimum pods move, and stay
    inside their HyperNode.
    """

    def why() -> set[str]:
        return {each["detail"] for each in sites.look("gang")["plan"]["refusals"]}

    named = "gang gang/llama (Volcano):"
    assert why() == {f"{named} how many pods it needs is not known"}
    sites.plane.serve(VOLCANO_GROUPS)
    sites.plane.apply((DEPLOY / "pod-groups" / "volcano.yaml").read_text())
    sites.plane.apply(volcano_group("gang", "llama", 2))
    sites.plane.wait_for("the group", lambda: why() == {f"{named} 2 of 2 needed"})
    sites.plane.apply(volcano_group("gang", "llama", 1, minTaskMember={"worker": 2}))
    sites.plane.wait_for("the task", lambda: why() == {f"{named[:-1]}, part worker: 2 of 2 needed"})
    hard = {"mode": "hard", "highestTierAllowed": 1}
    sites.plane.apply(
        volcano_group("gang", "llama", 1, minTaskMember={"worker": 1}, networkTopology=hard)
    )
    unknown = "its network topology is not evaluated, because no HyperNodes are known"
    assert why() == {f"{named} {unknown}"}
    sites.plane.apply((DEPLOY / "networks" / "volcano.yaml").read_text())
    sites.plane.serve(HYPER_NODES)
    sites.plane.apply(hyper_node("rack", 1, "^gang-hot$"))
    (within,) = why()
    assert within.startswith(f"{named} HyperNode rack: 0/")
    sites.plane.serve(TOPOLOGIES)
    sites.plane.apply(kueue_topology("dc", "example.com/rack"))
    reader = KubernetesReader(connect(sites.plane.admin_kubeconfig, None))
    network = NetworkObjects.of(reader.read_cluster().extras)
    assert network.topologies == (Topology("Kueue", "dc", ("example.com/rack",)),)
    sites.plane.apply(hyper_node("rack", 1, "^gang-"))
    assert evicted(sites.look("gang", "--evict")) == ["llama"]


def test_a_pod_moves_only_where_a_device_is_free_for_it(sites: Sites) -> None:
    """R3.4: the real scheduler allocates the devices before and after."""

    def planned() -> Object | None:
        report = sites.look("devices", gpuPods="Allow")
        young = {"too_young", "usage_unknown"} & refused(report).get("infer", {"too_young"})
        return None if young else report

    report = sites.plane.wait_for("measured pods", planned)
    assert report is not None
    assert refused(report) == {"infer": {"no_node_fits"}}
    assert all(DRIVER in each["detail"] for each in report["plan"]["refusals"])
    sites.plane.apply(resource_slice("devices-cold2", "a"))
    assert refused(sites.look("devices")) == {"infer": {"gpu_pod"}}

    before = sites.where("devices", "infer")
    report = sites.look("devices", "--evict", gpuPods="Allow")
    assert evicted(report) == ["infer"]
    assert short("devices", sites.landed("devices", "infer", before)) == {"cold2": 1}


def test_models_stay_where_the_objects_of_their_systems_say_that_they_are(sites: Sites) -> None:
    """R1.2, X2, X3: off while a system is absent or of another version, which is said once."""
    kinds = {"serving.kserve.io": "LocalModelCache", "worker.gpustack.ai": "NodeModelStore"}
    for system in ("kserve", "gpustack"):
        sites.plane.apply((DEPLOY / "model-caches" / f"{system}.yaml").read_text())
    reader = KubernetesReader(connect(sites.kubeconfig, None))

    said = Counter[tuple[str, str]]()

    def held() -> Sequence[ModelCopies]:
        with structlog.testing.capture_logs() as logs:
            found = CacheObjects.of(reader.read_cluster().extras).copies
        unserved = (each for each in logs if each["event"] == "kind.not_served")
        said.update((e["log_level"], e["group"]) for e in unserved if e["group"] in kinds)
        return found

    absent = {("debug", group): 1 for group in kinds}
    # The authorizer learns of the Roles a moment later.
    sites.plane.wait_for("no such kinds", lambda: held() == () and said == absent)
    assert [held(), said] == [(), absent]
    for group, kind in kinds.items():
        sites.plane.serve(model_cache_kind(group, kind, "v9"))
    both = absent | {("info", group): 1 for group in kinds}
    sites.plane.wait_for("other versions", lambda: held() == () and said == both)
    moving = {
        app_of(each["pod"])
        for each in sites.look("models", evictSingleReplica=True)["plan"]["evictions"]
    }
    assert moving
    assert moving <= {"llama", "qwen"}
    for group, kind in kinds.items():
        sites.plane.serve(model_cache_kind(group, kind, "v9", "v1alpha1"))
    te4, te5, te9 = ("models-te4", "models-te5", "models-te9")
    states = {te9: "NodeDownloaded", te4: "NodeDownloaded", te5: "NodeDownloading"}
    sites.plane.apply(
        local_model_cache("llama-70b", **states),
        node_model_store(te4, **{DIGEST: "Ready"}),
        node_model_store(te5, **{DIGEST: "Downloading"}),
        node_model_store(te9, **{DIGEST: "Ready"}),
    )
    copies = (
        ModelCopies("KServe", ("llama-70b",), (te4, te9)),
        ModelCopies("GPUStack", (DIGEST,), (te4,)),
        ModelCopies("GPUStack", (), (te5,)),
        ModelCopies("GPUStack", (DIGEST,), (te9,)),
    )
    sites.plane.wait_for("the models", lambda: held() == copies)
    assert said == both
    why = {
        app_of(each["pod"]): (each["reason"], each["detail"].partition(": 0/")[0])
        for each in sites.look("models", evictSingleReplica=True)["plan"]["refusals"]
    }
    assert why == {
        "llama": ("model_cache", f"model llama-70b is on {te4} and {te9} only"),
        "qwen": ("model_cache", f"model {DIGEST[:19]} is on {te4} and {te9} only"),
    }


def test_virtual_machines_move_by_migration_within_the_limits_of_kubevirt(
    sites: Sites, kubevirt: KubeVirt
) -> None:
    rules: dict[str, Any] = {
        "understoodOwnerKinds": [KIND],
        "evictionLimits": {"total": 50, "node": 10, "slowStart": False},
    }
    unread = sites.look("machines", **rules)
    assert {each["detail"].partition(": ")[2] for each in unread["plan"]["refusals"]} == {
        "the account may not list virtualmachineinstances in group kubevirt.io"
    }
    sites.allow_owner_kinds("virtualmachineinstances.kubevirt.io")
    report = sites.look("machines", "--evict", *PATIENTLY, prepare=hold_if_unknown, **rules)
    assert {outcome["verdict"] for outcome in report["outcomes"]} == {"taken_over"}
    evicted_machines = [app_of(outcome["pod"]) for outcome in report["outcomes"]]
    assert sorted(evicted_machines) == sorted(kubevirt.taken_over)
    sources = short("machines", (outcome["node"] for outcome in report["outcomes"]))
    assert sources["hot1"] == 1  # beside the one that moves already
    assert sorted((sources["hot2"], sources["hot3"])) == [1, 2]  # five in all
    assert refused(report)[MOVING] == {"migration_under_way"}
    assert "limit_migrations" in set.union(*refused(report).values())

    slow, *quick = kubevirt.taken_over
    kubevirt.begin_migration(slow)
    for machine in quick:
        kubevirt.migrate(machine)
    following = sites.look("machines", *PATIENTLY, **rules)
    results = {app_of(record["pod"]): record["result"] for record in following["settled"]}
    assert set(results) == set(quick)
    assert set(results.values()) <= SUCCESSES
    in_flight = [r for r in following["state"]["evictions"] if r["result"] is None]
    assert [app_of(record["pod"]) for record in in_flight] == [slow]
    planned_next = {app_of(planned["pod"]) for planned in following["plan"]["evictions"]}
    assert planned_next.isdisjoint({slow, MOVING})
