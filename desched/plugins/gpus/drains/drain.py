"""Drains: nodes that lose pods until what waits for their GPUs has room there."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec
from msgspec.structs import replace

from desched.model.bounds import Count
from desched.model.cluster import PodRef
from desched.model.extras import Essential, PluginPlan, PluginState, without_oldest
from desched.model.names import Form, ForPeople, Namespace, NodeName, Plain, Uid
from desched.model.plan import PlannedEviction, RefusalReason, Undertaking
from desched.model.state import State

GPU_DEMAND = "gpu_demand"
"""The purpose of an eviction that makes room for pods that wait for GPUs, or for a reserve."""


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


class Drain(Undertaking, frozen=True, gc=False, omit_defaults=True):
    """Nodes that are drained, and what for: pods that wait for GPUs, or a `reserve`.

    `namespace` is that of the pods, empty for a reserve. `gpus` is what each of the nodes must have
    free for a reserve, else what all the pods request. `gang` is set if the pods run only together;
    a pod alone may be one of several of the workload `workload_uid`. The nodes are held until
    `until`. `moves` is how many evictions it has requested. `end` is None while it is under way.
    """

    waived: ClassVar[frozenset[RefusalReason]] = frozenset({RefusalReason.GPU_POD})

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

    @property
    def awaited_by(self) -> tuple[PodRef, ...]:
        """Its pods; nobody waits for a reserve."""
        return self.pods

    def why_held(self, node: str) -> str:
        """That it is drained, of its own nodes."""
        return f"it is drained for {self}" if node in self.nodes else ""

    def with_move(self, state: State) -> State:
        """The state with one more move of the drain, which may begin with it."""
        drains = drains_of(state)
        same = [drain for drain in drains if drain.under_way and drain.key == self.key]
        drain = same[0] if same else self
        others = (other for other in drains if other is not drain)
        return with_drains(state, (*others, replace(drain, moves=drain.moves + 1)))

    def without_move(self, state: State) -> State:
        """The state without the last move of the drain, which goes with its only one."""
        drains = list[Drain]()
        for drain in drains_of(state):
            if not (drain.under_way and drain.key == self.key):
                drains.append(drain)
            elif drain.moves > 1:
                drains.append(replace(drain, moves=drain.moves - 1))
        return with_drains(state, drains)

    def ended(self, end: DrainEnd, now: datetime, reason: str = "") -> "Drain":
        """The drain once it has ended."""
        return replace(self, end=end, ended_at=now, why=reason)

    def __str__(self) -> str:
        pod = next(iter(self.pods), "?")  # a stored drain may have none
        return self.gang or self.reserve or f"pod {pod}"


class Drains(PluginState, frozen=True):
    """The drains that have begun; those that ended within a day are still there."""

    plugin: ClassVar[str] = "gpus"

    drains: tuple[Drain, ...] = ()

    @property
    def under_way(self) -> tuple[Drain, ...]:
        """Those that have not ended."""
        return tuple(drain for drain in self.drains if drain.under_way)

    @property
    def essentials(self) -> Iterable[Essential]:
        """The drains under way."""
        advice = "wait for them, or allow fewer drains in the policy"
        yield Essential("drains under way", self.under_way, advice)

    def shortened(self, excess_bytes: int) -> "Drains":
        """Without the oldest of the drains that ended."""
        return Drains(
            without_oldest(
                self.drains,
                excess_bytes,
                lambda drain: drain.began_at,
                lambda drain: not drain.under_way,
            )
        )


def drains_of(state: State) -> tuple[Drain, ...]:
    """The drains of a state."""
    return Drains.of(state.extras).drains


def drain_of(eviction: PlannedEviction) -> Drain | None:
    """The drain that the eviction is for, None if it is for none."""
    undertaking = eviction.undertaking
    return undertaking if isinstance(undertaking, Drain) else None


def with_drains(state: State, drains: Iterable[Drain]) -> State:
    """The state with these drains in place of its own."""
    return state.with_extra(Drains(tuple(drains)))


class Unserved(msgspec.Struct, frozen=True, gc=False):
    """What waits for GPUs although the policy allows drains for it, and why none is under way."""

    demand: str
    gpus: int
    why: str


class DrainPlan(PluginPlan, frozen=True):
    """The drains of earlier cycles, under way or ended, and what waits without one."""

    plugin: ClassVar[str] = "gpus"

    drains: tuple[Drain, ...] = ()
    unserved: tuple[Unserved, ...] = ()
