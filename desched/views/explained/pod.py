"""Why a pod stays or goes: each rule, and where its replacement would land."""

from collections.abc import Iterator

from desched.decision import Decision
from desched.model.cluster import Pod
from desched.model.plan import Finding
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import rule_verdicts
from desched.views.explained.changes import changes_for_pod
from desched.views.explained.landing import placement_of
from desched.views.explained.pods import PodOutcomes
from desched.views.explained.values import PodExplanation, RuleLine, RuleOutcome
from desched.wording.section import PodAnswer


def explain_pod(pod: Pod, decision: Decision) -> PodExplanation:
    """The explanation of a pod of the decision's cluster."""
    context, outcomes = decision.context, PodOutcomes(decision)
    eviction = outcomes.evictions.get(pod.ref)
    if eviction is not None:
        context = context.without_rules(eviction.waived)
    rules = tuple(rule for rule in _rules(pod, context) if not context.is_unread(rule.reason, pod))
    refusals = [
        Finding(rule.reason, rule.detail) for rule in rules if rule.outcome is RuleOutcome.REFUSED
    ]
    placement = placement_of(pod, decision)
    workload = context.cluster.workload_of(pod)
    answers = [plugin.views.explain_pod(pod, decision) for plugin in context.policy.plugins]
    answered = next((answer for answer in answers if answer.verdict), PodAnswer())
    changes = changes_for_pod(pod, outcomes.outcome(pod), refusals, placement, decision)
    return PodExplanation(
        outcomes.summary(pod),
        workload.desired_replicas if workload else 1,
        pod.priority,
        pod.scheduler,
        rules,
        next((node for node in decision.plan.nodes if node.node == pod.node), None),
        eviction,
        placement,
        () if answered.verdict else changes,
        tuple(note for answer in answers for note in answer.notes),
        context.after_eviction(pod),
        answered.verdict,
        answered.details,
    )


def _rules(pod: Pod, context: EligibilityContext) -> Iterator[RuleLine]:
    verdicts = tuple(rule_verdicts(pod, context))
    seen = {finding.reason for _, finding, _ in verdicts if finding is not None}
    for reason, finding, lifted in verdicts:
        if finding is None:
            if reason not in seen:  # two rules may share a reason
                yield RuleLine(reason, RuleOutcome.PASSED)
            seen.add(reason)
        else:
            outcome = RuleOutcome.LIFTED if lifted else RuleOutcome.REFUSED
            yield RuleLine(finding.reason, outcome, finding.detail)
