"""The state that a cycle hands to the next: evictions, results, cool-downs and pauses.

It is stored in the cluster and survives a restart, so every part of it has a bounded size.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec

from desched.model.cluster import Pod, PodRef
from desched.model.extras import PluginState
from desched.model.landing import LandingChance, expected_on
from desched.model.names import (
    Form,
    ForPeople,
    Instead,
    Namespace,
    NodeName,
    Plain,
    Pool,
    Uid,
    WorkloadText,
)
from desched.model.plan import RELIEF, ResourceRelief, Unsteered
from desched.model.resources import Resource

HOUR = timedelta(hours=1)
"""The period of the limit `workload_hourly`."""

TAKEN_OVER_PATIENCE = timedelta(minutes=10)
"""How long a webhook may take to move a workload before it counts as having stayed."""

LONGEST_MIGRATION = timedelta(hours=1)
"""The same while KubeVirt marks the pod as one whose virtual machine it migrates."""


class MoveResult(StrEnum):
    """The result of a move."""

    LANDED_AS_FORECAST = "landed_as_forecast"  # on one of the nodes that the plan names
    LANDED_ELSEWHERE = "landed_elsewhere"  # on a node not named, which is not overloaded
    LANDED_OVERLOADED = "landed_overloaded"  # on a node that is overloaded
    BACK_ON_SOURCE = "back_on_source"
    STILL_PENDING = "still_pending"  # the replacement was not scheduled in time
    NOT_READY = "not_ready"  # the replacement was scheduled, but not Ready in time
    NEVER_CAME = "never_came"  # no replacement was created in time
    NOT_WANTED = "not_wanted"  # the workload desires fewer replicas than before
    STAYED = "stayed"  # the eviction was accepted, or may have been, but the pod still exists
    REFUSED = "refused"  # the API server or an admission webhook refused it
    LOAD_UNKNOWN = "load_unknown"  # the replacement landed; its node's load is unknown


SUCCESSES = frozenset({MoveResult.LANDED_AS_FORECAST, MoveResult.LANDED_ELSEWHERE})
FAILURES = frozenset(
    {
        MoveResult.LANDED_OVERLOADED,
        MoveResult.BACK_ON_SOURCE,
        MoveResult.STILL_PENDING,
        MoveResult.NOT_READY,
        MoveResult.NEVER_CAME,
    }
)
"""Results after which the workload cools down for longer; results in neither set are neutral."""


class EvictionRecord(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An eviction that was requested and may have begun, with the usage that leaves the node.

    `left_at` is the time of the first snapshot without the pod, None while the pod exists. (The
    real time is a little earlier; the error only leads to longer waits.) `taken_over` means that an
    admission webhook performs the eviction in its own way, `unanswered` that the response is
    missing or was not understood. `replicas` is the number that the workload desired, `pool` the
    pool of the source. The replacement is awaited until `judged_by`; `result` is None until it is
    known, and `waiting_for` is why a replacement that is not Ready waits. See `PlannedEviction` for
    the other fields.
    """

    pod: PodRef
    node: NodeName
    workload_uid: Uid
    evicted_at: datetime
    landing: tuple[LandingChance, ...]
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    devices: float = 0.0
    left_at: datetime | None = None
    taken_over: bool = False
    unanswered: bool = False
    workload: WorkloadText = ""
    replicas: int = 0
    pool: Pool = ""
    landing_nodes: int = 1
    landing_risk: float = 0.0
    judged_by: datetime | None = None
    replacement: PodRef | None = None
    landed_on: NodeName = ""
    result: MoveResult | None = None
    waiting_for: ForPeople = ""
    settled_at: datetime | None = None
    probe: bool = False
    steered: tuple[NodeName, ...] = ()
    gang: Annotated[str, Form.GANG] = ""
    levelled_to: tuple[ResourceRelief, ...] = ()
    purpose: Plain = RELIEF

    def usage(self, resource: Resource) -> float:
        """The usage that leaves the node, in millicores, bytes, devices, or 1 for a pod."""
        match resource:
            case Resource.CPU:
                return self.cpu_millicores
            case Resource.MEMORY:
                return self.memory_bytes
            case Resource.PODS:
                return 1.0
            case _:
                return self.devices

    @property
    def expected_node(self) -> str:
        """The likeliest node by the forecast; empty without a forecast."""
        return self.landing[0].node if self.landing else ""

    @property
    def expected_on(self) -> str:
        """The likeliest nodes in words."""
        return expected_on(self.landing, self.landing_nodes)

    @property
    def in_flight(self) -> bool:
        """Whether it has no result yet."""
        return self.result is None

    @property
    def batch(self) -> tuple[str, datetime] | None:
        """The same for all pods of a gang that leave together, None for a pod that moves alone."""
        return (self.gang, self.evicted_at) if self.gang else None


