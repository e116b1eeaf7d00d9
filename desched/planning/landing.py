"""Where the replacement of an evicted pod will land.

For now the expectation is a single node: the place that the default scheduler's strongest resource
score (LeastAllocated) prefers among those where the pod may live. The full forecast, with a
probability for each node, belongs here.
"""

import numpy as np

from desched.model.cluster import Pod
from desched.planning.feasibility import Mask, Room


def expected_node(pod: Pod, places: Mask, room: Room) -> str | None:
    """The most likely place, ties by name; None without any place."""
    if not places.any():
        return None
    share = room.requested_share(pod.scheduling.requests)
    return room.names[int(np.argmin(np.where(places, share, np.inf)))]
