"""Pods whose replacement waits in a queue again, where others could take their share.

Such a pod stays while something else waits there, and while that is not known. Tenants decide what
waits in their queues, so that nothing but the pods of the same queue stays.
"""

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.terms import Refused


def waiting(pod: Pod, context: EligibilityContext) -> Refused:
    """What could take the share of the pod's replacement, or why that is not known."""
    requeue = context.requeue(pod)
    if requeue is None:
        return None
    if requeue.unclear:
        return Finding(RefusalReason.QUEUE_UNKNOWN, f"{requeue.title}: {requeue.unclear}")
    if requeue.busy:
        return Finding(RefusalReason.QUEUE_BUSY, f"{requeue.title}: {requeue.busy}")
    return None


def requeued(pod: Pod, context: EligibilityContext) -> str:
    """In which queue its replacement waits again, and what could happen; empty without one."""
    requeue = context.requeue(pod)
    if requeue is None:
        return ""
    where = f"its replacement waits again in {requeue.title}"
    if not requeue.is_read:
        return f"{where}; desched does not read what else waits there and could take its share"
    if requeue.unclear or requeue.busy:
        return f"{where}, where others could take its share: {requeue.unclear or requeue.busy}"
    return f"{where}, where nothing else waits now"
