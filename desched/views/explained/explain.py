"""Answers a question about a decision."""

from difflib import get_close_matches

from msgspec.structs import replace

from desched.decision import Decision
from desched.errors import ConfigurationError
from desched.model.cluster import ClusterState, Node, Pod, Workload
from desched.views.explained.node import explain_node
from desched.views.explained.pod import explain_pod
from desched.views.explained.subject import Subject, SubjectKind
from desched.views.explained.values import Explanation
from desched.views.explained.workload import explain_workload

MOST_NAMES_COMPARED = 5_000


def explain(subject: Subject, decision: Decision, target: str) -> Explanation:
    """The explanation of the subject; `target` is the cluster.

    Raises:
        ConfigurationError: the cluster has no such object, or several.
    """
    cluster, plan = decision.context.cluster, decision.plan
    answer = Explanation(
        target=target,
        policy=decision.context.policy.source,
        taken_at=decision.context.now,
        hold=plan.hold,
        hold_detail=plan.hold_detail,
    )
    match subject.kind:
        case SubjectKind.NODE:
            node = _node(subject, cluster)
            return replace(answer, node=explain_node(node, decision))
        case SubjectKind.POD:
            pod = _pod(subject, cluster)
            return replace(answer, pod=explain_pod(pod, decision))
        case SubjectKind.WORKLOAD:
            workload = _workload(subject, cluster)
            return replace(answer, workload=explain_workload(workload, decision))


def _node(subject: Subject, cluster: ClusterState) -> Node:
    node = cluster.node_by_name.get(subject.name)
    if node is None:
        raise _absent(subject, [*cluster.node_by_name], "")
    return node


def _pod(subject: Subject, cluster: ClusterState) -> Pod:
    by_name = {(pod.namespace, pod.name): pod for pod in cluster.pods}
    pod = by_name.get((subject.namespace, subject.name))
    if pod is None:
        names = [name for namespace, name in by_name if namespace == subject.namespace]
        raise _absent(subject, names, f"{subject.namespace}/")
    return pod


def _workload(subject: Subject, cluster: ClusterState) -> Workload:
    of_kind = {
        workload.uid: workload
        for workload in cluster.workloads.values()
        if workload.namespace == subject.namespace and subject.workload_kind in {"", workload.kind}
    }
    workloads = [each for each in of_kind.values() if each.name == subject.name]
    if not workloads:
        names = [each.name for each in of_kind.values()]
        # One of another kind may be there.
        kinds = "" if subject.workload_kind else " that desched understands"
        raise _absent(subject, names, f"{subject.namespace}/", kinds)
    if len(workloads) > 1:
        kinds = ", ".join(sorted(each.kind for each in workloads))
        raise ConfigurationError(
            f"Several workloads are called {subject.namespace}/{subject.name} ({kinds}); "
            "name the kind, such as deployment."
        )
    return workloads[0]


def _absent(subject: Subject, names: list[str], before: str, kinds: str = "") -> ConfigurationError:
    near = get_close_matches(subject.name, names[:MOST_NAMES_COMPARED], n=1)
    ending = f"; did you mean {before}{near[0]}?" if near else "."
    return ConfigurationError(f"There is no {subject}{kinds}{ending}")