class RecentMove(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A move with a known result; `replacement_uid` is empty if there is no replacement.

    `workload` is written as `Kind namespace/name`; `pool` is that of the node that the pod left.
    The node's past has the pod until `left_at`, with the usage that left. A state of an earlier
    version does not know it.
    """

    workload_uid: Uid
    at: datetime
    replacement_uid: Uid = ""
    workload: WorkloadText = ""
    pool: Pool = ""
    pod: PodRef | None = None
    node: NodeName = ""
    left_at: datetime | None = None
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0


class CoolDown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A workload that is cooling down; the time doubles with each level."""

    workload_uid: Uid
    workload: WorkloadText
    until: datetime
    level: int = 0
    result: MoveResult | None = None


class NodeRounds(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node that is still overloaded after moves: the number of rounds in a row without progress.

    A round is all evictions from the node until its windows show the last departure. `excess_ratio`
    is the excess after the last round, as a share of capacity. `last_eviction_at` is the newest
    eviction from the node. `left_at` is the last departure of a round that is not counted yet.
    `cooling_down_until` is None before the first cool-down.
    """

    node: NodeName
    rounds: int
    last_eviction_at: datetime
    cooling_down_until: datetime | None = None
    left_at: datetime | None = None
    excess_ratio: float = 0.0

    def is_cooling_down(self, now: datetime) -> bool:
        """Whether the node is cooling down."""
        return self.cooling_down_until is not None and now < self.cooling_down_until


class PauseScope(StrEnum):
    """The scope of a pause; one that only a newer desched knows counts as everything."""

    WORKLOAD = "workload"
    NAMESPACE = "namespace"
    POOL = "pool"
    EVERYTHING = "everything"

    @classmethod
    def _missing_(cls, _: object) -> "PauseScope":
        return cls.EVERYTHING


class Pause(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pause, automatic or by a person (`by`).

    `subject` is the workload as `Kind namespace/name`, the namespace, the pool, or empty for
    everything.
    `until` is None if only a person ends it. After its time, an automatic pause lasts until a
    probe, a single careful move, succeeds; `level` counts the probes that failed.
    """

    scope: PauseScope
    since: datetime
    until: datetime | None
    subject: Annotated[str, Form.PAUSED] = ""
    why: ForPeople = ""
    by: Annotated[str, Instead("somebody")] = ""
    level: int = 0

    def lasts(self, now: datetime) -> bool:
        """Whether its time is not over."""
        return self.until is None or now < self.until

    def covers(self, workload: str, pool: str) -> bool:
        """Whether it applies to moves of this workload (`Kind namespace/name`) from this pool."""
        match self.scope:
            case PauseScope.WORKLOAD:
                return self.subject in {workload, workload.partition(" ")[2]}
            case PauseScope.NAMESPACE:
                return self.subject == namespace_of(workload)
            case PauseScope.POOL:
                return self.subject == pool
            case PauseScope.EVERYTHING:
                return True

    def __str__(self) -> str:
        return f"{self.scope.value} {self.subject}".strip()

    def describe(self) -> str:
        """The pause as a phrase for reports."""
        until = f"until {self.until:%Y-%m-%d %H:%M} UTC" if self.until else "until it is resumed"
        by = f" by {self.by}" if self.by else ""
        cause = f": {self.why}" if self.why else ""
        return f"{self} is paused{by} {until}{cause}"


def namespace_of(workload: str) -> str:
    """The namespace of a workload that is written as `Kind namespace/name`."""
    return workload.rpartition(" ")[2].partition("/")[0]


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A failed move, as long as it may lead to a pause."""

    workload: WorkloadText
    pool: Pool
    at: datetime
    result: MoveResult


class ForecastCheck(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A landing forecast and the landing.

    `risk` is the forecast probability of a bad landing, `bad` whether it was one. `probability` is
    that of the likeliest nodes together, `hit` whether it landed on one of them. `namespace` is the
    pod's, empty in a state of an earlier version.
    """

    at: datetime
    pool: Pool
    risk: float
    bad: bool
    probability: float
    hit: bool
    namespace: Namespace = ""


class PolicyEdit(msgspec.Struct, frozen=True, gc=False):
    """When the policy file was last edited, as a service saw it, and what that changed."""

    at: datetime
    changes: Annotated[tuple[str, ...], Form.FOR_PEOPLE]


class LastCycle(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A summary of the newest cycle, for `desched status`.

    `hold` is the HoldReason for which the whole cycle evicts nothing, empty without one, and
    `held_since` the time of the first of the cycles in a row with this reason. `refused_edit` is
    why the newest content of the policy file is not in force, empty if it is.
    """

    at: datetime
    instance: ForPeople
    mode: Plain
    result: Plain
    overloaded: tuple[NodeName, ...] = ()
    evicted: int = 0
    not_acting: ForPeople = ""
    unsteered: Unsteered | None = None
    acknowledged_deschedulers: Annotated[tuple[str, ...], Form.FOR_PEOPLE] = ()
    edit: PolicyEdit | None = None
    hold: Plain = ""
    hold_detail: ForPeople = ""
    held_since: datetime | None = None
    refused_edit: ForPeople = ""


class SkippedCycles(msgspec.Struct, frozen=True, gc=False):
    """Why the cycles since this time could not read the load."""

    since: datetime
    why: ForPeople


class Newcomers(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What new pods of Jobs requested by the time of the hour, and how much CPU they used for that.

    `requested_by_time` has what came in each twelfth of an hour, from its beginning: the mean of
    requested CPU and memory, 1.0 for a whole node. `use_of_requests` is the CPU that they used, as
    a multiple of this mean. `since` is when the first were seen, None after an hour: what comes at
    each time of the hour is known.
    """

    use_of_requests: float
    requested_by_time: tuple[float, ...]
    at: datetime
    since: datetime | None = None

    @property
    def requested_nodes(self) -> float:
        """What they requested in the whole hour."""
        return math.fsum(self.requested_by_time)


class State(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The whole state; `evictions` and `moves` are oldest first.

    `since` is the time of a start without a stored state, or at which a stored one was found
    deleted; not all earlier evictions are known. None if they are. `most_evictions` is the limit of
    a cycle during slow start, 0 in the first cycles. `extras` are what plugins keep, by the name of
    the plugin. `skipped` is set after the last cycle that read the load, until another one does.
    """

    evictions: tuple[EvictionRecord, ...] = ()
    since: datetime | None = None
    cool_downs: tuple[CoolDown, ...] = ()
    nodes: tuple[NodeRounds, ...] = ()
    pauses: tuple[Pause, ...] = ()
    failures: tuple[Failure, ...] = ()
    forecasts: tuple[ForecastCheck, ...] = ()
    moves: tuple[RecentMove, ...] = ()
    most_evictions: int = 0
    extras: Mapping[Plain, PluginState] = {}
    last_cycle: LastCycle | None = None
    newcomers: Newcomers | None = None
    skipped: SkippedCycles | None = None

    @property
    def in_flight(self) -> tuple[EvictionRecord, ...]:
        """The evictions without a result."""
        return tuple(record for record in self.evictions if record.in_flight)

    def with_eviction(self, record: EvictionRecord) -> "State":
        """Add an eviction, in place of a record of the same pod."""
        others = (r for r in self.evictions if r.pod != record.pod)
        return msgspec.structs.replace(self, evictions=(*others, record))

    def without_eviction(self, pod: PodRef) -> "State":
        """Remove an eviction that did not begin."""
        kept = tuple(record for record in self.evictions if record.pod != pod)
        return msgspec.structs.replace(self, evictions=kept)

    def with_extra(self, extra: PluginState) -> "State":
        """The state with this in place of what its plugin has kept before."""
        others = {name: other for name, other in self.extras.items() if name != extra.plugin}
        return msgspec.structs.replace(self, extras={**others, **extra.extras})

    def without_pause(self, pause: Pause) -> "State":
        """Remove a pause, and the failures that would start it again."""
        pauses = tuple(each for each in self.pauses if each != pause)
        failures = tuple(
            f for f in self.failures if pause.by or not pause.covers(f.workload, f.pool)
        )
        return msgspec.structs.replace(self, pauses=pauses, failures=failures)

    def pausing(
        self, now: datetime, scope: PauseScope = PauseScope.EVERYTHING, pool: str = ""
    ) -> Pause | None:
        """The active pause of everything, or of this pool, None without one."""
        pauses = (p for p in self.pauses if p.scope is scope and p.lasts(now))
        return next((pause for pause in pauses if pause.covers("", pool)), None)

    @property
    def failed_workloads(self) -> frozenset[str]:
        """The workloads with a failed move that is not forgotten yet, as `Kind namespace/name`."""
        cooling = {c.workload for c in self.cool_downs if c.level or c.result in FAILURES}
        return frozenset(cooling | {failure.workload for failure in self.failures})

    def observed(self, pods: Iterable[Pod], now: datetime, horizon: timedelta) -> "SeenMoves":
        """Update the evictions with the pods of a snapshot.

        If a pod exists without a deletion timestamp, its eviction did not happen, unless a webhook
        may still carry it out. A record is removed once it has a result and its pod has been gone
        for the horizon, because then no window includes the pod any more. It is kept for an
        eviction of the same workload that was in flight beside it: its replacement would seem free.
        """
        if not self.evictions:
            return SeenMoves(self)
        waiting: dict[str, datetime] = {}
        for record in self.in_flight:
            since = waiting.get(record.workload_uid, record.evicted_at)
            waiting[record.workload_uid] = min(since, record.evicted_at)
        awaited = {record.pod.uid for record in self.evictions}
        present = {pod.uid: pod for pod in pods if pod.uid in awaited and not pod.finished}
        looked = [
            # `_is_past` uses the record before this update: an end must first be recorded.
            (record, _after_look(record, present.get(record.pod.uid), now))
            for record in self.evictions
            if not _is_past(record, now, horizon, waiting.get(record.workload_uid))
        ]
        state = msgspec.structs.replace(self, evictions=tuple(seen for _, seen in looked if seen))
        left = {record.batch for record in state.in_flight}
        stayed = (_stayed(record, left, now) for record, seen in looked if seen is None)
        return SeenMoves(state, tuple(record for record in stayed if record))


class SeenMoves(NamedTuple):
    """A state after a look at the pods, and the evictions that it ended because the pod stayed."""

    state: State
    stayed: tuple[EvictionRecord, ...] = ()


def _after_look(record: EvictionRecord, pod: Pod | None, now: datetime) -> EvictionRecord | None:
    if pod is None:
        return record if record.left_at else msgspec.structs.replace(record, left_at=now)
    patience = LONGEST_MIGRATION if pod.migrating else TAKEN_OVER_PATIENCE
    under_way = record.taken_over and now - record.evicted_at < patience
    return record if pod.deleting or under_way else None


def _stayed(
    record: EvictionRecord, left: Collection[tuple[str, datetime] | None], now: datetime
) -> EvictionRecord | None:
    """The record with its result; None if it has one, or if it was not requested.

    The state was stored before the request, so a process may have ended in between. In a gang that
    should have left as a whole, a pod has also stayed if another is among those that `left`.
    """
    broken = record.batch is not None and record.batch in left
    if not record.in_flight or not (record.taken_over or record.unanswered or broken):
        return None
    return msgspec.structs.replace(
        record, left_at=None, replacement=None, result=MoveResult.STAYED, settled_at=now
    )


def _is_past(
    record: EvictionRecord, now: datetime, horizon: timedelta, waiting_since: datetime | None
) -> bool:
    """Whether nothing needs it; `waiting_since` is the oldest eviction of its workload in flight.

    One that was requested long after the result cannot take the replacement, which is older.
    """
    if record.left_at is None or record.in_flight or now - record.left_at < horizon:
        return False
    known_at = record.settled_at or record.left_at
    return waiting_since is None or known_at + horizon < waiting_since
