"""The protocols that a cycle needs; adapters and the simulation implement them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from desched.errors import ObservationError
from desched.model.cluster import ClusterState, PodRef
from desched.model.load import ClusterLoad, PodChoice
from desched.model.plan import PlannedEviction
from desched.model.report import EvictionVerdict
from desched.model.snapshot import FreshPod
from desched.model.state import State
from desched.model.stored_state import StoredState
from desched.policy.policy import Policy


class PodToRead(NamedTuple):
    """A pod to look at afresh, by namespace and name; `room_on` is a node to read with its pods.

    With `siblings`, the other pods of its namespace are read if they decide about it.
    """

    pod: PodRef
    room_on: str = ""
    siblings: bool = True


MaybeFreshPod = FreshPod | None | ObservationError
"""A fresh look; None if there is no such pod; an error if something could not be read in time."""


class ClusterReader(Protocol):
    """Reads the state of the cluster."""

    def read_cluster(
        self, declared_kinds: Sequence[str] = (), volcano_configurations: Sequence[str] = ()
    ) -> ClusterState:
        """Everything that planning needs, in a bounded number of requests.

        Of controllers of the declared kinds only the annotations are read. Configurations of
        Volcano schedulers are named by the namespace and the name of their ConfigMap.

        Raises:
            ObservationError: something could not be read in time.
        """

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        """The current pods with everything that decides on them, side by side, in this order.

        Each takes a few requests about single objects, one namespace and the node with room.
        """


ChoosePods = Callable[[ClusterLoad], PodChoice | None]
"""The pods of which the usage is needed, by the load of nodes; None means all."""


def all_pods(of_nodes: ClusterLoad) -> None:
    """Choose all pods."""


class LoadReader(Protocol):
    """Reads measured load."""

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending now.

        `choose` is called with the load of nodes, without any pods unless all are known at once,
        and perhaps again with what was read; of other pods than it returns, neither the usage nor
        the past need be read.

        Raises:
            ObservationError: the source did not answer, or answered with an error.
        """


class EvictionAnswer(msgspec.Struct, frozen=True):
    """The answer to an eviction request; `retry_after_seconds` is set only if throttled."""

    verdict: EvictionVerdict
    detail: str = ""
    retry_after_seconds: float | None = None


class Announcement(NamedTuple):
    """What is to be recorded of an eviction that was accepted at this time."""

    eviction: PlannedEviction
    note: str
    at: datetime


class Evictor(Protocol):
    """Evicts through the Eviction API; a dry run has none."""

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """Request the eviction of exactly this pod (uid precondition), once.

        Raises:
            StopActing: the answer is missing or unclear.
        """

    def would_evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """The answer that `evict` would get now; no pod is evicted and no budget is charged.

        Raises:
            ObservationError: the answer is missing or unclear.
        """

    def announce(self, announcements: Sequence[Announcement]) -> None:
        """Write Events on the pods and their nodes; a failure is logged, never raised."""


class SteeringAnswer(msgspec.Struct, frozen=True):
    """Whether the change succeeded; `detail` is the reason if not."""

    done: bool
    detail: str = ""


class Steerer(Protocol):
    """Gives nodes a soft taint that the scheduler avoids; a dry run has none.

    The methods never raise. A change of unknown result counts as failed: a taint that exists anyway
    expires, and no pod has moved because of it.
    """

    def taint_all(self, nodes: Sequence[str], until: datetime) -> Sequence[SteeringAnswer]:
        """Make the scheduler avoid the nodes, at least until this time; answers in this order.

        A node that has the same taint from somebody else stays unchanged.
        """

    def untaint_all(self, nodes: Sequence[str]) -> Sequence[SteeringAnswer]:
        """Remove desched's own taint from the nodes; the taint of somebody else stays."""


class StandingTaints(NamedTuple):
    """The nodes with desched's soft taint and its expiry; `now` is the server's clock, if known."""

    until: Mapping[str, datetime]
    now: datetime | None


class TaintRemover(Protocol):
    """Finds and removes desched's own soft taints, whoever may act."""

    def standing(self) -> StandingTaints:
        """All of them in the cluster.

        Raises:
            ObservationError: they could not be read in time.
        """

    def untaint(self, node: str, expired_at: datetime | None = None) -> SteeringAnswer:
        """Remove it from the node; with `expired_at` only if it has expired by then."""


class Clock(Protocol):
    """Time."""

    def now(self) -> datetime:
        """The wall-clock time, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never decrease."""

    def wait(self, seconds: float) -> bool:
        """Wait, and return true early if the process must stop."""

    def stopping(self) -> bool:
        """Whether the process must stop."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """The stored record of which replica may act.

    An empty `holder` means released. `transitions` counts the changes of holder. The times are the
    holder's wall clock, for people only. `version` changes with every write.
    """

    holder: str
    duration_seconds: int
    transitions: int = 0
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    version: str = ""


class Lease(Protocol):
    """One stored LeaseRecord that replicas contend for; every call ends within seconds."""

    def read(self) -> LeaseRecord | None:
        """The current record; None if there is none.

        Raises:
            LeaseError: it could not be read in time, or is invalid.
        """

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        """Store the first record and return it as stored; None if another was first.

        Raises:
            LeaseError: it was refused, or may not have been stored.
        """

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        """Store it in place of the record with the same version and return it as stored.

        None, without a change, if the stored record has another version.

        Raises:
            LeaseError: it was refused, or may not have been stored.
        """


class StateStore(Protocol):
    """Stores the state outside the process; people and other replicas write it, too."""

    def load(self) -> StoredState:
        """The stored state; none, with a problem, if it cannot be used.

        Raises:
            ObservationError: it could not be read in time.
        """

    def save(self, state: State) -> None:
        """Store it in place of the state that this store loaded or saved last, if there is one.

        Raises:
            StateConflict: somebody else wrote meanwhile; nothing is stored.
            StateRefused: nothing can be stored until a person grants or creates something.
            StopActing: it may not have been stored; the next load returns the truth.
        """


Fence = Callable[[], bool]
"""Whether this process may act now; called before each write, so it must be fast."""


class World(NamedTuple):
    """Everything outside of desched that a cycle uses; without an evictor it cannot act.

    `may_act` is called before each write; `why_not` returns the reason if it must not act. Without
    a steerer, no node gets a soft taint; `may_steer` returns whether desched has the right to it.
    """

    cluster: ClusterReader
    load: LoadReader
    clock: Clock
    evictor: Evictor | None
    may_act: Fence = lambda: True
    steerer: Steerer | None = None
    why_not: Callable[[], str | None] = lambda: None
    may_steer: Callable[[], bool] = lambda: True
