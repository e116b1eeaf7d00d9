"""What a cycle hands to the next one: evictions and what became of them, and what is to rest.

It survives a restart in the cluster, so every part of it is bounded and pruned.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from desched.model.cluster import Pod, PodRef
from desched.model.plan import LandingChance
from desched.model.resources import Resource

TAKEN_OVER_PATIENCE = timedelta(minutes=10)
"""How long a webhook may take to move a workload before its pod counts as staying."""


class MoveResult(StrEnum):
    """What became of an accepted eviction."""

    LANDED_AS_FORECAST = "landed_as_forecast"
    LANDED_ELSEWHERE = "landed_elsewhere"  # not where expected, but on a node that bears it
    LANDED_OVERLOADED = "landed_overloaded"  # on a node that is overloaded
    BACK_ON_SOURCE = "back_on_source"
    STILL_PENDING = "still_pending"  # no node has accepted the replacement in time
    NOT_READY = "not_ready"  # the replacement has a node, and was not Ready in time
    NEVER_CAME = "never_came"  # no replacement was created in time
    NOT_WANTED = "not_wanted"  # the workload wants fewer replicas than before
    STAYED = "stayed"  # the eviction was accepted, or may have been, and the pod is still there
    REFUSED = "refused"  # the API server or an admission webhook would not evict it
    LOAD_UNKNOWN = "load_unknown"  # it landed, and its node's load was never known in time


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
"""Results that speak against moving this workload again soon; what is in neither is neutral."""


class EvictionRecord(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An eviction that was asked for and may have begun, with the usage that leaves the node.

    `left_at` is the first look at which the pod was gone (its end may lie a little before, so that
    an error leads to waiting), None while it is still there. `taken_over` is an eviction that an
    admission webhook carries out in its own way and time. `expected_node` is where the plan
    expects the replacement, `landing` the likeliest nodes and `landing_risk` the probability of a
    landing that does not help. `replicas` is what the workload wanted then, `pool` the pool of the
    source. The replacement is awaited until `judged_by`; `result` is None until it is known.
    `probe` is the careful first move after a pause. `steered` names the nodes whose soft taints the
    landing counts on.
    """

    pod: PodRef
    node: str
    workload_uid: str
    evicted_at: datetime
    expected_node: str
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    left_at: datetime | None = None
    taken_over: bool = False
    workload: str = ""
    replicas: int = 0
    pool: str = ""
    landing: tuple[LandingChance, ...] = ()
    landing_risk: float = 0.0
    judged_by: datetime | None = None
    replacement: PodRef | None = None
    landed_on: str = ""
    result: MoveResult | None = None
    settled_at: datetime | None = None
    probe: bool = False
    steered: tuple[str, ...] = ()

    def usage(self, resource: Resource) -> float:
        """The usage that leaves the node: millicores, bytes, or 1 for a pod."""
        match resource:
            case Resource.CPU:
                return self.cpu_millicores
            case Resource.MEMORY:
                return self.memory_bytes
            case Resource.PODS:
                return 1.0

    @property
    def in_flight(self) -> bool:
        """Whether what became of it is not known yet."""
        return self.result is None


