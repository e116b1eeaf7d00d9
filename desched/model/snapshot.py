"""What one cycle saw."""

from datetime import datetime

import msgspec

from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The cluster and its load at one time; all that planning knows of the world."""

    cluster: ClusterState
    load: ClusterLoad
    taken_at: datetime
