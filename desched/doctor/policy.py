"""Is there a valid policy, and does it mean what its author expects?"""

from desched.doctor.checks import Check, CheckName, Verdict, ok, warning
from desched.doctor.examination import Examination, Unanswered
from desched.errors import ConfigurationError
from desched.planning.eligibility.priority_threshold import resolve_threshold
from desched.wording.formatting import count


def check_policy(examination: Examination) -> Check:
    """Whether the policy is valid here, and its warnings."""
    name, facts = CheckName.POLICY, examination.policy
    if facts.problem:
        fix = "Correct it, or let `desched doctor --write-policy FILE` write one that fits."
        if facts.written_to:
            fix = f"Use `--policy {facts.written_to}`, which this run writes."
        return Check(name, Verdict.PROBLEM, facts.problem, fix, invalid_configuration=True)
    if not facts.source:
        return _proposed(examination)
    cluster, policy = examination.cluster, facts.policy
    warnings = facts.warnings
    if not isinstance(cluster, Unanswered):
        try:
            resolve_threshold(policy, cluster.priority_classes)
        except ConfigurationError as error:
            fix = "Correct `priorityThreshold`; `kubectl get priorityclasses` lists the names."
            return Check(name, Verdict.PROBLEM, str(error), fix, invalid_configuration=True)
        for plugin in policy.plugins:
            warnings += plugin.warnings(policy, cluster)
    if warnings:
        return warning(
            name,
            f"{facts.source} is valid, with {count(len(warnings), 'warning')}.",
            "Change what they name, and check it with `desched validate FILE`; "
            "docs/policy-reference.md describes every key.",
            warnings,
        )
    return ok(name, f"{facts.source} is valid.")


def _proposed(examination: Examination) -> Check:
    """No policy is given; perhaps this run writes one."""
    name, facts = CheckName.POLICY, examination.policy
    if not facts.written_to:
        return warning(
            name,
            "No policy is given; these checks are made with one that fits this cluster.",
            "Write it with `desched doctor --write-policy FILE`, then pass `--policy FILE`.",
        )
    if not (examination.prometheus.address or facts.policy.metrics.type.is_sampled):
        sentence = f"{facts.written_to} is not written, because no source of load was found."
        return warning(name, sentence, "Name a Prometheus with `--prometheus-url`.")
    return ok(name, f"These checks are made with the policy that {facts.written_to} gets.")
