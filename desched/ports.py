"""What a cycle needs from the world: small protocols that adapters and the simulation implement."""

from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from desched.model.cluster import ClusterState, Pod, PodRef
from desched.model.load import ClusterLoad
from desched.model.plan import PlannedEviction
from desched.model.report import EvictionVerdict
from desched.policy.policy import Policy


class ClusterReader(Protocol):
    """Reads the state of the cluster."""

    def read_cluster(self) -> ClusterState:
        """All that deciding needs, in a bounded number of requests.

        Raises:
            ObservationError: something could not be read in time.
        """

    def read_pod(self, ref: PodRef) -> Pod | None:
        """The pod of this namespace and name as it is now, None if there is none.

        Raises:
            ObservationError: it could not be read in time.
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


class World(NamedTuple):
    """Everything outside that a cycle touches; without an evictor it cannot act."""

    cluster: ClusterReader
    load: LoadReader
    clock: Clock
    evictor: Evictor | None
