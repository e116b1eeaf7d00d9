"""What a cycle needs from the world: small protocols that adapters and the simulation implement."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from desched.model.cluster import (
    ClusterState,
    PodRef,
)
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
        """All that deciding needs, in a bounded number of requests.

        Raises:
            ObservationError: something could not be read in time.
        """

    def read_around(self, ref: PodRef) -> FreshLook | None:
        """The pod of this namespace and name with its surroundings as they are now.

        None if there is no such pod. A handful of requests about single objects and one namespace.

        Raises:
            ObservationError: something could not be read in time.
        """


class LoadReader(Protocol):
    """Reads measured load."""

    def read_load(self, cluster: ClusterState, policy: Policy) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending now.

        Raises:
            ObservationError: the source could not be asked, or answered with an error.
        """


class EvictionAnswer(msgspec.Struct, frozen=True):
    """The answer to a request to evict; `retry_after_seconds` only where throttled."""

    verdict: EvictionVerdict
    detail: str = ""
    retry_after_seconds: float | None = None


class Evictor(Protocol):
    """Asks the Eviction API; a dry run has none."""

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """Ask once for the eviction of exactly this pod (uid precondition).

        Raises:
            StopActing: the answer is missing or not understood.
        """

    def announce(self, eviction: PlannedEviction, note: str) -> None:
        """Leave an Event on the pod and its node; failing to is logged, never raised."""


class SteeringAnswer(msgspec.Struct, frozen=True):
    """Whether a node is now as it was asked for; `detail` says why not."""

    done: bool
    detail: str = ""


class Steerer(Protocol):
    """Gives nodes a soft taint that the scheduler avoids; a dry run has none.

    It never raises. What is not known to be done counts as not done: a taint that is there all the
    same has its own end, and no pod has moved for it.
    """

    def taint(self, node: str, until: datetime) -> SteeringAnswer:
        """Let the scheduler avoid the node, at least until then.

        Nothing is done to a node that has the same taint from somebody else.
        """

    def untaint(self, node: str) -> SteeringAnswer:
        """Take desched's own taint off the node; one that somebody else has put there stays."""


class Clock(Protocol):
    """Time."""

    def now(self) -> datetime:
        """The wall-clock time, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never run backwards."""

    def wait(self, seconds: float) -> bool:
        """Wait, and return true early if the process has been asked to stop."""

    def stopping(self) -> bool:
        """Whether the process has been asked to stop."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """Who may act, as it is stored for all replicas to see.

    An empty `holder` has released it. `transitions` counts the changes of holder. The times are the
    holder's wall clock, for people only. `version` changes with every write by anyone.
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
        """The record as it is now, None if there is none.

        Raises:
            LeaseError: it could not be read in time, or not understood.
        """

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        """Store the first record and return it as stored; None if another was first.

        Raises:
            LeaseError: whether it is stored is not known, or it was refused.
        """

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        """Store it in place of the one with the same version and return it as stored.

        None, and nothing changed, if that version is no longer the stored one.

        Raises:
            LeaseError: whether it is stored is not known, or it was refused.
        """


class StateStore(Protocol):
    """Where memory outlives the process; people and other instances write it too."""

    def load(self) -> StoredState:
        """What is remembered now; nothing, with a problem, if it cannot be used.

        Raises:
            ObservationError: it could not be read in time.
        """

    def save(self, state: State) -> None:
        """Store it in place of what this store loaded or saved last, else as the first one.

        Raises:
            StateConflict: somebody else wrote meanwhile; nothing is stored.
            StateRefused: nothing is stored until a person grants or creates something.
            StopActing: whether it is stored is not known; the next load tells.
        """


Fence = Callable[[], bool]
"""Whether this process may act at this moment; asked before each write, so it answers at once."""


class World(NamedTuple):
    """Everything outside that a cycle touches; without an evictor it cannot act.

    `may_act` is asked before each write, and `why_not` tells why it may not. Without a steerer no
    node gets a soft taint.
    """

    cluster: ClusterReader
    load: LoadReader
    clock: Clock
    evictor: Evictor | None
    may_act: Fence = lambda: True
    steerer: Steerer | None = None
    why_not: Callable[[], str | None] = lambda: None
