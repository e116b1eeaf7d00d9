"""Each check where all is well, and each failure with what is said of it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from desched.adapters.prometheus.stacks import FoundService
from desched.doctor.checks import CheckName as Name
from desched.doctor.checks import Verdict
from desched.doctor.examination import FeatureRights, Origin, PolicyFacts, SystemFacts, Unanswered
from desched.doctor.other_controllers import CANDIDATE_TAINT
from desched.model.cluster import (
    STEERING_TAINT,
    Autoscaler,
    Owner,
    PodVolume,
    Taint,
    VolumeKind,
)
from desched.model.load import (
    ClusterLoad,
    GpuUsage,
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
from desched.policy.compatibility import Queues, SteeringMode
from desched.policy.gpu_drains import GpuDrainRules, Reserve
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
from tests.builders import GIB, NOW, amounts, budget, load, measured, node, pod, rule, workload
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

OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM
UNKNOWN, SKIPPED = Verdict.UNKNOWN, Verdict.SKIPPED
SILENT = Unanswered("The API server did not answer GET /version completely: no connection.")
FORBIDDEN = Unanswered("The nodes could not be read: the account may not list nodes (403).")


def cases(name: Name, *rows: tuple[Any, ...]) -> list[Case]:
    """Of one check: the examination, the verdict, and parts of what is found and of its fix."""
    return [Case(name, *row) for row in rows]


def by(**fields: Any) -> PolicyFacts:
    return PolicyFacts(policy(**fields), "policy.yaml")


EXPORTER = {"job": "a", "namespace": "mon", "service": "exporter"}

API_SERVER = [
    *cases(
        Name.API_SERVER,
        (examination(), OK, "Kubernetes v1.36.3 answers"),
        (examination(server_version="v1.30.0-gke.1"), OK, "v1.30.0-gke.1"),
        (examination(server_version=SILENT), PROBLEM, "no connection", "kubectl"),
        (examination(server_version="v1.29.9"), PROBLEM, "1.30", "Upgrade"),
        (examination(server_version="v0.9"), PROBLEM, "v0.9", "Upgrade"),
        (examination(server_version=""), UNKNOWN, "not understood", "version"),
    ),
    *cases(
        Name.CLUSTER,
        (examination(), OK, "3 nodes and 3 pods"),
        (examination(cluster=FORBIDDEN), UNKNOWN, "list nodes", "see rights_plan"),
        (examination(cluster=cluster(nodes=[], pods=[])), PROBLEM, "no node", "get"),
        (examination(server_version=SILENT, cluster=SILENT), SKIPPED, "not answer"),
    ),
    *cases(
        Name.CLOCKS,
        (examination(), OK, "API server and Prometheus agree"),
        (examination(cluster_lead_seconds=8.0), PROBLEM, "8 s ahead", "NTP"),
        (examination(load_lead_seconds=-90.0), PROBLEM, "90 s behind", "timedatectl"),
        (examination(load=SILENT), OK, "and of the API server agree"),
        (examination(load=SILENT, cluster_lead_seconds=-9.0), PROBLEM, "9 s behind"),
        (examination(cluster=FORBIDDEN), SKIPPED, "could not be read"),
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
    *(
        Case(name, examination(), OK, "The account may")
        for name in Name
        if name.startswith("rights_")
    ),
    *cases(
        Name.RIGHTS_PLAN,
        (
            lacking("plan", "list nodes", "list pods"),
            PROBLEM,
            "The account may not list nodes, list pods. Without them, nothing is evicted",
            "Grant it with `kubectl apply -k deploy/base`.",
        ),
        (
            lacking("plan", "list nodes", run=run_facts(in_cluster=False, account="o'hara")),
            PROBLEM,
            "The account may not list nodes.",
            "--clusterrole=desched --user='o'\"'\"'hara'` (the role is in deploy/base/rbac.yaml).",
        ),
        (
            lacking("plan", "list nodes", run=run_facts(in_cluster=False)),
            PROBLEM,
            "The account may not list nodes.",
            "--clusterrole=desched --user=USER`",
        ),
        (unasked("plan"), UNKNOWN, "may list pods could not be", "can-i"),
        (examination(server_version=SILENT), SKIPPED, "does not answer"),
        (
            examination(run=run_facts(in_cluster=False)),
            OK,
            "may read",
            "`kubectl --namespace desched-system exec deployment/desched -- desched doctor`",
        ),
    ),
    *cases(
        Name.RIGHTS_WATCH,
        (lacking("watch", "watch pods"), PROBLEM, "watch", "--watch=false"),
        (lacking("watch", "watch pods", run=run_facts(watches=False)), SKIPPED, "lists instead"),
    ),
    *cases(
        Name.RIGHTS_LEASE,
        (lacking("lease", "get leases"), PROBLEM, "", "--leader-elect=false"),
        (
            lacking("lease", "get leases", run=run_facts(elects=False)),
            SKIPPED,
            "no part in leader election",
        ),
    ),
    *cases(
        Name.RIGHTS_STATE,
        (lacking("state", "get configmaps"), PROBLEM, "", "--state-namespace"),
        (lacking("state", "get configmaps", run=DRY_RUN), WARNING),
    ),
    *cases(
        Name.RIGHTS_EVICT,
        (lacking("evict", "create pods/eviction"), PROBLEM, "", "--dry-run"),
        (
            lacking("evict", "create pods/eviction", run=DRY_RUN),
            SKIPPED,
            "may not create pods/eviction. A dry run does not need it.",
            "before you need it",
        ),
    ),
    *cases(Name.RIGHTS_RECORD, (lacking("record", "patch configmaps"), PROBLEM, "", "--dry-run")),
    *cases(Name.RIGHTS_SIZING, (lacking("sizing", "list them"), WARNING, "may not list them")),
    *cases(Name.RIGHTS_DEVICES, (lacking("devices", "list them"), WARNING, "may not list them")),
    *cases(
        Name.RIGHTS_METRICS_SERVER,
        (
            lacking("metrics_server", "list nodes", policy=BY_METRICS_SERVER),
            PROBLEM,
            "list nodes",
            "deploy/base",
        ),
        (lacking("metrics_server", "list nodes"), SKIPPED, "reads load from Prometheus"),
    ),
    *cases(
        Name.RIGHTS_CUSTOM_METRICS,
        (
            lacking("custom_metrics", "get them", policy=BY_CUSTOM_METRICS),
            PROBLEM,
            "get them",
            "deploy/base",
        ),
        (
            lacking("custom_metrics", "get them", policy=BY_METRICS_SERVER),
            OK,
            "reads load from metrics-server. It needs none",
        ),
    ),
    *cases(
        Name.RIGHTS_STEER,
        (lacking("steer", "patch nodes"), WARNING, "Without it", "steering: Off"),
        (lacking("steer", "patch nodes", policy=OFF), SKIPPED, "is Off"),
    ),
    *cases(Name.RIGHTS_EVENTS, (lacking("events", "create events"), WARNING, "create events")),
    *cases(
        Name.RIGHTS_LOGBOOK,
        (lacking("logbook", "patch configmaps"), WARNING, "patch configmaps", "--logbook=false"),
    ),
    *cases(
        Name.RIGHTS_OWN_EVENTS,
        (lacking("own_events", "get pods"), WARNING, "get pods"),
        (
            lacking("own_events", "get pods", run=run_facts(in_cluster=False)),
            SKIPPED,
            "no pod of its own",
        ),
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
    (examination(), OK, "The cluster has no PodGroups"),
    (
        examination(pod_groups=(VOLCANO, KAI)),
        OK,
        "may read the PodGroups or topologies of Volcano, KAI.",
    ),
    (
        examination(pod_groups=(VOLCANO, UNREADABLE)),
        WARNING,
        "KAI, but the account may not list podgroups, watch podgroups. Without them, their pods",
        "`kubectl apply -f deploy/pod-groups/kai.yaml`",
    ),
    (examination(pod_groups=(WATCHES_NOT,)), WARNING, "Volcano", "volcano.yaml"),
    (
        examination(pod_groups=(WATCHES_NOT,), run=run_facts(watches=False)),
        OK,
        "may read the PodGroups or topologies of Volcano",
    ),
    (
        examination(pod_groups=(VOLCANO, groups("KAI", is_read=False))),
        WARNING,
        "does not read the versions of PodGroups or topologies that KAI has",
        "`kubectl get --raw /apis`",
    ),
    (
        examination(pod_groups=(groups("KAI", unanswered=("list podgroups",)),)),
        UNKNOWN,
        "may read the PodGroups or topologies of KAI could not be asked",
        "kai.yaml",
    ),
    (examination(pod_groups=SILENT), WARNING, "no connection", "/apis"),
    (examination(server_version=SILENT), SKIPPED, "does not answer"),
)

QUEUE_FILES = "deploy/queues"
UNREADABLE_QUEUES = groups(
    "Kueue", folder=QUEUE_FILES, missing=("list localqueues",), without=("pods move anyway",)
)
QUEUES = cases(
    Name.QUEUES,
    (examination(), OK, "The cluster has no queues"),
    (
        examination(queues=(groups("Volcano", folder=QUEUE_FILES),)),
        OK,
        "may read the queues of Volcano.",
    ),
    (
        examination(queues=(UNREADABLE_QUEUES,)),
        WARNING,
        "has Kueue, but the account may not list localqueues. Without it, pods move anyway.",
        "`kubectl apply -f deploy/queues/kueue.yaml`, or `rights.queues` in the chart",
    ),
    (
        examination(queues=(UNREADABLE_QUEUES,), policy=by(queues=Queues.IGNORE)),
        SKIPPED,
        "queues is Ignore",
    ),
)

CACHES = "deploy/model-caches"
UNREADABLE_CACHES = groups(
    "KServe", folder=CACHES, missing=("list localmodelcaches",), without=("volumes keep pods",)
)
MODEL_CACHES = cases(
    Name.MODEL_CACHES,
    (examination(), OK, "The cluster has no model caches"),
    (
        examination(model_caches=(groups("GPUStack", folder=CACHES),)),
        OK,
        "may read the model caches of GPUStack.",
    ),
    (
        examination(model_caches=(UNREADABLE_CACHES,)),
        WARNING,
        "has KServe, but the account may not list localmodelcaches. Without it, volumes keep pods.",
        "`kubectl apply -f deploy/model-caches/kserve.yaml`, or `rights.modelCaches` in the chart",
    ),
    (
        examination(model_caches=(groups("KServe", folder=CACHES, is_read=False),)),
        WARNING,
        "as if they needed no model",
    ),
)

NAMED = PriorityThreshold(class_name="hihg")
POLICY = cases(
    Name.POLICY,
    (examination(), OK, "policy.yaml is valid"),
    (
        examination(policy=PolicyFacts(policy())),
        WARNING,
        "No policy is given",
        "`desched doctor --write-policy FILE`",
    ),
    (
        examination(
            policy=PolicyFacts(policy(), written_to="new.yaml"), prometheus=prometheus(address="")
        ),
        WARNING,
        "new.yaml is not written",
        "`--prometheus-url`",
    ),
    (
        examination(policy=PolicyFacts(policy(), "p.yaml", problem="p.yaml:3: no such key.")),
        PROBLEM,
        "p.yaml:3: no such key.",
        "Correct it",
    ),
    (
        examination(policy=PolicyFacts(policy(), "p.yaml", ("p.yaml:7: has no effect.",))),
        WARNING,
        "1 warning",
        "docs/policy-reference.md",
    ),
    (
        examination(
            policy=by(protections=Protections(priority_threshold=NAMED)),
            cluster=cluster(priority_classes={"high": 5}),
        ),
        PROBLEM,
        'no PriorityClass "hihg"',
        "priorityThreshold",
    ),
    (
        examination(policy=by(gpu_drains=GpuDrainRules(reserves=(Reserve(8),)))),
        WARNING,
        "1 warning",
        "docs/policy-reference.md",
    ),
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
    (
        examination(policy=BY_METRICS_SERVER),
        OK,
        "from metrics-server, which answers. It has no history",
    ),
    (
        examination(policy=BY_METRICS_SERVER, load=FORBIDDEN),
        PROBLEM,
        "may not list nodes",
        "metrics.type",
    ),
    (examination(), OK, f"{ADDRESS} answers (from metrics.address, prom"),
    (
        examination(run=OUTSIDE),
        OK,
        "answers",
        "`kubectl --namespace monitoring port-forward service/prometheus-server 9090:80`",
    ),
    (
        at(msgspec.structs.replace(NOWHERE, services=())),
        PROBLEM,
        "no Service of a known stack was found",
        "Set `metrics.address` in the policy or pass `--prometheus-url`.",
    ),
    (
        at(msgspec.structs.replace(NOWHERE, services=FORBIDDEN)),
        PROBLEM,
        "none could be searched for",
        "--prometheus-url",
    ),
    (
        at(NOWHERE, policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")),
        SKIPPED,
        "which may name its address, is invalid",
    ),
    (
        at(FOUND, policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")),
        OK,
        "found by the labels",
    ),
    (
        at(prometheus(problem="Several credentials are set.", invalid=True)),
        PROBLEM,
        "Several credentials",
        "metrics.address",
    ),
    (
        at(prometheus(origin=Origin.DISCOVERED, problem="x was found.", invalid=True)),
        PROBLEM,
        "was found",
        f"pass `--prometheus-url {ADDRESS}`",
    ),
    (
        at(prometheus(problem=REFUSES), run=OUTSIDE),
        PROBLEM,
        "cannot be reached",
        "Run `kubectl --namespace monitoring port-forward",
    ),
    (
        at(prometheus(problem=REFUSES)),
        PROBLEM,
        "cannot be reached",
        "`deploy/base/network-policy.yaml` allows port 9090",
    ),
    (
        at(prometheus(address="http://elsewhere:9090", problem="It asks for more.", answers=True)),
        PROBLEM,
        "It asks for more.",
        "something answers at this address",
    ),
    (
        at(prometheus(problem="It asks for more.", answers=True)),
        PROBLEM,
        "It asks for more.",
        "something answers at this address",
    ),
    (
        at(prometheus(address="http://elsewhere:9090", problem=REFUSES)),
        PROBLEM,
        "cannot be reached",
        "with an address that answers",
    ),
    (
        at(prometheus(address=OPENSHIFT.url, services=(OPENSHIFT,), problem="HTTP 401.")),
        PROBLEM,
        "401",
        "OpenShift needs a token (`--prometheus-bearer-token-file`); pass `--prometheus-url https",
    ),
    (
        at(
            prometheus(
                address=OPENSHIFT.url,
                origin=Origin.STACK,
                services=(OPENSHIFT,),
                problem="HTTP 401.",
            )
        ),
        PROBLEM,
        "401",
        f"OpenShift {OPENSHIFT.needs}.",
    ),
    (
        at(prometheus(address="", origin=Origin.STACK, problem="Several Services.", invalid=True)),
        PROBLEM,
        "Several Services.",
        "Correct `metrics.stack`",
    ),
    (
        at(FOUND),
        PROBLEM,
        "No address of Prometheus is set.",
        f"Set `metrics.address: {ADDRESS}` in policy.yaml.",
    ),
    (
        at(FOUND, policy=PolicyFacts(policy())),
        OK,
        "found by the labels of Service monitoring/prometheus-server, prometheus chart",
    ),
    (
        at(msgspec.structs.replace(FOUND, services=(CHART, CHART)), policy=PolicyFacts(policy())),
        WARNING,
        "answers",
        "Check that it is the right one",
    ),
    (
        at(prometheus(address=VICTORIA.url, services=(VICTORIA,))),
        WARNING,
        "port 8481, which the NetworkPolicy of deploy/base does not allow",
        "Add the port 8481 to `deploy/base/network-policy.yaml`.",
    ),
)

EU, US = LabelGroup({"cluster": "eu"}, 3), LabelGroup({"cluster": "us"}, 1)
MIXED = {"cluster": ("eu", "us")}
IN_US = by(metrics=MetricsSource(ADDRESS, {"cluster": "us"}))
HONORED_LABELS = cases(
    Name.HONORED_LABELS,
    (examination(metrics=metrics(jobs_of_strangers=None)), SKIPPED, "cannot be read"),
    (examination(), OK, "No scrape"),
    (
        examination(metrics=metrics(jobs_of_strangers=("kubernetes-pods",))),
        WARNING,
        "by kubernetes-pods",
        "honor_labels to false",
    ),
)

MATCHERS = cases(
    Name.MATCHERS,
    (examination(), OK, "Prometheus has 3 of 3 sampled pods"),
    (examination(metrics=Unanswered("Not asked.")), SKIPPED, "Not asked."),
    (
        examination(metrics=metrics(cluster_values=MIXED, sightings=(EU, US))),
        PROBLEM,
        "data of 2 clusters by the label cluster: eu, us",
        "Set `metrics.matchers: {cluster: eu}`",
    ),
    (
        examination(metrics=metrics(cluster_values={"cluster": ("", "us")})),
        PROBLEM,
        "us, none",
        'Set `metrics.matchers: {cluster: ""}`',
    ),
    (
        examination(metrics=metrics(cluster_values=MIXED, sightings=None)),
        PROBLEM,
        "2 clusters",
        "the label cluster with the value of this cluster",
    ),
    (
        examination(policy=IN_US, metrics=metrics(sightings=(EU,))),
        PROBLEM,
        "none of 3 sampled pods of this cluster; Prometheus has them under {cluster: eu}",
        "Set `metrics.matchers: {cluster: eu}`",
    ),
    (
        examination(policy=IN_US, metrics=metrics(sightings=())),
        PROBLEM,
        "none of 3 sampled pods of this cluster under {cluster: us}",
        "Correct `metrics.matchers`, or pass the `--prometheus-url`",
    ),
    (
        examination(policy=IN_US, metrics=metrics(sightings=(LabelGroup({"cluster": "us"}, 3),))),
        OK,
        "this cluster's by {cluster: us}: Prometheus has 3 of 3",
    ),
    (examination(metrics=metrics(sightings=None)), UNKNOWN, "", "timeout"),
    (examination(metrics=metrics(sampled=0, sightings=())), OK, "no pods"),
)


def one(name: str, **fields: Any) -> Any:
    return examination(metrics=metrics(measure(name, **fields)))


ABSENT: dict[str, Any] = {"series": 0, "source": "", "matched": {}, "measured": 0, "loads": {}}
OTHER_JOB = LabelGroup({"job": "mine"}, 12)
HALF = {"a": loads(0.5).nodes["a"][Resource.CPU], "b": Unknown(UnknownReason.STALE, "9 m old")}
MEASURES = [
    *cases(
        Name.NODE_CPU,
        (
            examination(),
            OK,
            "(3); 3 series, newest samples up to 25 s old, load from 20.0 to 80.0 %",
        ),
    ),
    *cases(Name.POD_MEMORY, (examination(), OK, "3 of 3 running pods by cAdvisor")),
    *cases(Name.NODE_CPU, (examination(metrics=FORBIDDEN), SKIPPED, "may not list nodes")),
    *cases(
        Name.NODE_MEMORY,
        (
            examination(
                metrics=msgspec.structs.replace(metrics(), measures=(measure("node_cpu"),))
            ),
            SKIPPED,
            "no target for memory",
        ),
    ),
    *cases(
        Name.POD_CPU,
        (one("pod_cpu", problem="HTTP 422."), PROBLEM, "422", "metrics.sources"),
        (
            one("pod_cpu", problem="HTTP 422.", own_query=True),
            PROBLEM,
            "422",
            "`metrics.queries.podCPU`",
        ),
    ),
    *cases(
        Name.NODE_CPU,
        (
            one("node_cpu", **ABSENT),
            PROBLEM,
            "no series",
            "scrape node_exporter or /metrics/cadvisor of the kubelets",
        ),
        (
            one("node_cpu", **ABSENT, missing_modes=("user", "system"), elsewhere=(OTHER_JOB,)),
            PROBLEM,
            "without the modes user, system;",
            "Keep all modes",
        ),
        (
            one("node_cpu", missing_modes=("steal", "user")),
            PROBLEM,
            "without the modes steal, user;",
            "Keep all modes",
        ),
        (one("node_cpu", missing_modes=("iowait",)), OK, "3 of 3 nodes"),
        (
            one("node_cpu", **ABSENT, elsewhere=(OTHER_JOB,)),
            PROBLEM,
            'some of job="mine"',
            'set `metrics.sources.nodeCPU: job="mine"`',
        ),
        (
            one("node_cpu", **ABSENT, elsewhere=(LabelGroup({}, 3),)),
            PROBLEM,
            "3 series without the label job",
            'set `metrics.sources.nodeCPU: job=""`',
        ),
        (
            examination(
                policy=IN_US, metrics=metrics(measure("node_cpu", **ABSENT, elsewhere=(OTHER_JOB,)))
            ),
            PROBLEM,
            "matchers select no series",
            "metrics.matchers",
        ),
        (
            one("node_cpu", **ABSENT, reach_seconds=41.0),
            PROBLEM,
            "Prometheus is young: its samples reach back 41 s, and the longest window is 5m.",
            "Wait 4 min, until 12:04 UTC, or shorten `windows`.",
        ),
        (one("node_cpu", reach_seconds=41.0), OK, "3 of 3 nodes"),
        (one("node_cpu", loads={}, reach_seconds=41.0), PROBLEM, "young", "Wait 4 min"),
        (
            one("node_cpu", **ABSENT, own_query=True),
            PROBLEM,
            "own query metrics.queries.nodeCPU returns no series",
            "`metrics.queries.nodeCPU`",
        ),
        (
            one("node_cpu", highest=85.0, own_query=True),
            PROBLEM,
            "85, which looks like percent; a share of capacity from 0 to 1 is expected",
            "Convert the unit in `metrics.queries.nodeCPU`.",
        ),
        (one("node_cpu", highest=7.0), PROBLEM, "percent", "`metrics.sources.nodeCPU`"),
    ),
    *cases(
        Name.NODE_MEMORY, (one("node_memory", highest=None), PROBLEM, "none of which is a number")
    ),
    *cases(Name.POD_CPU, (one("pod_cpu", highest=500.0), PROBLEM, "looks like millicores; cores")),
    *cases(Name.POD_MEMORY, (one("pod_memory", highest=512.0), PROBLEM, "looks like MiB or GiB")),
    *cases(
        Name.POD_CPU,
        (one("pod_cpu", measured=0), PROBLEM, "0 of 3 running pods"),
        (
            examination(cluster=cluster(pods=[]), metrics=metrics(measure("pod_cpu", **ABSENT))),
            SKIPPED,
            "No pod runs",
        ),
        (one("pod_cpu", measured=2), WARNING, "2 of 3 running pods"),
    ),
    *cases(
        Name.NODE_CPU,
        (one("node_cpu", loads=HALF), WARNING, "1 of 3 nodes", "scraped on each"),
        (
            one("node_cpu", loads={}, unmatched=3, examples=("instance is no node",)),
            PROBLEM,
            "0 of 3 nodes",
            "a label `node` with the node's name",
        ),
        (
            one("node_cpu", loads={}, unmatched=3, services=(LabelGroup(EXPORTER, 3),)),
            PROBLEM,
            "0 of 3 nodes",
            'set `metrics.sources.nodeCPU: job="a",namespace="mon",service="exporter"`.',
        ),
        (
            one("node_cpu", loads={}, short_windows=("window 5m is too short",)),
            PROBLEM,
            "0 of 3 nodes",
            "Set wider `windows.cpu`.",
        ),
    ),
]

SLOW = "window 5m is too short for a scrape interval of 120s: set windows to at least 8m"
WINDOWS = cases(
    Name.WINDOWS,
    (examination(), OK, "Scraped every 30 s; windows 5m for cpu, 5m for memory."),
    (one("node_cpu", interval_seconds=15.0), OK, "every 15 s or less and 30 s"),
    (
        one("node_cpu", interval_seconds=120.0, short_windows=(SLOW,)),
        PROBLEM,
        "For node_cpu, window 5m is too short for a scrape interval of 120s.",
        "Set `windows.cpu` to at least 8m",
    ),
    (
        one("pod_memory", interval_seconds=200.0),
        PROBLEM,
        "For pod_memory, the window 5m has 1.5 samples, scraped every 200 s.",
        "Set `windows.memory` to at least 14m",
    ),
    (
        one("pod_cpu", interval_seconds=120.0),
        WARNING,
        "has 2.5 samples",
        "Set `windows.cpu` to at least 8m",
    ),
    (
        examination(metrics=msgspec.structs.replace(metrics(), measures=())),
        SKIPPED,
        "measures no resource",
    ),
    (
        examination(
            metrics=msgspec.structs.replace(
                metrics(), measures=(measure("node_cpu", interval_seconds=None),)
            )
        ),
        OK,
        "The scrape interval is not known",
    ),
    (
        examination(policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")),
        SKIPPED,
        "The policy is invalid.",
    ),
)

LATE = LoadHistory(60, (None, *((0.5,) * 10)))
CPU_LATE = {name: {Resource.CPU: LATE} for name in NAMES}
YOUNG = [node(name, created_at=NOW - timedelta(minutes=12)) for name in NAMES]
ONLY_CPU = by(rules=(rule(destination_windows=(DestinationWindow(3600, 0.95),)),))
OF_CPU = msgspec.structs.replace(metrics(), measures=(measure("node_cpu"), measure("pod_cpu")))
HISTORY = cases(
    Name.HISTORY,
    (examination(), OK, "3 nodes have a history of 3h"),
    (
        examination(load=loads(0.5, 0.5, 0.5, history=CPU_LATE)),
        WARNING,
        "3 nodes have no history of 3h",
        "Wait until Prometheus has data for so long",
    ),
    (examination(load=loads(0.5, 0.5, 0.5, history={})), WARNING, "3 nodes"),
    (examination(cluster=cluster(nodes=YOUNG)), SKIPPED, "old enough"),
    (
        examination(policy=ONLY_CPU, metrics=OF_CPU),
        WARNING,
        "over destinationWindows is unknown for 3 nodes",
        "`destinationWindows`",
    ),
    (
        examination(
            policy=ONLY_CPU,
            metrics=OF_CPU,
            load=loads(*(0.5,) * 3, destination_ratios={n: {Resource.CPU: (0.4,)} for n in NAMES}),
        ),
        OK,
        "history of 3h",
    ),
    (examination(load=FORBIDDEN), SKIPPED, "load is not known"),
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
        (examination(), OK, "3 nodes have trusted load, 0 unknown, 0 out of scope."),
        (
            tainted(capacity=amounts(4, 64, **{"hugepages-1Gi": 56 * GIB})),
            OK,
            "1 node keeps up to 88% of the memory for huge pages; that does not count.",
        ),
        (
            of_ten(unknown_nodes(UnknownReason.STALE, 1)),
            WARNING,
            "9 nodes have trusted load, 1 unknown",
            "Check the exporters",
        ),
    ),
    *(
        Case(
            Name.NODES,
            of_ten(unknown_nodes(reason)),
            PROBLEM,
            "The load of too many nodes is unknown (3 of 10 nodes",
            fix,
        )
        for reason, fix in {
            UnknownReason.ABSENT: "metrics.sources",
            UnknownReason.STALE: "kubectl get pods",
            UnknownReason.WINDOW_NOT_COVERED: "wider `windows`",
            UnknownReason.NOT_FINITE: "metrics.queries",
            UnknownReason.IMPLAUSIBLE: "a share from 0 to 1",
            UnknownReason.CONTRADICTORY: "one exporter for each node",
            UnknownReason.PODS_ABOVE_NODE: "`metrics.sources` accepts",
        }.items()
    ),
    *cases(
        Name.NODES,
        (
            examination(cluster=cluster(nodes=[node("a", created_at=NOW)])),
            PROBLEM,
            "No node is in scope",
            "Wait 5 min, until 12:05 UTC, or shorten `windows`.",
        ),
        (
            of_ten(uncovered(3)),
            PROBLEM,
            "The load of too many nodes is unknown (3 of 10 nodes",
            "Wait 4 min, until 12:04 UTC, or shorten `windows`.",
        ),
    ),
    *cases(
        Name.NODE_CPU,
        (
            of_ten(uncovered(3), metrics=metrics(measure("node_cpu", loads=OF_UNCOVERED))),
            WARNING,
            "7 of 10 nodes",
            "Wait 4 min, until 12:04 UTC, or shorten `windows`.",
        ),
    ),
    *cases(
        Name.NODES,
        (
            examination(cluster=cluster(nodes=[node("a", ready=False)])),
            PROBLEM,
            "No node is in scope",
            "kubectl get nodes",
        ),
        (
            examination(load=loads(0.5, problems=((LoadProblem.PARTIAL_DATA, "a store is gone"),))),
            PROBLEM,
            "a store is gone",
            "metrics.matchers",
        ),
        (examination(load=Unanswered("HTTP 422.")), PROBLEM, "422", "metrics.queries"),
        (examination(load=FORBIDDEN, metrics=FORBIDDEN), SKIPPED, "load is not known"),
    ),
]

TARGETS = by(min_underloaded_nodes=2)
NVIDIA = amounts(4, 16, **{"nvidia.com/gpu": 4})
OF_GPUS = by(rules=(rule(Resource.CPU), rule(Resource.MEMORY), rule(Resource.GPU)))
SERVER = pod("server", on="a", request=amounts(1, 1, **{"nvidia.com/gpu": 1}))
DARK = Unknown(UnknownReason.ABSENT, "no series of DCGM's exporter belongs to this node")


def of_gpus(found: Measured | Unknown, used: Mapping[tuple[str, str], GpuUsage] = {}) -> Any:
    """The node `a` offers four GPUs, of which one pod has one."""
    nodes = [node("a", capacity=NVIDIA, allocatable=NVIDIA), node("b"), node("c")]
    seen = loads(0.5, 0.5, 0.5, gpus={"a": found}, gpu_usages=used)
    return examination(policy=OF_GPUS, cluster=cluster(nodes=nodes, pods=[SERVER]), load=seen)


def gpus(number: int) -> Measured:
    return msgspec.structs.replace(measured(0.5), gpus=number)


GPUS = cases(
    Name.GPUS,
    (examination(), OK, "no target for gpu"),
    (examination(policy=OF_GPUS), WARNING, "no node has a GPU", "Remove gpu"),
    (of_gpus(DARK), WARNING, "1 node are not", "`metrics.sources.nodeGPU`"),
    (of_gpus(gpus(4)), WARNING, "none is judged", "time slicing"),
    (of_gpus(gpus(1)), WARNING, "apps/server", "`KUBERNETES_VIRTUAL_GPUS=true`"),
    (of_gpus(gpus(1), {("apps", "server"): GpuUsage((0.5,), (0.0,))}), OK, "1 node shares"),
)

THRESHOLDS = cases(
    Name.THRESHOLDS,
    (
        examination(),
        OK,
        "0 nodes are overloaded now, 1 underloaded.",
        "With cpu 49, memory 29 (percent), 5 % of the nodes would be overloaded.",
    ),
    (
        of_ten(load({f"n{i}": (0.9 if i < 1 else 0.2, 0.2) for i in range(10)})),
        OK,
        "1 node is overloaded now, 9 underloaded.",
    ),
    (
        of_ten(load({f"n{i}": (0.9 if i < 4 else 0.2, 0.2) for i in range(10)})),
        WARNING,
        "4 nodes are overloaded now",
        "Set `targetThresholds` by today's load: cpu 89",
    ),
    (
        examination(load=loads(0.95, 0.95, 0.9)),
        WARNING,
        "are full, and no move would level them (cpu 93.3% on average",
        "raise `targetThresholds`",
    ),
    (
        examination(policy=TARGETS),
        WARNING,
        "numberOfNodes requires more than 2",
        "Lower `numberOfNodes`",
    ),
    (
        of_ten(
            load({f"n{i}": (0.6 if i < 1 else 0.2, 0.2) for i in range(10)}),
            policy=by(deviation=True, rules=(rule(low_ratio=0.1, target_ratio=0.5),)),
            metrics=OF_CPU,
        ),
        OK,
        "0 nodes are overloaded",
        "cpu 35 (percent above the mean)",
    ),
    (
        examination(load=load({n: (Unknown(UnknownReason.ABSENT), 0.1) for n in NAMES})),
        SKIPPED,
        "No node has trusted load.",
    ),
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
        (examination(), OK, "It can be read; no cycle yet, 0 evictions in flight."),
        (examination(state=StoredState()), OK, "no state yet"),
        (homeless(), PROBLEM, "no namespace desched-system", "create namespace"),
        (homeless(run=DRY_RUN), OK, "no namespace desched-system", "installation"),
        (examination(state=FORBIDDEN), UNKNOWN, "403", "--state-namespace"),
        (examination(state=FORBIDDEN, run=DRY_RUN), WARNING, "403", "see rights_state"),
        (
            examination(state=StoredState(problem="The state cannot be used: it is damaged.")),
            PROBLEM,
            "it is damaged",
            "`desched pause`",
        ),
        (
            examination(state=pauses(by="jo", why="storage")),
            WARNING,
            "Evictions are paused",
            "`desched resume`",
        ),
        (examination(server_version=SILENT), SKIPPED, "does not answer"),
    ),
    *cases(
        Name.SOFT_TAINTS,
        (examination(), OK, "No node has one."),
        (
            tainted(**AVOIDED, steered_until=BEFORE),
            WARNING,
            "1 node has an expired soft taint of desched: a.",
            "`desched steering clear`",
        ),
        (
            tainted(**AVOIDED),
            WARNING,
            "from somebody else: a",
            "`kubectl taint nodes a desched.io/overloaded-`",
        ),
        (
            tainted(**AVOIDED, steered_until=AFTER),
            OK,
            "1 node has one: a",
            "`desched steering clear`",
        ),
    ),
]


def budgets(*found: Any, **fields: Any) -> Any:
    return examination(cluster=cluster(budgets=found, **fields))


STUCK = budget("web", 0, app="web")
NOT_READY = [pod("web-a", on="a", ready=False), pod("web-b", on="b")]
WITHOUT_BUDGET = by(protections=Protections(pods_without_budget=True))
BUDGETS = cases(
    Name.BUDGETS,
    (examination(), OK, "There is no PodDisruptionBudget."),
    (budgets(budget("web", 1, app="web")), OK, "1 budget."),
    (
        budgets(STUCK),
        WARNING,
        "1 budget allows no eviction although all their pods are Ready; 3 pods stay.",
        "`kubectl --namespace apps edit poddisruptionbudget web`",
    ),
    (budgets(STUCK, pods=NOT_READY), OK, "1 allow none now because pods are not"),
    (budgets(budget("other", 0, app="other")), OK, "1 budget."),
    (budgets(msgspec.structs.replace(STUCK, up_to_date=False)), OK, "1 allow none now"),
    (
        budgets(
            msgspec.structs.replace(STUCK, namespace="kube-system"),
            pods=[pod("dns", on="a", namespace="kube-system")],
        ),
        OK,
        "1 budget.",
    ),
    (
        budgets(budget("one", 1, app="web"), budget("two", 1, app="web")),
        WARNING,
        "Several budgets cover 3 pods",
        "kubectl get poddisruptionbudgets",
    ),
    (
        examination(policy=WITHOUT_BUDGET),
        WARNING,
        "moves only pods with a PodDisruptionBudget, and there is none",
        "`PodsWithoutPDB`",
    ),
)


def beside(image: str = "", **fields: Any) -> Any:
    other = pod("x", on="a", scheduling={"images": (image,)}, namespace="ops", **fields)
    return examination(cluster=cluster(pods=[other]))


def draining(**fields: Any) -> Any:
    return examination(policy=by(gpu_drains=GpuDrainRules(("train",))), **fields)


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
    (examination(), OK, "No pod stays for an emptyDir on disk."),
    (
        examination(cluster=cluster(pods=MESH)),
        WARNING,
        "2 of 3 pods stay for their emptyDirs on disk: istio-data, tmp",
        "`evictLocalStoragePods: true` in the policy",
    ),
    (
        examination(cluster=cluster(pods=[*MESH, meshed("web-d", "c"), meshed("web-e", "c")])),
        OK,
        "2 of 5 pods stay",
        "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    ),
    (
        examination(
            cluster=cluster(pods=[meshed("x", "a", "tmp", owner=Owner("DaemonSet", "x", "u"))])
        ),
        OK,
        "No pod stays",
    ),
    (
        examination(
            cluster=cluster(pods=MESH), policy=by(protections=Protections(local_storage=False))
        ),
        OK,
        "The policy moves pods with emptyDirs",
    ),
)

OTHERS = [
    *cases(
        Name.OTHER_DESCHEDULERS,
        (examination(), OK, "No other descheduler"),
        (
            beside("volcanosh/vc-descheduler:1"),
            WARNING,
            "Volcano descheduler in ops",
            "`kubectl --namespace ops get deployments,cronjobs`",
        ),
        (
            msgspec.structs.replace(
                beside("volcanosh/vc-descheduler:1"),
                policy=by(acknowledged_deschedulers=(OtherDescheduler.VOLCANO,)),
            ),
            OK,
            "Beside desched on purpose, by the policy: Volcano descheduler in ops.",
        ),
    ),
    *cases(
        Name.AUTOSCALERS,
        (examination(), OK, "None was seen"),
        (
            examination(cluster=cluster(workloads=[SCALED])),
            OK,
            "1 workload with a HorizontalPodAutoscaler",
        ),
        (
            examination(cluster=cluster(sized_owners=frozenset({("Deployment", "apps", "web")}))),
            OK,
            "1 workload with a VerticalPodAutoscaler",
        ),
        (
            beside("registry.k8s.io/autoscaling/cluster-autoscaler:v1.31"),
            OK,
            "cluster-autoscaler in ops",
        ),
        (
            tainted(taints=(Taint(CANDIDATE_TAINT, "PreferNoSchedule", "1777000000"),)),
            OK,
            "1 candidate node for removal by cluster-autoscaler, the first since 2026-04-24 03:06",
        ),
        (
            tainted(taints=(Taint(CANDIDATE_TAINT, "PreferNoSchedule", "soon"),)),
            OK,
            "1 candidate node for removal by cluster-autoscaler.",
        ),
        (
            beside(
                "public.ecr.aws/karpenter/controller:1",
                labels={"app.kubernetes.io/name": "karpenter"},
            ),
            WARNING,
            "Karpenter in ops",
            "`consolidationPolicy: WhenEmpty`",
        ),
        (
            tainted(labels={"karpenter.sh/nodepool": "default"}),
            WARNING,
            "Karpenter (by the label karpenter.sh/nodepool of nodes)",
            "consolidationPolicy",
        ),
        (
            beside("registry.k8s.io/autoscaling/vpa-updater:1.2"),
            WARNING,
            "VPA updater in ops",
            "updateMode",
        ),
        (
            examination(
                node_autoscalers={"Karpenter": "Karpenter (by the API group karpenter.sh)"}
            ),
            WARNING,
            "Karpenter (by the API group karpenter.sh)",
            "consolidationPolicy",
        ),
    ),
    *cases(
        Name.GPU_DRAINS,
        (examination(), OK, "does not enable GpuFragmentation"),
        (examination(policy=PolicyFacts(policy(), "p.yaml", problem="It is bad.")), SKIPPED),
        (draining(), OK, "No autoscaler of nodes was seen"),
        (
            draining(rights=rights("steer", missing=("patch nodes",))),
            WARNING,
            "may not set the soft taints",
            "`kubectl apply -k deploy/base`",
        ),
        (draining(rights=rights("steer", missing=("patch nodes",)), run=DRY_RUN), OK),
        (
            draining(cluster=tainted(labels={"karpenter.sh/nodepool": "default"}).cluster),
            WARNING,
            "beside Karpenter (by the label karpenter.sh/nodepool of nodes).",
            "plugins.balance.enabled",
        ),
        (
            draining(
                cluster=beside("registry.k8s.io/autoscaling/cluster-autoscaler:v1.31").cluster
            ),
            WARNING,
            "beside cluster-autoscaler in ops. It may add a node",
        ),
        (
            draining(node_autoscalers={"Karpenter": "Karpenter (by the API group karpenter.sh)"}),
            WARNING,
            "beside Karpenter (by the API group karpenter.sh). Karpenter takes",
        ),
        (
            draining(node_autoscalers=Unanswered("The API server does not list its API groups.")),
            WARNING,
            "is not known: The API server does not list",
            "`kubectl get --raw /apis`",
        ),
    ),
    *cases(
        Name.SCHEDULER,
        (
            examination(state=StoredState(State(forecasts=(surprise(bad=True),)))),
            WARNING,
            "1 landed where it did harm, and the forecasts expected 0.01",
            "(`scheduler.configuration`): `defaultConstraints`, weights",
        ),
        (
            examination(state=StoredState(State(forecasts=(surprise(bad=False),)))),
            OK,
            "All pods are placed",
        ),
        (
            examination(state=StoredState(State(forecasts=(surprise(bad=True, risk=0.15),)))),
            OK,
            "All pods are placed",
        ),
        (
            examination(),
            OK,
            "All pods are placed by default-scheduler.",
            "file into the policy as `scheduler.configuration`",
        ),
        (
            beside(scheduler="volcano"),
            WARNING,
            "volcano (1)",
            "`scheduler: {others: {volcano: {profile: Volcano}}}`",
        ),
        (beside(scheduler="our-own"), WARNING, "our-own (1)", "scheduler.others"),
        (
            msgspec.structs.replace(
                beside(scheduler="volcano"),
                policy=by(scheduler=SchedulerRules(others=KNOWN_VOLCANO)),
            ),
            OK,
            "volcano (1)",
        ),
        (
            configured(VolcanoConfiguration(unclear="the account may not get configmaps")),
            WARNING,
            "volcano-system/volcano-scheduler-configmap: the account may",
            "`rights.volcanoConfiguration`",
        ),
        (
            configured(VolcanoConfiguration(WEIGHTS)),
            WARNING,
            "contradicts the configuration of volcano: binpack.weight is 0 in the policy and 1 in",
            "remove these `arguments`",
        ),
        (configured(VolcanoConfiguration(WEIGHTS | {"binpack.weight": 0})), OK, "volcano (1)"),
        (
            beside(scheduler="gke.io/optimize-utilization-scheduler"),
            WARNING,
            "gke.io/optimize-utilization-scheduler (1)",
            "{profile: KubeScheduler, strategy: MostAllocated}",
        ),
        (
            beside(scheduler="odd", owner=Owner("DaemonSet", "ds", "uid-ds")),
            OK,
            "default-scheduler",
        ),
    ),
]

CASES = [
    *API_SERVER,
    *RIGHTS,
    *POD_GROUPS,
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
