"""How fast a workload may move, and what becomes of each of its pods."""

from desched.decision import Decision
from desched.model.cluster import PodDisruptionBudget, Workload
from desched.model.state import PauseScope
from desched.policy.share import count_of
from desched.views.explained.pods import PodOutcomes, largest_first
from desched.views.explained.values import WorkloadExplanation
from desched.wording.formatting import count


def explain_workload(workload: Workload, decision: Decision) -> WorkloadExplanation:
    """The explanation of a workload of the decision's cluster."""
    context, outcomes = decision.context, PodOutcomes(decision)
    limits, replicas = context.policy.limits, workload.desired_replicas
    pods = [
        pod
        for pod in context.cluster.pods
        if (owner := context.cluster.workload_of(pod)) and owner.uid == workload.uid
        if not pod.finished
    ]
    budgets = {str(budget): budget for pod in pods for budget in context.cluster.budgets_of(pod)}
    cool_down = context.terms.cool_downs.get(workload.uid)
    cools = cool_down is not None and context.now < cool_down.until
    pauses = (
        pause
        for pause in context.state.pauses
        if pause.scope is not PauseScope.POOL and pause.covers(str(workload), "")
    )
    return WorkloadExplanation(
        str(workload),
        replicas,
        workload.ready_replicas,
        largest_first(map(outcomes.summary, pods)),
        tuple(_allows(name, budget) for name, budget in sorted(budgets.items())),
        context.terms.in_flight[workload.uid],
        count_of(limits.in_flight_workload, replicas),
        context.terms.moved_within_hour[workload.uid],
        count_of(limits.workload_hourly, replicas),
        cool_down.until if cool_down and cools else None,
        cool_down.result if cool_down and cools else None,
        tuple(pause.describe() for pause in pauses if pause.lasts(context.now)),
    )


def _allows(name: str, budget: PodDisruptionBudget) -> str:
    allows = count(budget.disruptions_allowed, "disruption")
    stale = "" if budget.up_to_date else ", and its status is not up to date"
    return f"PodDisruptionBudget {name} allows {allows} now{stale}."
