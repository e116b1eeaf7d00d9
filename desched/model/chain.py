"""Chains: one move makes the room that the next one needs."""

from datetime import datetime

import msgspec

from desched.model.cluster import PodRef
from desched.model.names import ForPeople, NodeName


class Chain(msgspec.Struct, frozen=True, gc=False):
    """Two moves in order: `first` leaves the node `room_on`, then `second` moves there.

    `source` is the overloaded node that `second` leaves, `first_to` the node where the replacement
    of `first` is expected. `relief_ratio` is what `second` takes off its node, as a share of
    capacity.
    """

    first: PodRef
    second: PodRef
    source: NodeName
    room_on: NodeName
    first_to: NodeName = ""
    first_cpu_millicores: float = 0.0
    relief_ratio: float = 0.0


class ChainUnderWay(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A chain whose first pod was evicted; its room is held until `until`.

    A broken chain holds nothing; `why` is the reason. No other one begins for its source until
    `until`.
    """

    chain: Chain
    until: datetime
    broken_at: datetime | None = None
    why: ForPeople = ""
