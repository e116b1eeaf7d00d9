"""Which PodDisruptionBudgets allow nothing?"""

from collections.abc import Iterator
from typing import NamedTuple

from desched.doctor.checks import Check, CheckName, ok, warning
from desched.doctor.examination import Examination
from desched.model.cluster import ClusterState, Pod, PodDisruptionBudget
from desched.model.groups import grouped
from desched.planning.eligibility.rules import SYSTEM_NAMESPACES
from desched.wording.formatting import count, first_names


class _Closed(NamedTuple):
    """A budget that allows no disruption, and the running pods that it covers."""

    budget: PodDisruptionBudget
    pods: tuple[Pod, ...]

    @property
    def for_ever(self) -> bool:
        """Whether it allows none although every pod is Ready, so that waiting does not help."""
        return self.budget.up_to_date and all(pod.ready for pod in self.pods)


def check_budgets(cluster: ClusterState, examination: Examination) -> Check:
    """Whether budgets forbid evictions for ever, or cover a pod twice."""
    name, policy = CheckName.BUDGETS, examination.policy.policy
    if not cluster.budgets:
        if policy.protections.pods_without_budget:
            return warning(
                name,
                "The policy moves only pods with a PodDisruptionBudget, and there is none.",
                "Create some with `kubectl create poddisruptionbudget`, or remove "
                "`PodsWithoutPDB` from `podProtections`.",
            )
        return ok(name, "There is no PodDisruptionBudget.")
    closed = list(_closed(cluster))
    stuck = [blocking for blocking in closed if blocking.for_ever]
    if stuck:
        pods = sum(len(blocking.pods) for blocking in stuck)
        first = stuck[0].budget
        return warning(
            name,
            f"{count(len(stuck), 'budget allows', 'budgets allow')} no eviction although all their "
            f"pods are Ready; {count(pods, 'pod stays', 'pods stay')}.",
            "Raise `maxUnavailable`, or lower `minAvailable` under the number of replicas: "
            f"`kubectl --namespace {first.namespace} edit poddisruptionbudget {first.name}`.",
            [f"{blocking.budget}: {count(len(blocking.pods), 'pod')}" for blocking in stuck[:10]],
        )
    if twice := _covered_twice(cluster):
        return warning(
            name,
            f"Several budgets cover {count(len(twice), 'pod')}, which the Eviction API refuses to "
            f"evict: {first_names(twice, 3)}.",
            "Leave one budget for each pod: `kubectl get poddisruptionbudgets --all-namespaces`.",
        )
    now = f", {len(closed)} allow none now because pods are not Ready" if closed else ""
    return ok(name, f"{count(len(cluster.budgets), 'budget')}{now}.")


def _closed(cluster: ClusterState) -> Iterator[_Closed]:
    """The budgets of running pods that allow no disruption, but for those of the system."""
    by_namespace = grouped((pod.namespace, pod) for pod in cluster.pods if _runs(pod))
    for budget in cluster.budgets:
        if budget.disruptions_allowed > 0 or budget.namespace in SYSTEM_NAMESPACES:
            continue
        pods = tuple(p for p in by_namespace.get(budget.namespace, ()) if budget.covers(p))
        if pods:
            yield _Closed(budget, pods)


def _covered_twice(cluster: ClusterState) -> list[str]:
    return sorted(
        str(pod.ref) for pod in cluster.pods if _runs(pod) and len(cluster.budgets_of(pod)) > 1
    )


def _runs(pod: Pod) -> bool:
    return bool(pod.node) and not pod.finished and not pod.deleting
