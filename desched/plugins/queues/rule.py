"""Pods whose replacement waits in a queue again, where others could take their share.

Such a pod stays while something else waits there, and while that is not known. Tenants decide what
waits in their queues, so that nothing but the pods of the same queue stays.
"""

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.terms import Refused
from desched.policy.compatibility import Queues


def waiting(pod: Pod, context: EligibilityContext) -> Refused:
    """What could take the share of the pod's replacement, or why that is not known."""
    found = context.requeue(pod)
    if found is None or context.policy.queues is Queues.IGNORE:
        return None
    if found.unclear:
        return Finding(RefusalReason.QUEUE_UNKNOWN, f"{found.title}: {found.unclear}")
    if found.busy:
        return Finding(RefusalReason.QUEUE_BUSY, f"{found.title}: {found.busy}")
    return None


def requeued(pod: Pod, context: EligibilityContext) -> str:
    """In which queue its replacement waits again, and what could happen; empty without one."""
    found = context.requeue(pod)
    if found is None:
        return ""
    where = f"its replacement waits again in {found.title}"
    if not found.is_read:
        return f"{where}; desched does not read what else waits there and could take its share"
    if found.unclear or found.busy:
        return f"{where}, where others could take its share: {found.unclear or found.busy}"
    return f"{where}, where nothing else waits now"
