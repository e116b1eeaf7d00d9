"""Each check where all is well, and each of its failures."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from desched.adapters.prometheus.stacks import FoundService
from desched.doctor.checks import CheckName as Name
from desched.doctor.examination import (
    Examination,
    FeatureRights,
    Origin,
    PolicyFacts,
    SystemFacts,
    Unanswered,
)
from desched.doctor.other_controllers import CANDIDATE_TAINT
from desched.model.cluster import STEERING_TAINT, Autoscaler, Owner, PodVolume, Taint, VolumeKind
from desched.model.load import (
    ClusterLoad,
    DeviceUsage,
    LoadHistory,
    LoadProblem,
    Measured,
    SeenLoad,
    Unknown,
    UnknownReason,
)
from desched.model.measures import LabelGroup
from desched.model.resources import Resource
from desched.model.state import ForecastCheck, Pause, PauseScope, State
from desched.model.stored_state import StoredState
from desched.model.volcano_scheduler import VolcanoConfiguration
from desched.plugins.gpus.drains.rules import GpuDrainRules, Reserve
from desched.plugins.gpus.load import GpuLoad
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.queues.keys import QueueMode
from desched.plugins.queues.plugin import Queues
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import (
    DestinationWindow,
    MetricsSource,
    MetricsType,
    OtherDescheduler,
    PriorityThreshold,
    Protections,
    SteeringRules,
)
from desched.policy.schedulers import (
    VOLCANO_ARGUMENTS,
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
)
from tests.builders import (
    GIB,
    NOW,
    amounts,
    budget,
    house,
    load,
    measured,
    node,
    pod,
    rule,
    workload,
)
from tests.unit.doctor.examinations import (
    ADDRESS,
    CHART,
    NAMES,
    Case,
    cluster,
    examination,
    loads,
    measure,
    metrics,
    policy,
    prometheus,
    rights,
    run_facts,
)

SILENT = Unanswered("The API server did not answer GET /version completely: no connection.")
FORBIDDEN = Unanswered("The nodes could not be read: the account may not list nodes (403).")


def cases(name: str, *examined: Examination) -> list[Case]:
    """Of one check; what it finds is in `found.txt`."""
    return [Case(name, each) for each in examined]


def by(**fields: Any) -> PolicyFacts:
    return PolicyFacts(policy(**fields), "policy.yaml")


EXPORTER = {"job": "a", "namespace": "mon", "service": "exporter"}

API_SERVER = [
    *cases(
        Name.API_SERVER,
        examination(),
        examination(server_version="v1.30.0-gke.1"),
        examination(server_version=SILENT),
        examination(server_version="v1.29.9"),
        examination(server_version="v0.9"),
        examination(server_version=""),
    ),
    *cases(
        Name.CLUSTER,
        examination(),
        examination(cluster=FORBIDDEN),
        examination(cluster=cluster(nodes=[], pods=[])),
        examination(server_version=SILENT, cluster=SILENT),
    ),
    *cases(
        Name.CLOCKS,
        examination(),
        examination(cluster_lead_seconds=8.0),
        examination(load_lead_seconds=-90.0),
        examination(load=SILENT),
        examination(load=SILENT, cluster_lead_seconds=-9.0),
        examination(cluster=FORBIDDEN),
    ),
]

DRY_RUN = run_facts(evicts=False)
BY_METRICS_SERVER = by(metrics=MetricsSource("", type=MetricsType.METRICS_SERVER))
BY_CUSTOM_METRICS = by(metrics=MetricsSource("", type=MetricsType.PROMETHEUS_ADAPTOR))
OFF = by(steering=SteeringRules(SteeringMode.OFF))


def lacking(feature: str, *missing: str, **fields: Any) -> Any:
    of = {"missing": missing, "without": ("nothing is evicted (`forbidden`)",)}
    return examination(rights=rights(feature, **of), **fields)


def unasked(feature: str) -> Any:
    return examination(rights=rights(feature, unanswered=("list pods",)))


RIGHTS = [
    *(Case(name, examination()) for name in Name if name.startswith("rights_")),
    *cases(
        Name.RIGHTS_PLAN,
        lacking("plan", "list nodes", "list pods"),
        lacking("plan", "list nodes", run=run_facts(in_cluster=False, account="o'hara")),
        lacking("plan", "list nodes", run=run_facts(in_cluster=False)),
        unasked("plan"),
        examination(server_version=SILENT),
        examination(run=run_facts(in_cluster=False)),
    ),
    *cases(
        Name.RIGHTS_WATCH,
        lacking("watch", "watch pods"),
        lacking("watch", "watch pods", run=run_facts(watches=False)),
    ),
    *cases(
        Name.RIGHTS_LEASE,
        lacking("lease", "get leases"),
        lacking("lease", "get leases", run=run_facts(elects=False)),
    ),
    *cases(
        Name.RIGHTS_STATE,
        lacking("state", "get configmaps"),
        lacking("state", "get configmaps", run=DRY_RUN),
    ),
    *cases(
        Name.RIGHTS_EVICT,
        lacking("evict", "create pods/eviction"),
        lacking("evict", "create pods/eviction", run=DRY_RUN),
    ),
    *cases(Name.RIGHTS_RECORD, lacking("record", "patch configmaps")),
    *cases(Name.RIGHTS_SIZING, lacking("sizing", "list them")),
    *cases(Name.RIGHTS_DEVICES, lacking("devices", "list them")),
    *cases(
        Name.RIGHTS_METRICS_SERVER,
        lacking("metrics_server", "list nodes", policy=BY_METRICS_SERVER),
        lacking("metrics_server", "list nodes"),
    ),
    *cases(
        Name.RIGHTS_CUSTOM_METRICS,
        lacking("custom_metrics", "get them", policy=BY_CUSTOM_METRICS),
        lacking("custom_metrics", "get them", policy=BY_METRICS_SERVER),
    ),
    *cases(
        Name.RIGHTS_STEER,
        lacking("steer", "patch nodes"),
        lacking("steer", "patch nodes", policy=OFF),
    ),
    *cases(Name.RIGHTS_EVENTS, lacking("events", "create events")),
    *cases(Name.RIGHTS_LOGBOOK, lacking("logbook", "patch configmaps")),
    *cases(
        Name.RIGHTS_OWN_EVENTS,
        lacking("own_events", "get pods"),
        lacking("own_events", "get pods", run=run_facts(in_cluster=False)),
    ),
]


def groups(
    system: str, *, is_read: bool = True, folder: str = "deploy/pod-groups", **fields: Any
) -> SystemFacts:
    name = system.lower()
    return SystemFacts(system, is_read, FeatureRights(name, "", f"{folder}/{name}.yaml", **fields))


VOLCANO, KAI = groups("Volcano"), groups("KAI")
WATCHES_NOT = groups("Volcano", missing=("watch podgroups in group scheduling.volcano.sh",))
UNREADABLE = groups(
    "KAI", missing=("list podgroups", "watch podgroups"), without=("their pods stay",)
)
POD_GROUPS = cases(
    Name.POD_GROUPS,
    examination(),
    examination(systems={"pod-groups": (VOLCANO, KAI)}),
    examination(systems={"pod-groups": (VOLCANO, UNREADABLE)}),
    examination(systems={"pod-groups": (WATCHES_NOT,)}),
    examination(systems={"pod-groups": (WATCHES_NOT,)}, run=run_facts(watches=False)),
    examination(systems={"pod-groups": (VOLCANO, groups("KAI", is_read=False))}),
    examination(systems={"pod-groups": (groups("KAI", unanswered=("list podgroups",)),)}),
    examination(systems={"pod-groups": SILENT}),
    examination(server_version=SILENT),
)

NETWORKS = cases(
    Name.NETWORKS,
    examination(),
    examination(systems={"networks": (groups("Volcano", folder="deploy/networks"),)}),
    examination(systems={"networks": (groups("Kueue", folder="deploy/networks", is_read=False),)}),
)

QUEUE_FILES = "deploy/queues"
UNREADABLE_QUEUES = groups(
    "Kueue", folder=QUEUE_FILES, missing=("list localqueues",), without=("pods move anyway",)
)
QUEUES = cases(
    Name.QUEUES,
    examination(),
    examination(systems={"queues": (groups("Volcano", folder=QUEUE_FILES),)}),
    examination(systems={"queues": (UNREADABLE_QUEUES,)}),
    examination(
        systems={"queues": (UNREADABLE_QUEUES,)},
        policy=by(plugins=house(Queues(QueueMode.IGNORE))),
    ),
)

CACHES = "deploy/model-caches"
UNREADABLE_CACHES = groups(
    "KServe", folder=CACHES, missing=("list localmodelcaches",), without=("volumes keep pods",)
)
MODEL_CACHES = cases(
    Name.MODEL_CACHES,
    examination(),
    examination(systems={"model-caches": (groups("GPUStack", folder=CACHES),)}),
    examination(systems={"model-caches": (UNREADABLE_CACHES,)}),
    examination(systems={"model-caches": (groups("KServe", folder=CACHES, is_read=False),)}),
)

NAMED = PriorityThreshold(class_name="hihg")
POLICY = cases(
    Name.POLICY,
    examination(),
    examination(policy=PolicyFacts(policy())),
    examination(
        policy=PolicyFacts(policy(), written_to="new.yaml"), prometheus=prometheus(address="")
    ),
    examination(policy=PolicyFacts(policy(), "p.yaml", problem="p.yaml:3: no such key.")),
    examination(policy=PolicyFacts(policy(), "p.yaml", ("p.yaml:7: has no effect.",))),
    examination(
        policy=by(protections=Protections(priority_threshold=NAMED)),
        cluster=cluster(priority_classes={"high": 5}),
    ),
    examination(policy=by(plugins=house(Gpus(GpuDrainRules(reserves=(Reserve(8),)))))),
)

VICTORIA = FoundService(
    "VictoriaMetrics", "vm", "vmselect", "http://vmselect.vm.svc:8481/select/0/prometheus", 8481
)
OPENSHIFT = FoundService(
    "OpenShift",
    "openshift-monitoring",
    "thanos-querier",
    "https://thanos-querier.openshift-monitoring.svc:9091",
    9091,
    "needs a token (`--prometheus-bearer-token-file`)",
)
NOWHERE = prometheus(address="", origin=Origin.NOWHERE)
FOUND = prometheus(origin=Origin.DISCOVERED)
OUTSIDE = run_facts(in_cluster=False)
REFUSES = "Prometheus at http://x cannot be reached."


def at(facts: Any, **fields: Any) -> Any:
    return examination(prometheus=facts, **fields)


PROMETHEUS = cases(
    Name.PROMETHEUS,
    examination(policy=BY_METRICS_SERVER),
    examination(policy=BY_METRICS_SERVER, load=FORBIDDEN),
    examination(),
    examination(run=OUTSIDE),
    at(msgspec.structs.replace(NOWHERE, services=())),
    at(msgspec.structs.replace(NOWHERE, services=FORBIDDEN)),
    at(NOWHERE, policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")),
    at(FOUND, policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")),
    at(prometheus(problem="Several credentials are set.", invalid=True)),
    at(prometheus(origin=Origin.DISCOVERED, problem="x was found.", invalid=True)),
    at(prometheus(problem=REFUSES), run=OUTSIDE),
    at(prometheus(problem=REFUSES)),
    at(prometheus(address="http://elsewhere:9090", problem="It asks for more.", answers=True)),
    at(prometheus(problem="It asks for more.", answers=True)),
    at(prometheus(address="http://elsewhere:9090", problem=REFUSES)),
    at(prometheus(address=OPENSHIFT.url, services=(OPENSHIFT,), problem="HTTP 401.")),
    at(
        prometheus(
            address=OPENSHIFT.url, origin=Origin.STACK, services=(OPENSHIFT,), problem="HTTP 401."
        )
    ),
    at(prometheus(address="", origin=Origin.STACK, problem="Several Services.", invalid=True)),
    at(FOUND),
    at(FOUND, policy=PolicyFacts(policy())),
    at(msgspec.structs.replace(FOUND, services=(CHART, CHART)), policy=PolicyFacts(policy())),
    at(prometheus(address=VICTORIA.url, services=(VICTORIA,))),
)

EU, US = LabelGroup({"cluster": "eu"}, 3), LabelGroup({"cluster": "us"}, 1)
MIXED = {"cluster": ("eu", "us")}
IN_US = by(metrics=MetricsSource(ADDRESS, {"cluster": "us"}))
HONORED_LABELS = cases(
    Name.HONORED_LABELS,
    examination(metrics=metrics(jobs_of_strangers=None)),
    examination(),
    examination(metrics=metrics(jobs_of_strangers=("kubernetes-pods",))),
)

MATCHERS = cases(
    Name.MATCHERS,
    examination(),
    examination(metrics=Unanswered("Not asked.")),
    examination(metrics=metrics(cluster_values=MIXED, sightings=(EU, US))),
    examination(metrics=metrics(cluster_values={"cluster": ("", "us")})),
    examination(metrics=metrics(cluster_values=MIXED, sightings=None)),
    examination(policy=IN_US, metrics=metrics(sightings=(EU,))),
    examination(policy=IN_US, metrics=metrics(sightings=())),
    examination(policy=IN_US, metrics=metrics(sightings=(LabelGroup({"cluster": "us"}, 3),))),
    examination(metrics=metrics(sightings=None)),
    examination(metrics=metrics(sampled=0, sightings=())),
)


def one(name: str, **fields: Any) -> Any:
    return examination(metrics=metrics(measure(name, **fields)))


ABSENT: dict[str, Any] = {"series": 0, "source": "", "matched": {}, "measured": 0, "loads": {}}
OTHER_JOB = LabelGroup({"job": "mine"}, 12)
HALF = {"a": loads(0.5).nodes["a"][Resource.CPU], "b": Unknown(UnknownReason.STALE, "9 m old")}
MEASURES = [
    *cases(Name.NODE_CPU, examination()),
    *cases(Name.POD_MEMORY, examination()),
    *cases(Name.NODE_CPU, examination(metrics=FORBIDDEN)),
    *cases(
        Name.NODE_MEMORY,
        examination(metrics=msgspec.structs.replace(metrics(), measures=(measure("node_cpu"),))),
    ),
    *cases(
        Name.POD_CPU,
        one("pod_cpu", problem="HTTP 422."),
        one("pod_cpu", problem="HTTP 422.", own_query=True),
    ),
    *cases(
        Name.NODE_CPU,
        one("node_cpu", **ABSENT),
        one("node_cpu", **ABSENT, missing_modes=("user", "system"), elsewhere=(OTHER_JOB,)),
        one("node_cpu", missing_modes=("steal", "user")),
        one("node_cpu", missing_modes=("iowait",)),
        one("node_cpu", **ABSENT, elsewhere=(OTHER_JOB,)),
        one("node_cpu", **ABSENT, elsewhere=(LabelGroup({}, 3),)),
        examination(
            policy=IN_US, metrics=metrics(measure("node_cpu", **ABSENT, elsewhere=(OTHER_JOB,)))
        ),
        one("node_cpu", **ABSENT, reach_seconds=41.0),
        one("node_cpu", reach_seconds=41.0),
        one("node_cpu", loads={}, reach_seconds=41.0),
        one("node_cpu", **ABSENT, own_query=True),
        one("node_cpu", highest=85.0, own_query=True),
        one("node_cpu", highest=7.0),
    ),
    *cases(Name.NODE_MEMORY, one("node_memory", highest=None)),
    *cases(Name.POD_CPU, one("pod_cpu", highest=500.0)),
    *cases(Name.POD_MEMORY, one("pod_memory", highest=512.0)),
    *cases(
        Name.POD_CPU,
        one("pod_cpu", measured=0),
        examination(cluster=cluster(pods=[]), metrics=metrics(measure("pod_cpu", **ABSENT))),
        one("pod_cpu", measured=2),
    ),
    *cases(
        Name.NODE_CPU,
        one("node_cpu", loads=HALF),
        one("node_cpu", loads={}, unmatched=3, examples=("instance is no node",)),
        one("node_cpu", loads={}, unmatched=3, services=(LabelGroup(EXPORTER, 3),)),
        one("node_cpu", loads={}, short_windows=("window 5m is too short",)),
    ),
]

SLOW = "window 5m is too short for a scrape interval of 120s: set windows to at least 8m"
WINDOWS = cases(
    Name.WINDOWS,
    examination(),
    one("node_cpu", interval_seconds=15.0),
    one("node_cpu", interval_seconds=120.0, short_windows=(SLOW,)),
    one("pod_memory", interval_seconds=200.0),
    one("pod_cpu", interval_seconds=120.0),
    examination(metrics=msgspec.structs.replace(metrics(), measures=())),
    examination(
        metrics=msgspec.structs.replace(
            metrics(), measures=(measure("node_cpu", interval_seconds=None),)
        )
    ),
    examination(policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")),
)

LATE = LoadHistory(60, (None, *((0.5,) * 10)))
CPU_LATE = {name: {Resource.CPU: LATE} for name in NAMES}
YOUNG = [node(name, created_at=NOW - timedelta(minutes=12)) for name in NAMES]
ONLY_CPU = by(rules=(rule(destination_windows=(DestinationWindow(3600, 0.95),)),))
OF_CPU = msgspec.structs.replace(metrics(), measures=(measure("node_cpu"), measure("pod_cpu")))
HISTORY = cases(
    Name.HISTORY,
    examination(),
    examination(load=loads(0.5, 0.5, 0.5, history=CPU_LATE)),
    examination(load=loads(0.5, 0.5, 0.5, history={})),
    examination(cluster=cluster(nodes=YOUNG)),
    examination(policy=ONLY_CPU, metrics=OF_CPU),
    examination(
        policy=ONLY_CPU,
        metrics=OF_CPU,
        load=loads(*(0.5,) * 3, destination_ratios={n: {Resource.CPU: (0.4,)} for n in NAMES}),
    ),
    examination(load=FORBIDDEN),
)

TEN = [node(f"n{i}") for i in range(10)]


def unknown_nodes(reason: UnknownReason, number: int = 3) -> ClusterLoad:
    ratios: Any = {f"n{i}": (0.5, 0.5) for i in range(10)}
    return load(ratios | {f"n{i}": (Unknown(reason), 0.5) for i in range(number)})


def uncovered(number: int) -> ClusterLoad:
    """Nodes whose windows samples cover after another minute for each of them."""
    found = unknown_nodes(UnknownReason.WINDOW_NOT_COVERED, number)
    seen = {
        f"n{i}": {Resource.CPU: SeenLoad(usable_in_seconds=60.0 * (i + 2))} for i in range(number)
    }
    return msgspec.structs.replace(found, seen=seen)


OF_UNCOVERED = {name: found[Resource.CPU] for name, found in uncovered(3).nodes.items()}


def of_ten(found: ClusterLoad, **fields: Any) -> Any:
    return examination(cluster=cluster(nodes=TEN, pods=[]), load=found, **fields)


def surprise(*, bad: bool, risk: float = 0.01) -> ForecastCheck:
    """A landing for which harm was so likely by the forecast."""
    return ForecastCheck(NOW, "", risk, bad, 1.0, not bad)


def tainted(**fields: Any) -> Any:
    return examination(cluster=cluster(nodes=[node("a", **fields), node("b"), node("c")]))


NODES = [
    *cases(
        Name.NODES,
        examination(),
        tainted(capacity=amounts(4, 64, **{"hugepages-1Gi": 56 * GIB})),
        of_ten(unknown_nodes(UnknownReason.STALE, 1)),
    ),
    *(
        Case(Name.NODES, of_ten(unknown_nodes(reason)))
        for reason in (
            UnknownReason.ABSENT,
            UnknownReason.STALE,
            UnknownReason.WINDOW_NOT_COVERED,
            UnknownReason.NOT_FINITE,
            UnknownReason.IMPLAUSIBLE,
            UnknownReason.CONTRADICTORY,
            UnknownReason.PODS_ABOVE_NODE,
        )
    ),
    *cases(
        Name.NODES,
        examination(cluster=cluster(nodes=[node("a", created_at=NOW)])),
        of_ten(uncovered(3)),
    ),
    *cases(
        Name.NODE_CPU,
        of_ten(uncovered(3), metrics=metrics(measure("node_cpu", loads=OF_UNCOVERED))),
    ),
    *cases(
        Name.NODES,
        examination(cluster=cluster(nodes=[node("a", ready=False)])),
        examination(load=loads(0.5, problems=((LoadProblem.PARTIAL_DATA, "a store is gone"),))),
        examination(load=Unanswered("HTTP 422.")),
        examination(load=FORBIDDEN, metrics=FORBIDDEN),
    ),
]

TARGETS = by(min_underloaded_nodes=2)
NVIDIA = amounts(4, 16, **{"nvidia.com/gpu": 4})
OF_GPUS = by(rules=(rule(Resource.CPU), rule(Resource.MEMORY), rule(Resource.GPU)))
SERVER = pod("server", on="a", request=amounts(1, 1, **{"nvidia.com/gpu": 1}))
DARK = Unknown(UnknownReason.ABSENT, "no series of DCGM's exporter belongs to this node")


def of_gpus(found: Measured | Unknown, used: Mapping[str, DeviceUsage] = {}) -> Any:
    """The node `a` offers four GPUs, of which one pod has one."""
    nodes = [node("a", capacity=NVIDIA, allocatable=NVIDIA), node("b"), node("c")]
    seen = loads(0.5, 0.5, 0.5, extras=GpuLoad({"a": found}, {"apps": used}).extras)
    return examination(policy=OF_GPUS, cluster=cluster(nodes=nodes, pods=[SERVER]), load=seen)


def gpus(number: int) -> Measured:
    return msgspec.structs.replace(measured(0.5), devices=number)


GPUS = cases(
    "gpus",
    examination(),
    examination(policy=OF_GPUS),
    of_gpus(DARK),
    of_gpus(gpus(4)),
    of_gpus(gpus(1)),
    of_gpus(gpus(1), {"server": DeviceUsage((0.5,), (0.0,))}),
)

THRESHOLDS = cases(
    Name.THRESHOLDS,
    examination(),
    of_ten(load({f"n{i}": (0.9 if i < 1 else 0.2, 0.2) for i in range(10)})),
    of_ten(load({f"n{i}": (0.9 if i < 4 else 0.2, 0.2) for i in range(10)})),
    examination(load=loads(0.95, 0.95, 0.9)),
    examination(policy=TARGETS),
    of_ten(
        load({f"n{i}": (0.6 if i < 1 else 0.2, 0.2) for i in range(10)}),
        policy=by(deviation=True, rules=(rule(low_ratio=0.1, target_ratio=0.5),)),
        metrics=OF_CPU,
    ),
    examination(load=load({n: (Unknown(UnknownReason.ABSENT), 0.1) for n in NAMES})),
)


def pauses(**fields: Any) -> StoredState:
    return StoredState(
        State(pauses=(Pause(PauseScope.EVERYTHING, since=NOW, until=None, **fields),))
    )


AVOIDED = {"taints": (STEERING_TAINT,)}
BEFORE, AFTER = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)


def homeless(**fields: Any) -> Any:
    """A cluster without the namespace of the state."""
    placed = [msgspec.structs.replace(each, namespace="desched-system") for each in rights()]
    known = cluster(namespaces={"apps": {}})
    return examination(state=StoredState(), rights=tuple(placed), cluster=known, **fields)


STATE = [
    *cases(
        Name.STATE,
        examination(),
        examination(state=StoredState()),
        homeless(),
        homeless(run=DRY_RUN),
        examination(state=FORBIDDEN),
        examination(state=FORBIDDEN, run=DRY_RUN),
        examination(state=StoredState(problem="The state cannot be used: it is damaged.")),
        examination(state=pauses(by="jo", why="storage")),
        examination(server_version=SILENT),
    ),
    *cases(
        Name.SOFT_TAINTS,
        examination(),
        tainted(**AVOIDED, steered_until=BEFORE),
        tainted(**AVOIDED),
        tainted(**AVOIDED, steered_until=AFTER),
    ),
]


def budgets(*found: Any, **fields: Any) -> Any:
    return examination(cluster=cluster(budgets=found, **fields))


STUCK = budget("web", 0, app="web")
NOT_READY = [pod("web-a", on="a", ready=False), pod("web-b", on="b")]
WITHOUT_BUDGET = by(protections=Protections(pods_without_budget=True))
BUDGETS = cases(
    Name.BUDGETS,
    examination(),
    budgets(budget("web", 1, app="web")),
    budgets(STUCK),
    budgets(STUCK, pods=NOT_READY),
    budgets(budget("other", 0, app="other")),
    budgets(msgspec.structs.replace(STUCK, up_to_date=False)),
    budgets(
        msgspec.structs.replace(STUCK, namespace="kube-system"),
        pods=[pod("dns", on="a", namespace="kube-system")],
    ),
    budgets(budget("one", 1, app="web"), budget("two", 1, app="web")),
    examination(policy=WITHOUT_BUDGET),
)


def beside(image: str = "", **fields: Any) -> Any:
    other = pod("x", on="a", scheduling={"images": (image,)}, namespace="ops", **fields)
    return examination(cluster=cluster(pods=[other]))


def draining(**fields: Any) -> Any:
    return examination(policy=by(plugins=house(Gpus(GpuDrainRules(("train",))))), **fields)


KNOWN_VOLCANO = {"volcano": OtherScheduler(SchedulerProfile.VOLCANO)}


def configured(configuration: VolcanoConfiguration) -> Any:
    """A pod of Volcano, by a policy that names its configuration and a weight of binpack."""
    place = "volcano-system/volcano-scheduler-configmap"
    written = {"binpack.weight": 0}
    volcano = OtherScheduler(SchedulerProfile.VOLCANO, config_map=place, written=written)
    known = cluster(pods=[pod("x", on="a", scheduler="volcano")])
    known = msgspec.structs.replace(known, volcano_configurations={place: configuration})
    by_policy = by(scheduler=SchedulerRules(others={"volcano": volcano}))
    return examination(cluster=known, policy=by_policy)


WEIGHTS = dict.fromkeys(VOLCANO_ARGUMENTS, 1)
SCALED = workload("web", autoscaler=Autoscaler(1, 1, 5))


def meshed(name: str, on: str, *volumes: str, **fields: Any) -> Any:
    found = tuple(PodVolume(VolumeKind.EMPTY_DIR, name=volume) for volume in volumes)
    return pod(name, on=on, volumes=found, **fields)


MESH = [
    meshed("web-a", "a", "istio-data", "tmp"),
    meshed("web-b", "b", "istio-data"),
    meshed("web-c", "c"),
]
LOCAL_STORAGE = cases(
    Name.LOCAL_STORAGE,
    examination(),
    examination(cluster=cluster(pods=MESH)),
    examination(cluster=cluster(pods=[*MESH, meshed("web-d", "c"), meshed("web-e", "c")])),
    examination(
        cluster=cluster(pods=[meshed("x", "a", "tmp", owner=Owner("DaemonSet", "x", "u"))])
    ),
    examination(
        cluster=cluster(pods=MESH), policy=by(protections=Protections(local_storage=False))
    ),
)

OTHERS = [
    *cases(
        Name.OTHER_DESCHEDULERS,
        examination(),
        beside("volcanosh/vc-descheduler:1"),
        msgspec.structs.replace(
            beside("volcanosh/vc-descheduler:1"),
            policy=by(acknowledged_deschedulers=(OtherDescheduler.VOLCANO,)),
        ),
    ),
    *cases(
        Name.AUTOSCALERS,
        examination(),
        examination(cluster=cluster(workloads=[SCALED])),
        examination(cluster=cluster(sized_owners=frozenset({("Deployment", "apps", "web")}))),
        beside("registry.k8s.io/autoscaling/cluster-autoscaler:v1.31"),
        tainted(taints=(Taint(CANDIDATE_TAINT, "PreferNoSchedule", "1777000000"),)),
        tainted(taints=(Taint(CANDIDATE_TAINT, "PreferNoSchedule", "soon"),)),
        beside(
            "public.ecr.aws/karpenter/controller:1", labels={"app.kubernetes.io/name": "karpenter"}
        ),
        tainted(labels={"karpenter.sh/nodepool": "default"}),
        beside("registry.k8s.io/autoscaling/vpa-updater:1.2"),
        examination(node_autoscalers={"Karpenter": "Karpenter (by the API group karpenter.sh)"}),
    ),
    *cases(
        Name.HELD_NODES,
        examination(),
        examination(policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")),
        draining(),
        draining(rights=rights("steer", missing=("patch nodes",))),
        draining(rights=rights("steer", missing=("patch nodes",)), run=DRY_RUN),
        draining(cluster=tainted(labels={"karpenter.sh/nodepool": "default"}).cluster),
        draining(cluster=beside("registry.k8s.io/autoscaling/cluster-autoscaler:v1.31").cluster),
        draining(node_autoscalers={"Karpenter": "Karpenter (by the API group karpenter.sh)"}),
        draining(node_autoscalers=Unanswered("The API server does not list its API groups.")),
    ),
    *cases(
        Name.SCHEDULER,
        examination(state=StoredState(State(forecasts=(surprise(bad=True),)))),
        examination(state=StoredState(State(forecasts=(surprise(bad=False),)))),
        examination(state=StoredState(State(forecasts=(surprise(bad=True, risk=0.15),)))),
        examination(),
        beside(scheduler="volcano"),
        beside(scheduler="our-own"),
        msgspec.structs.replace(
            beside(scheduler="volcano"), policy=by(scheduler=SchedulerRules(others=KNOWN_VOLCANO))
        ),
        configured(VolcanoConfiguration(unclear="the account may not get configmaps")),
        configured(VolcanoConfiguration(WEIGHTS)),
        configured(VolcanoConfiguration(WEIGHTS | {"binpack.weight": 0})),
        beside(scheduler="gke.io/optimize-utilization-scheduler"),
        beside(scheduler="odd", owner=Owner("DaemonSet", "ds", "uid-ds")),
    ),
]

CASES = [
    *API_SERVER,
    *RIGHTS,
    *POD_GROUPS,
    *NETWORKS,
    *MODEL_CACHES,
    *QUEUES,
    *POLICY,
    *PROMETHEUS,
    *HONORED_LABELS,
    *MATCHERS,
    *MEASURES,
    *GPUS,
    *WINDOWS,
    *HISTORY,
    *NODES,
    *THRESHOLDS,
    *STATE,
    *BUDGETS,
    *LOCAL_STORAGE,
    *OTHERS,
]
