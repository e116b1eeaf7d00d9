"""Pods whose replacement waits in a queue again, where others could take their share.

Such a pod stays while something else waits there, and while that is not known. Tenants decide what
waits in their queues, so that nothing but the pods of the same queue stays.
"""

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.terms import Refused
from desched.plugins.queues.requeue import requeue


def waiting(pod: Pod, context: EligibilityContext) -> Refused:
    """What could take the share of the pod's replacement, or why that is not known."""
    queue = requeue(pod, context)
    if queue is None:
        return None
    if queue.unclear:
        return Finding(RefusalReason.QUEUE_UNKNOWN, f"{queue.title}: {queue.unclear}")
    if queue.busy:
        return Finding(RefusalReason.QUEUE_BUSY, f"{queue.title}: {queue.busy}")
    return None


def requeued(pod: Pod, context: EligibilityContext) -> str:
    """In which queue its replacement waits again, and what could happen; empty without one."""
    queue = requeue(pod, context)
    if queue is None:
        return ""
    where = f"its replacement waits again in {queue.title}"
    if not queue.is_read:
        return f"{where}; desched does not read what else waits there and could take its share"
    if queue.unclear or queue.busy:
        return f"{where}, where others could take its share: {queue.unclear or queue.busy}"
    return f"{where}, where nothing else waits now"
