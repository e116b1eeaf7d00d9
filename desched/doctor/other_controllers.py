"""What else in the cluster moves pods, adds nodes or removes them?"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from desched.doctor.checks import Check, CheckName, ok, warning
from desched.doctor.examination import Examination, Unanswered
from desched.model.cluster import ClusterState, Workload
from desched.planning.other_deschedulers import other_deschedulers, products_in, split_others
from desched.wording.formatting import count
from desched.wording.reasons import OTHER_DESCHEDULERS

VPA, KARPENTER, CLUSTER_AUTOSCALER = "VPA updater", "Karpenter", "cluster-autoscaler"
PRODUCTS: Mapping[str, str] = {
    "vpa-updater": VPA,
    "karpenter": KARPENTER,
    "cluster-autoscaler": CLUSTER_AUTOSCALER,
    "aws-cluster-autoscaler": CLUSTER_AUTOSCALER,
}
"""By the last part of the image's name, or by the value of a name label."""

NODE_LABELS: Mapping[str, str] = {
    "karpenter.sh/nodepool": KARPENTER,
    "karpenter.sh/provisioner-name": KARPENTER,
}
"""Where an autoscaler does not run in the cluster, its nodes tell."""


CANDIDATE_TAINT = "DeletionCandidateOfClusterAutoscaler"
"""On a node that Cluster Autoscaler could remove; the value is the time in seconds since 1970.

Source: Cluster Autoscaler, utils/taints/taints.go.
"""

_YEAR_2100 = 4_102_444_800


def check_other_deschedulers(cluster: ClusterState, examination: Examination) -> Check:
    """Whether another descheduler runs."""
    name = CheckName.OTHER_DESCHEDULERS
    policy = examination.policy.policy
    others, acknowledged = split_others(other_deschedulers(cluster), policy)
    if not others and acknowledged:
        return ok(name, f"Beside desched on purpose, by the policy: {', '.join(acknowledged)}.")
    if not others:
        return ok(name, "No other descheduler runs.")
    namespace = others[0].rpartition(" in ")[2]
    return warning(
        name,
        OTHER_DESCHEDULERS.format(others=", ".join(others)),
        f"Stop it (`kubectl --namespace {namespace} get deployments,cronjobs`), or give desched "
        "other nodes by `nodeSelector`; if it runs on purpose, set `acknowledgedDeschedulers`.",
    )


def check_autoscalers(cluster: ClusterState, examination: Examination) -> Check:
    """Which autoscalers work beside desched."""
    name = CheckName.AUTOSCALERS
    running = autoscalers(cluster, examination)
    scaled = sum(w.autoscaler is not None for w in _workloads(cluster))
    parts = [*running.values()]
    if cluster.sized_owners:
        sized = count(len(cluster.sized_owners), "workload")
        parts.append(f"{sized} with a VerticalPodAutoscaler")
    if scaled:
        parts.append(f"{count(scaled, 'workload')} with a HorizontalPodAutoscaler")
    if candidates := _candidates(cluster):
        parts.append(candidates)
    if not parts:
        return ok(name, "None was seen; what runs outside the cluster cannot be seen.")
    sentence = f"Beside desched: {', '.join(parts)}."
    if KARPENTER in running:
        return warning(
            name,
            f"{sentence} Karpenter packs pods onto few nodes, desched spreads load.",
            "If they undo each other's work, set `consolidationPolicy: WhenEmpty` in NodePools.",
        )
    if VPA in running:
        return warning(
            name,
            f"{sentence} The updater evicts pods, too, within the same budgets.",
            "Set `updateMode: InPlaceOrRecreate` or `Initial` in the VerticalPodAutoscalers, or "
            'annotate the workloads with `desched.io/evict: "false"`.',
        )
    waits = "Workloads wait while they are scaled, and nodes that are removed are left alone."
    return ok(name, f"{sentence} {waits}")


def autoscalers(cluster: ClusterState, examination: Examination) -> dict[str, str]:
    """The autoscalers that work here, each with its place for people."""
    by_system: dict[str, str] = {}
    for text in products_in(cluster, PRODUCTS):
        by_system.setdefault(text.partition(" in ")[0], text)
    for label, product in NODE_LABELS.items():
        if product not in by_system and any(label in node.labels for node in cluster.nodes):
            by_system[product] = f"{product} (by the label {label} of nodes)"
    others = examination.node_autoscalers
    return by_system if isinstance(others, Unanswered) else {**others, **by_system}


def _candidates(cluster: ClusterState) -> str:
    """How many nodes Cluster Autoscaler could remove, and since when the oldest of them."""
    times = [t.value for n in cluster.nodes for t in n.taints if t.key == CANDIDATE_TAINT]
    times_read = [int(x) for x in times if x.isdecimal() and int(x) < _YEAR_2100]
    first = datetime.fromtimestamp(min(times_read, default=0), UTC)
    since = f", the first since {first:%Y-%m-%d %H:%M} UTC" if times_read else ""
    nodes = count(len(times), "candidate node", "candidate nodes")
    return f"{nodes} for removal by {CLUSTER_AUTOSCALER}{since}" if times else ""


def _workloads(cluster: ClusterState) -> Iterator[Workload]:
    """Each workload once; several ReplicaSets lead to the same Deployment."""
    return iter({w.uid: w for w in cluster.workloads.values()}.values())
