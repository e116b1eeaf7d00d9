"""Who places the replacements, and what can be known of it?"""

from collections import Counter
from collections.abc import Mapping

from desched.doctor.checks import Check, CheckName, ok, warning
from desched.doctor.examination import Examination, Unanswered
from desched.model.cluster import DEFAULT_SCHEDULER, ClusterState
from desched.planning.placement.forecast_trust import forecast_quality
from desched.wording.formatting import count

USUAL_PROFILES: Mapping[str, str] = {
    "volcano": "{profile: Volcano}",
    "kai-scheduler": "{profile: KAI}",
    "gke.io/optimize-utilization-scheduler": "{profile: KubeScheduler, strategy: MostAllocated}",
}
"""What `scheduler.others` says about known schedulers under their usual names."""

_NOT_VISIBLE = (
    "Its configuration cannot be seen through the API; if it differs from the default, put its "
    "file into the policy as `scheduler.configuration`."
)


MOST_EXPECTED = 0.05
"""A bad landing is a surprise where the forecasts expected fewer than this together."""


def _differing(examination: Examination) -> str:
    """That replacements landed where the forecasts did not expect them, else empty."""
    stored = examination.state
    state = None if isinstance(stored, Unanswered) else stored.state
    quality = forecast_quality(state, examination.at) if state else None
    if quality is None:
        return ""
    bad = round(quality.bad_rate * quality.checks)
    expected = quality.expected_bad_rate * quality.checks
    if not bad or expected >= MOST_EXPECTED * bad:
        return ""
    return (
        f"Of {count(quality.checks, 'replacement')} of the last day, {bad} landed where it did "
        f"harm, and the forecasts expected {expected:.2f}: the scheduler differs from what desched "
        "knows."
    )


def check_scheduler(cluster: ClusterState, examination: Examination) -> Check:
    """Which schedulers pods name, and which of them the policy does not."""
    name = CheckName.SCHEDULER
    if landed_elsewhere := _differing(examination):
        return warning(
            name,
            landed_elsewhere,
            "Put the scheduler's KubeSchedulerConfiguration into the policy as it is "
            "(`scheduler.configuration`): `defaultConstraints`, weights and strategy count. "
            "`desched validate` names what cannot be described, such as a plugin of its own.",
        )
    used = Counter(
        pod.scheduler
        for pod in cluster.pods
        if not pod.finished and not (pod.owner and pod.owner.kind in {"DaemonSet", "Node"})
    )
    others = [scheduler for scheduler in used if scheduler != DEFAULT_SCHEDULER]
    if not others:
        return ok(name, f"All pods are placed by {DEFAULT_SCHEDULER}.", _NOT_VISIBLE)
    listed = ", ".join(f"{scheduler} ({number})" for scheduler, number in used.most_common(5))
    sentence = f"Pods are placed by {listed}."
    rules = examination.policy.policy.scheduler.by(cluster.volcano_configurations)
    known = rules.others
    unclear = [f"{each}: {known[each].unclear}" for each in known if known[each].unclear]
    if unclear:
        return warning(
            name,
            f"Nothing is known of the scores of {'; '.join(unclear)}. Landings of their pods are "
            "not forecast, and soft taints do not steer them.",
            "Correct the ConfigMap or the right to read it (`rights.volcanoConfiguration` in the "
            "chart), or remove `configMap` from `scheduler.others` in the policy.",
        )
    differing = [f"{each}: {known[each].differing}" for each in known if known[each].differing]
    if differing:
        return warning(
            name,
            f"The policy contradicts the configuration of {'; '.join(differing)}. What the policy "
            "says counts.",
            "If the configuration is right, remove these `arguments` from `scheduler.others`.",
        )
    unknown = [scheduler for scheduler in others if scheduler not in known]
    if not unknown:
        return ok(name, sentence, "The policy has the profiles of all others than kube-scheduler.")
    usual = [f"{each}: {USUAL_PROFILES[each]}" for each in unknown if each in USUAL_PROFILES]
    pods = count(sum(used[each] for each in unknown), "pod")
    return warning(
        name,
        f"{sentence} For {pods} of them desched cannot forecast where they land.",
        f"If it fits, add `scheduler: {{others: {{{', '.join(usual)}}}}}` to the policy."
        if usual
        else "Add its profile to `scheduler.others` in the policy, if it is one of the known.",
    )
