"""Whether a Job takes an eviction for a failure of its own."""

from desched.adapters.kubernetes.client.api_types import workloads

_EVICTED = "DisruptionTarget"
_SIGNALLED = frozenset({137, 143})  # how a container ends that SIGKILL or SIGTERM has ended


def survives_disruption(policy: workloads.PodFailurePolicy | None) -> bool:
    """Whether the first rule that an evicted pod meets ignores it.

    Source: matchPodFailurePolicy in k8s.io/kubernetes/pkg/controller/job, at v1.36.
    """
    for rule in (policy.rules if policy is not None else None) or ():
        if _meets(rule):
            return rule.action == "Ignore"
    return False


def _meets(rule: workloads.PodFailureRule) -> bool:
    if rule.on_exit_codes is not None:
        codes = set(rule.on_exit_codes.values or ())
        listed = rule.on_exit_codes.operator == "In"
        return bool(_SIGNALLED & codes if listed else _SIGNALLED - codes)
    return any(
        pattern.type == _EVICTED and pattern.status in {"True", None}
        for pattern in rule.on_pod_conditions or ()
    )
