"""The second look, just before acting: the same rules on freshly read state."""

from desched.model.cluster import Pod
from desched.model.plan import PlannedEviction, RefusalReason
from desched.planning.eligibility import refuse
from desched.planning.surroundings import Surroundings


def reconsider(
    eviction: PlannedEviction, fresh: Pod | None, around: Surroundings
) -> tuple[RefusalReason, str] | None:
    """Why the eviction is no longer right, None if it still is.

    Args:
        eviction: as planned.
        fresh: the pod of that name as read just now, None if it is gone.
        around: what the plan was made on.
    """
    if fresh is None:
        return RefusalReason.CONFIRMATION_FAILED, "the pod is gone"
    if fresh.uid != eviction.pod.uid:
        return RefusalReason.CONFIRMATION_FAILED, "another pod has its name now"
    if fresh.node != eviction.node:
        return RefusalReason.CONFIRMATION_FAILED, f"it is on node {fresh.node!r} now"
    return refuse(fresh, around)
