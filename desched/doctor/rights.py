"""Does the account have the rights that each feature needs?

For each feature: what its lack means for this run. A missing right whose feature the run does not
use is no problem.
"""

from collections.abc import Callable, Iterator, Mapping

from desched.doctor.checks import Check, CheckName, ok, problem, skipped, unknown, warning
from desched.doctor.examination import Examination, FeatureRights, RunFacts, Unanswered
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import MetricsType, Policy
from desched.wording.formatting import first_names

Judge = Callable[[CheckName, str, str], Check]

_USES: Mapping[str, tuple[str, str]] = {
    "plan": ("read all that planning needs", ""),
    "watch": ("watch the cluster", "or start desched with `--watch=false`"),
    "sizing": ("read what VerticalPodAutoscalers recommend", ""),
    "devices": ("read which devices of ResourceClaims are free", ""),
    "metrics_server": ("read the load that metrics-server measures", ""),
    "custom_metrics": ("read the load of nodes from the custom metrics API", ""),
    "lease": (
        "take part in leader election",
        "or start a single replica with `--leader-elect=false`",
    ),
    "state": ("read the state", "or name its namespace with `--state-namespace`"),
    "evict": ("evict pods", "or start a dry run with `--dry-run`"),
    "record": (
        "record evictions in the state",
        "or start a dry run with `--dry-run`",
    ),
    "steer": (
        "set soft taints, and its janitor may remove them",
        "or set `steering: Off` in the policy",
    ),
    "events": ("write Events about moves", ""),
    "logbook": ("keep the logbook", "or start desched with `--logbook=false`"),
    "own_events": ("write Events about its own pod", ""),
}
"""What a feature is for, and what to do instead of granting its rights."""

OWN_ACCOUNT = (
    "These are the rights of your own account. Check those of the Deployment with "
    "`kubectl --namespace desched-system exec deployment/desched -- desched doctor`."
)


def check_rights(examination: Examination) -> Iterator[Check]:
    """One check for each feature."""
    if isinstance(examination.server_version, Unanswered):
        for feature in _USES:
            yield skipped(name_of(feature), "The API server does not answer.")
        return
    for rights in examination.rights:
        yield _check(rights, examination)


def name_of(feature: str) -> CheckName:
    """The check of a feature."""
    return CheckName(f"rights_{feature}")


def _check(rights: FeatureRights, examination: Examination) -> Check:
    name = name_of(rights.feature)
    may, instead = _USES[rights.feature]
    run, policy = examination.run, examination.policy.policy
    grant = grant_of(rights, run)
    if rights.missing:
        lacks = f"The account may not {first_names(rights.missing, 4)}{_place(rights)}"
        them = "it" if len(rights.missing) == 1 else "them"
        sentence = f"{lacks}. Without {them}, {'; '.join(rights.without)}."
        why_not = _not_used(rights.feature, run, policy)
        if why_not and rights.feature == "custom_metrics":
            return ok(name, f"{why_not} It needs none of these rights.")  # few clusters have them
        if why_not:
            hint = f"{grant} before you need it." if run.in_cluster else ""
            return skipped(name, f"{lacks}. {why_not}", hint)
        return _severity(rights.feature, run)(
            name, sentence, f"{grant}{f', {instead}' if instead else ''}."
        )
    if rights.unanswered:
        asked = first_names(rights.unanswered, 4)
        return unknown(
            name,
            f"Whether the account may {asked}{_place(rights)} could not be asked.",
            f"Ask with `kubectl auth can-i --list`. {grant}.",
        )
    hint = OWN_ACCOUNT if rights.feature == "plan" and not run.in_cluster else ""
    return ok(name, f"The account may {may}.", hint)


def grant_of(rights: FeatureRights, run: RunFacts) -> str:
    """How the account that asks gets the rights; only in the cluster it is desched's own."""
    if run.in_cluster:
        return f"Grant it with `kubectl apply -k {rights.folder}`"
    return (
        f"Let an administrator run `{rights.binding(run.account)}` (the role is in "
        f"{rights.folder}/rbac.yaml)"
    )


def _place(rights: FeatureRights) -> str:
    return f" in namespace {rights.namespace}" if rights.namespace else ""


def _not_used(feature: str, run: RunFacts, policy: Policy) -> str:
    """Why the run needs no right for a feature, empty if it needs them."""
    dry = "A dry run does not need it." if not run.evicts else ""
    off = "The policy's steering is Off." if policy.steering.mode is SteeringMode.OFF else ""
    source = policy.metrics.type
    elsewhere = f"The policy reads load from {source.in_words}."
    own = "" if run.in_cluster else "This run has no pod of its own."
    why_not = {
        **dict.fromkeys(("evict", "record", "events"), dry),
        "steer": dry or off,
        "lease": "" if run.elects else "This run takes no part in leader election.",
        "watch": "" if run.watches else "This run lists instead.",
        "metrics_server": "" if source.is_sampled else elsewhere,
        "custom_metrics": "" if source is MetricsType.PROMETHEUS_ADAPTOR else elsewhere,
        **dict.fromkeys(("logbook", "own_events"), own),
    }
    return why_not.get(feature, "")


def _severity(feature: str, run: RunFacts) -> Judge:
    """How bad the lack of a feature is that the run uses."""
    if feature in {"sizing", "devices", "steer", "events", "logbook", "own_events"}:
        return warning
    if feature == "state" and not run.evicts:
        return warning
    return problem
