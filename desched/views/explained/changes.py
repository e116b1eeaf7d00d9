"""What would have to change for a pod to move, or for a node to be relieved: one sentence each."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from desched.decision import Decision
from desched.model.cluster import Pod
from desched.model.load import Unknown
from desched.model.plan import Finding, NodeReason, NodeVerdict, Plan, RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.policy.compatibility import SteeringMode
from desched.views.explained.values import LoadSummary, Placement, PodOutcome
from desched.wording.reasons import sentence_of, text_of


def changes_for_node(
    verdict: NodeVerdict,
    plan: Plan,
    loads: Iterable[LoadSummary],
    unknown_gpus: Unknown | None = None,
) -> tuple[str, ...]:
    """What would have to change for the node to be relieved, or to be judged."""
    changes = []
    if unknown_gpus is not None:
        why = unknown_gpus.detail or unknown_gpus.reason
        changes.append(
            "Let Prometheus measure its GPUs; until then its pods with a GPU stay, and it takes no "
            f"further ones ({why})."
        )
    if plan.hold is not None and verdict.hot:
        changes.append(text_of(plan.hold).remedy)
    if verdict.reason is not None:
        sentence = text_of(verdict.reason).remedy.format(pool=verdict.pool)
        changes.append(_with_time(sentence, verdict.until))
    if verdict.reason is NodeReason.EXCESS_NOT_MOVABLE:
        for reason in dict.fromkeys(load.staying[0].reason for load in loads if load.staying):
            remedy = text_of(reason).remedy.format(workload="WORKLOAD", pool=verdict.pool)
            changes.append(f"Most of what stays, {reason} keeps: {sentence_of(reason)} {remedy}")
    return tuple(changes)


def changes_for_pod(
    pod: Pod,
    outcome: tuple[PodOutcome, Finding[RefusalReason] | None],
    refusals: Iterable[Finding[RefusalReason]],
    placement: Placement | None,
    decision: Decision,
) -> tuple[str, ...]:
    """What would have to change for the pod to move; empty if it is evicted.

    `refusals` are those of all rules that refuse it.
    """
    kind, finding = outcome
    if kind is PodOutcome.EVICTED:
        limits = decision.context.policy.limits
        return () if limits.total else (f"Remove the policy's limit of 0: {limits.zero_at}.",)
    reasons = list(dict.fromkeys(refusal.reason for refusal in refusals))
    changes = [_for_pod(reason, pod, decision) for reason in reasons]
    verdict = next((node for node in decision.plan.nodes if node.node == pod.node), None)
    if verdict is not None and not verdict.hot:
        changes.append(_overload_first(verdict))
    elif finding is not None and finding.reason not in reasons:
        changes.append(_for_pod(finding.reason, pod, decision))
        if finding.reason is RefusalReason.CYCLE_HELD and decision.plan.hold is not None:
            changes[-1] = text_of(decision.plan.hold).remedy
    if placement is not None and placement.reason is not None:
        if finding is None or finding.reason is not placement.reason:
            changes.append(f"It also needs a place. {_for_pod(placement.reason, pod, decision)}")
        changes += _for_placement(placement, decision)
    return tuple(changes)


def _for_pod(reason: RefusalReason, pod: Pod, decision: Decision) -> str:
    context = decision.context
    workload = context.cluster.workload_of(pod)
    path = f"{workload.namespace}/{workload.name}" if workload else str(pod.ref)
    verdict = next((node for node in decision.plan.nodes if node.node == pod.node), None)
    sentence = text_of(reason).remedy.format(workload=path, pool=verdict.pool if verdict else "")
    for plugin in context.policy.plugins:
        sentence = " ".join([sentence, *plugin.remedies(reason, pod, context)])
    return _with_time(sentence, _end(text_of(reason).ends, pod, verdict, context))


def _end(
    kind: str, pod: Pod, verdict: NodeVerdict | None, context: EligibilityContext
) -> datetime | None:
    """When a reason of the pod that ends in this way does, if that is known."""
    workload = context.cluster.workload_of(pod)
    match kind:
        case "node" if verdict is not None:
            return verdict.until
        case "cool_down" if workload is not None:
            return context.terms.cool_downs[workload.uid].until
        case "rest":
            return context.terms.resting.get(pod.uid)
        case "age" if pod.started_at is not None:
            least = context.protections.min_pod_age_seconds
            oldest = timedelta(seconds=max(least, context.book.longest_window_seconds))
            return max(context.now, min(context.now, pod.started_at) + oldest)
        case _:
            return None


def _overload_first(verdict: NodeVerdict) -> str:
    if verdict.pressures:
        return "Its node would have to be above a target."
    return "Its node must be judged first, and be overloaded."


def _for_placement(placement: Placement, decision: Decision) -> Iterator[str]:
    forecast = placement.forecast
    if placement.reason is RefusalReason.LANDING_RISK and forecast is not None:
        if decision.context.policy.steering.mode is SteeringMode.OFF:
            yield "Soft taints could keep it off those nodes: set steering: WhenNeeded."
        yield f"maxLandingRisk would have to be {forecast.risk:.2f} or more."


def _with_time(sentence: str, at: datetime | None) -> str:
    if at is None:
        return sentence
    return f"{sentence} That is at {at:%Y-%m-%d %H:%M} UTC at the earliest."
