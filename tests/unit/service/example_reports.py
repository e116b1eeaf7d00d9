"""Reports to make lines, metrics and tables from."""

from datetime import UTC, datetime, timedelta

import msgspec

from desched.model.cluster import PodRef
from desched.model.load import UnknownReason
from desched.model.plan import (
    HoldReason,
    NodeClass,
    NodeReason,
    NodeVerdict,
    Plan,
    Refusal,
    RefusalReason,
)
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    ObservedCounts,
    Outcome,
)
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    ForecastCheck,
    MoveResult,
    NodeRounds,
    Pause,
    PauseScope,
    State,
)
from desched.plugins.caches.facts import CacheFacts, ModelNodes
from desched.plugins.gpus.drains.drain import (
    GPU_DEMAND,
    Drain,
    DrainEnd,
    DrainPlan,
    Drains,
    Unserved,
)
from desched.plugins.gpus.facts import (
    ClusterGpus,
    DomainGpus,
    GpuAnswer,
    GpusLeftOut,
    GpuWait,
    NodeGpus,
    StayingPods,
)
from tests.builders import certain, planned_eviction, pressure

POD = PodRef("shop", "web-1", "uid-1")
STARTED_AT = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


EVICTION = planned_eviction(POD, "te3", "te5", reason="cpu")

REPORT = CycleReport(
    cycle=7,
    started_at=STARTED_AT,
    duration_seconds=1.23456,
    observe_seconds=1.0,
    plan_seconds=0.2,
    mode=Mode.EVICT,
    target="in-cluster",
    policy="policy.yaml",
    result=CycleResult.EVICTED,
    observed=ObservedCounts(nodes=3, pods=9, pods_asked=9, pods_measured=8, unresolved_series=2),
    plan=Plan(
        nodes=(
            NodeVerdict("te3", NodeClass.OVERLOADED, (pressure(0.875),), NodeReason.POOL_SATURATED),
            NodeVerdict("te5", NodeClass.UNDERLOADED, (pressure(0.1),)),
            NodeVerdict("te1", NodeClass.UNKNOWN, (), UnknownReason.STALE),
        ),
        evictions=(EVICTION,),
        refusals=(
            Refusal(PodRef("shop", "a"), "te3", RefusalReason.BARE_POD),
            Refusal(PodRef("shop", "b"), "te3", RefusalReason.NOT_NEEDED),
            Refusal(PodRef("shop", "c"), "te3", RefusalReason.NOT_NEEDED),
        ),
    ),
    outcomes=(Outcome(POD, "te3", EvictionVerdict.EVICTED, STARTED_AT),),
)

HELD = msgspec.structs.replace(
    REPORT,
    result=CycleResult.HELD,
    outcomes=(),
    plan=msgspec.structs.replace(
        REPORT.plan, evictions=(), hold=HoldReason.PARTIAL_DATA, hold_detail="a shard is missing"
    ),
)


def record(name, result=None, **fields):
    """An eviction of a pod of the Deployment shop/web from te3, an hour ago, with its result."""
    eviction = EvictionRecord(
        pod=PodRef("shop", name, f"uid-{name}"),
        node="te3",
        workload_uid="uid-web",
        evicted_at=STARTED_AT - HOUR,
        landing=certain("te5"),
        workload="Deployment shop/web",
        left_at=STARTED_AT - HOUR,
        judged_by=STARTED_AT + HOUR,
        result=result,
    )
    return msgspec.structs.replace(eviction, **fields)


LANDED = record(
    "web-1",
    MoveResult.LANDED_AS_FORECAST,
    landed_on="te5",
    replacement=PodRef("shop", "web-11", "uid-11"),
)
BACK = record(
    "web-2",
    MoveResult.BACK_ON_SOURCE,
    landed_on="te3",
    replacement=PodRef("shop", "web-12", "uid-12"),
)
IN_FLIGHT = record("web-3")
POOL_PAUSE = Pause(
    PauseScope.POOL, STARTED_AT, STARTED_AT + HOUR, "gpu", "moves of 2 workloads failed within 1h"
)

