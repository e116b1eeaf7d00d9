"""Drains: nodes that lose pods until what waits for their GPUs has room there."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from desched.model.bounds import Count
from desched.model.cluster import PodRef
from desched.model.names import Form, ForPeople, Namespace, NodeName, Plain, Uid


class Purpose(StrEnum):
    """What an eviction is for; what only a newer desched knows counts as relief."""

    RELIEF = "relief"  # its node is overloaded
    GPU_DEMAND = "gpu_demand"  # it makes room for pods that wait for GPUs, or for a reserve

    @classmethod
    def _missing_(cls, _: object) -> "Purpose":
        return cls.RELIEF


class DrainEnd(StrEnum):
    """How a drain ended; what only a newer desched knows counts as broken."""

    LANDED = "landed"  # what it was for has the room: pods run on its nodes, or a reserve is free
    NOT_NEEDED = "not_needed"  # what it was for is gone, or has room elsewhere
    BROKEN = "broken"  # its nodes cannot be drained any more
    TIME_OVER = "time_over"
    NOT_WANTED = "not_wanted"  # the policy or a person does not allow it any more

    @classmethod
    def _missing_(cls, _: object) -> "DrainEnd":
        return cls.BROKEN


FAILED_ENDS = frozenset({DrainEnd.BROKEN, DrainEnd.TIME_OVER})
"""Ends after which the moves were in vain, although something still waits for the room."""


class Drain(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Nodes that are drained, and what for: pods that wait for GPUs, or a `reserve`.

    `namespace` is that of the pods, empty for a reserve. `gpus` is what each of the nodes must have
    free for a reserve, else what all the pods request. `gang` is set if the pods run only together;
    a pod alone may be one of several of the workload `workload_uid`. The nodes are held until
    `until`. `moves` is how many evictions it has requested. `end` is None while it is under way.
    """

    pods: tuple[PodRef, ...]
    nodes: tuple[NodeName, ...]
    gpus: int
    began_at: datetime
    until: datetime
    namespace: Namespace = ""
    gang: Annotated[str, Form.GANG] = ""
    reserve: Plain = ""
    workload_uid: Uid = ""
    moves: Count = 0
    end: DrainEnd | None = None
    ended_at: datetime | None = None
    why: ForPeople = ""

    @property
    def under_way(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def key(self) -> tuple[tuple[PodRef, ...], str]:
        """The same for all versions of one drain that is under way."""
        return self.pods, self.reserve

    def ended(self, end: DrainEnd, now: datetime, reason: str = "") -> "Drain":
        """The drain once it has ended."""
        return msgspec.structs.replace(self, end=end, ended_at=now, why=reason)

    def __str__(self) -> str:
        pod = next(iter(self.pods), "?")  # a stored drain may have none
        return self.gang or self.reserve or f"pod {pod}"
