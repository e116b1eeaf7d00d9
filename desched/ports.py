"""The interfaces of a cycle to the outside; the adapters and the simulation implement them."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from desched.model.cluster import ClusterState, PodRef
from desched.model.load import ClusterLoad
from desched.model.plan import PlannedEviction
from desched.model.report import EvictionVerdict
from desched.model.snapshot import FreshLook
from desched.model.state import State
from desched.model.stored_state import StoredState
from desched.policy.policy import Policy


class ClusterReader(Protocol):
    """Reads the state of the cluster."""

    def read_cluster(self) -> ClusterState:
        """Read all objects that planning needs, with a bounded number of requests.

        Raises:
            ObservationError: an object could not be read in time.
        """

    def read_around(self, ref: PodRef) -> FreshLook | None:
        """Read the pod of this name and its related objects, with a few requests.

        Returns None if there is no pod of this name.

        Raises:
            ObservationError: an object could not be read in time.
        """


class LoadReader(Protocol):
    """Reads measured load."""

    def read_load(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """Read the load of nodes and pods over the policy's windows, which end now.

        Raises:
            ObservationError: the source did not respond, or responded with an error.
        """


class EvictionAnswer(msgspec.Struct, frozen=True):
    """The response to an eviction request; `retry_after_seconds` only if throttled."""

    verdict: EvictionVerdict
    detail: str = ""
    retry_after_seconds: float | None = None


class Evictor(Protocol):
    """Requests evictions; a dry run has none."""

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """Request the eviction of exactly this pod (uid precondition) once.

        Raises:
            StopActing: the response is missing or not understood.
        """

    def announce(self, eviction: PlannedEviction, note: str) -> None:
        """Publish an Event for the pod and its node; errors are logged and never raised."""


class SteeringAnswer(msgspec.Struct, frozen=True):
    """Whether a taint was set or removed; `detail` is the error if not."""

    done: bool
    detail: str = ""


class Steerer(Protocol):
    """Sets soft taints on nodes; a dry run has none.

    It never raises. A write with an unknown result counts as failed: if the taint exists after all,
    it expires, and no pod has moved because of it.
    """

    def taint(self, node: str, until: datetime) -> SteeringAnswer:
        """Set desched's taint with this expiry, unless somebody else set the same taint."""

    def untaint(self, node: str) -> SteeringAnswer:
        """Remove desched's own taint; a taint that somebody else set remains."""


class Clock(Protocol):
    """Time."""

    def now(self) -> datetime:
        """The wall-clock time, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never decrease."""

    def wait(self, seconds: float) -> bool:
        """Wait; return true at once if the process has to stop."""

    def stopping(self) -> bool:
        """Whether the process has to stop."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """The stored record of the replica that may act; an empty `holder` means released.

    `transitions` counts the changes of holder. The times are the holder's wall clock, for people
    only. `version` changes with every write.
    """

    holder: str
    duration_seconds: int
    transitions: int = 0
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    version: str = ""


class Lease(Protocol):
    """The stored LeaseRecord of all replicas; every call ends within seconds."""

    def read(self) -> LeaseRecord | None:
        """Read the record, None if there is none.

        Raises:
            LeaseError: it could not be read in time, or is not understood.
        """

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        """Store the first record and return it as stored; None if another replica was first.

        Raises:
            LeaseError: it was refused, or may not have been stored.
        """

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        """Replace the record with the same version, and return it as stored.

        Returns None and changes nothing if the stored record has another version.

        Raises:
            LeaseError: it was refused, or may not have been stored.
        """


class StateStore(Protocol):
    """Stores the state outside the process; people and other replicas also write it."""

    def load(self) -> StoredState:
        """Read the stored state; a problem if it cannot be used.

        Raises:
            ObservationError: it could not be read in time.
        """

    def save(self, state: State) -> None:
        """Replace the state that this store loaded or saved last, or store the first one.

        Raises:
            StateConflict: somebody else wrote in the meantime; nothing is stored.
            StateRefused: nothing is stored until a person grants or creates something.
            StopActing: the result is unknown until the next load.
        """


Fence = Callable[[], bool]
"""Whether this process may act now; it is called before each write and returns at once."""


class World(NamedTuple):
    """Everything outside that a cycle uses.

    Without an evictor it cannot evict, without a steerer it sets no soft taints. `may_act` is
    called before each write; `why_not` returns why the process may not act.
    """

    cluster: ClusterReader
    load: LoadReader
    clock: Clock
    evictor: Evictor | None
    may_act: Fence = lambda: True
    steerer: Steerer | None = None
    why_not: Callable[[], str | None] = lambda: None
