"""What one cycle saw."""

from datetime import datetime

import msgspec

from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The cluster and its load at one time; all that planning knows of the world.

    The leads say by how many seconds, as far as that is certain, desched's clock is ahead of the
    API server's and of Prometheus'; they are negative if it is behind.
    """

    cluster: ClusterState
    load: ClusterLoad
    taken_at: datetime
    cluster_lead_seconds: float = 0.0
    load_lead_seconds: float = 0.0