class CoolDown(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A workload that is left alone for a while; each level doubles how long."""

    workload_uid: str
    workload: str
    until: datetime
    level: int = 0
    result: MoveResult | None = None


class NodeRounds(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node that was relieved and is still overloaded: how often in a row without progress.

    `excess_ratio` is what it was above its targets after the last round, as a share of capacity.
    `last_eviction_at` is the newest eviction from it, each of which counts in one round. `left_at`
    is when the last pod of a round left that is not counted yet. `cooling_down_until` is None while
    there have been too few rounds for a cool-down.
    """

    node: str
    rounds: int
    last_eviction_at: datetime
    cooling_down_until: datetime | None = None
    left_at: datetime | None = None
    excess_ratio: float = 0.0


class PauseScope(StrEnum):
    """How wide a pause is."""

    WORKLOAD = "workload"
    POOL = "pool"
    EVERYTHING = "everything"


class Pause(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Something that is not moved for a while, by itself or because a person (`by`) said so.

    `subject` is the workload as `Kind namespace/name` or the pool, empty for everything. `until`
    is None where only a person ends it. A pause that began by itself stays until a probe, a single
    careful move once its time is over, has gone well; `level` counts the probes that did not.
    """

    scope: PauseScope
    since: datetime
    until: datetime | None
    subject: str = ""
    why: str = ""
    by: str = ""
    level: int = 0

    def lasts(self, now: datetime) -> bool:
        """Whether its time is not over."""
        return self.until is None or now < self.until

    def covers(self, workload: str, pool: str) -> bool:
        """Whether it is about a move of this workload (`Kind namespace/name`) from this pool."""
        match self.scope:
            case PauseScope.WORKLOAD:
                return self.subject in {workload, workload.partition(" ")[2]}
            case PauseScope.POOL:
                return self.subject == pool
            case PauseScope.EVERYTHING:
                return True

    def __str__(self) -> str:
        return f"{self.scope.value} {self.subject}".strip()

    def describe(self) -> str:
        """The pause in one phrase."""
        until = f"until {self.until:%Y-%m-%d %H:%M} UTC" if self.until else "until it is resumed"
        by = f" by {self.by}" if self.by else ""
        why = f": {self.why}" if self.why else ""
        return f"{self} is paused{by} {until}{why}"


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A move that did not go well, kept as long as it counts towards a pause."""

    workload: str
    pool: str
    at: datetime
    result: MoveResult


class ForecastCheck(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A landing forecast beside the landing.

    `risk` and `bad` are the forecast probability of a landing that does not help, and whether it
    was one; `probability` and `hit` are those of the likeliest nodes together.
    """

    at: datetime
    pool: str
    risk: float
    bad: bool
    probability: float
    hit: bool


class LastCycle(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The newest cycle in a few words, for a person who asks how things stand."""

    at: datetime
    instance: str
    mode: str
    result: str
    overloaded: tuple[str, ...] = ()
    evicted: int = 0
    not_acting: str = ""


class State(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Everything that is remembered; `evictions` are oldest first.

    `since` is when remembering began, None if nothing before it can matter: what was evicted
    shortly before a start is not known.
    """

    evictions: tuple[EvictionRecord, ...] = ()
    since: datetime | None = None
    cool_downs: tuple[CoolDown, ...] = ()
    nodes: tuple[NodeRounds, ...] = ()
    pauses: tuple[Pause, ...] = ()
    failures: tuple[Failure, ...] = ()
    forecasts: tuple[ForecastCheck, ...] = ()
    last_cycle: LastCycle | None = None

    @property
    def in_flight(self) -> tuple[EvictionRecord, ...]:
        """Evictions of which it is not known yet what became of them."""
        return tuple(record for record in self.evictions if record.in_flight)

    def with_eviction(self, record: EvictionRecord) -> "State":
        """This state with a further eviction, in place of an earlier record of the same pod."""
        others = (r for r in self.evictions if r.pod != record.pod)
        return msgspec.structs.replace(self, evictions=(*others, record))

    def without_eviction(self, pod: PodRef) -> "State":
        """This state without an eviction that did not begin."""
        kept = tuple(record for record in self.evictions if record.pod != pod)
        return msgspec.structs.replace(self, evictions=kept)

    def without_pause(self, pause: Pause) -> "State":
        """This state without a pause, and without the failures that would begin it again."""
        pauses = tuple(each for each in self.pauses if each != pause)
        failures = tuple(
            f for f in self.failures if pause.by or not pause.covers(f.workload, f.pool)
        )
        return msgspec.structs.replace(self, pauses=pauses, failures=failures)

    def pausing(self, now: datetime) -> Pause | None:
        """The pause of everything, if one lasts."""
        paused = (p for p in self.pauses if p.scope is PauseScope.EVERYTHING and p.lasts(now))
        return next(paused, None)

    def observed(self, pods: Iterable[Pod], now: datetime, horizon: timedelta) -> "State":
        """This state after a look at all pods.

        A pod that is there without a deletion timestamp is not being evicted after all. A record
        is forgotten once what became of it is known and its pod has been gone for the horizon, so
        that every window has seen it.
        """
        awaited = {record.pod.uid for record in self.evictions}
        present = {pod.uid: pod for pod in pods if pod.uid in awaited and not pod.finished}
        looked = (
            # As it was before this look: a pod's end has to be seen before it is forgotten.
            _after_look(record, present.get(record.pod.uid), now)
            for record in self.evictions
            if not _is_past(record, now, horizon)
        )
        return msgspec.structs.replace(self, evictions=tuple(r for r in looked if r))


def _after_look(record: EvictionRecord, pod: Pod | None, now: datetime) -> EvictionRecord | None:
    if pod is None:
        return record if record.left_at else msgspec.structs.replace(record, left_at=now)
    under_way = record.taken_over and now - record.evicted_at < TAKEN_OVER_PATIENCE
    return record if pod.deleting or under_way else None


def _is_past(record: EvictionRecord, now: datetime, horizon: timedelta) -> bool:
    if record.left_at is None or now - record.left_at < horizon:
        return False
    return not record.in_flight