WAITING = GpuWait(
    (PodRef("ml", "w0"), PodRef("ml", "w1")), "", "nvidia.com/gpu", 8, GpuAnswer.TOO_LARGE
)
GPUS = ClusterGpus(
    16,
    9,
    {1: 9, 2: 4, 4: 2, 8: 1},
    1.5,
    (
        NodeGpus("g1", 8, 8, {1: 8, 2: 4, 4: 2, 8: 1}, 0.5, "rack=r1"),
        NodeGpus("g2", 8, 1, {1: 1, 2: 0, 4: 0, 8: 0}, 1.0, "rack=r1"),
        NodeGpus("g3", 8, 0, {}, 0.0, left_out=GpusLeftOut.SHARED),
    ),
    (DomainGpus("rack", "r1", 2, 16, 9, {1: 9, 2: 4, 4: 2, 8: 1}, 1.5),),
    7,
    4,
    (StayingPods(RefusalReason.BARE_POD, 3),),
    (WAITING,),
    unknown_nodes=1,
)

FOLLOWED_UP = msgspec.structs.replace(
    REPORT,
    facts={"gpus": GPUS, "caches": CacheFacts((ModelNodes("llama-70b", 2, 5),))},
    settled=(LANDED, BACK),
    state=State(
        evictions=(LANDED, BACK, IN_FLIGHT),
        cool_downs=(
            CoolDown(
                "uid-web",
                "Deployment shop/web",
                STARTED_AT + HOUR,
                1,
                MoveResult.BACK_ON_SOURCE,
            ),
            CoolDown("uid-db", "StatefulSet shop/db", STARTED_AT - HOUR),
        ),
        nodes=(
            NodeRounds("te3", 2, STARTED_AT - HOUR, STARTED_AT + HOUR),
            NodeRounds("te4", 1, STARTED_AT - HOUR),
        ),
        pauses=(
            POOL_PAUSE,
            Pause(PauseScope.EVERYTHING, STARTED_AT - 2 * HOUR, STARTED_AT - HOUR, why="too hot"),
        ),
        forecasts=(
            ForecastCheck(STARTED_AT, "", risk=0.1, bad=False, probability=0.8, hit=True),
            ForecastCheck(STARTED_AT, "", risk=0.1, bad=True, probability=0.6, hit=False),
        ),
    ),
)
"""After some moves: of two it is known what became of them, one is in flight; te3 cools down, te4
and the StatefulSet are not, the pool is paused and the pause of everything awaits a probe."""


BIG = PodRef("train", "big-0", "uid-big")
DRAIN = Drain((BIG,), ("te3",), 8, STARTED_AT, STARTED_AT + HOUR, namespace="train")
"""As planned: it has not moved anything yet."""
DRAINING = msgspec.structs.replace(DRAIN, moves=2)
LANDED_DRAIN = DRAINING.ended(DrainEnd.LANDED, STARTED_AT, "on te3")
BROKEN_DRAIN = DRAINING.ended(DrainEnd.BROKEN, STARTED_AT, "node te3 is gone")
TOLD_DRAIN = "pod train/big-0 (8 GPUs) on te3: 2 moves made, held until 13:00 UTC at the latest"
ROOM_FOR_BIG = "it makes room on te3 for pod train/big-0, which waits for 8 GPUs"
UNSERVED = Unserved("pod train/huge-0", 16, "no node has 16 GPUs")


def with_drain(drain: Drain) -> CycleReport:
    """A report of a cycle that found this drain of an earlier one, or ended it."""
    said = DrainPlan((drain,), (UNSERVED,))
    plan = msgspec.structs.replace(REPORT.plan, extras=said.extras)
    state = REPORT.state.with_extra(Drains((drain,)))
    return msgspec.structs.replace(REPORT, plan=plan, state=state)


def begun_earlier(drain: Drain) -> Drain:
    """The drain as if it had begun an hour before the report."""
    return msgspec.structs.replace(drain, began_at=STARTED_AT - HOUR)


def drain_move(*drains: Drain) -> CycleReport:
    """A report of a cycle that evicts a pod for DRAIN; `drains` are those of the state after it."""
    move = msgspec.structs.replace(
        EVICTION, undertaking=DRAIN, purpose=GPU_DEMAND, reason=ROOM_FOR_BIG
    )
    plan = msgspec.structs.replace(REPORT.plan, evictions=(move,))
    state = REPORT.state.with_extra(Drains(drains))
    return msgspec.structs.replace(REPORT, plan=plan, state=state)
