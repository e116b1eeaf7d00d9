"""Reports to make lines, metrics and tables from."""

from datetime import UTC, datetime

import msgspec

from desched.model.cluster import PodRef
from desched.model.load import UnknownReason
from desched.model.plan import (
    HoldReason,
    NodeClass,
    NodeReason,
    NodeVerdict,
    Plan,
    PlannedEviction,
    Refusal,
    RefusalReason,
    ResourcePressure,
)
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    Observed,
    Outcome,
)
from desched.model.resources import Resource

POD = PodRef("shop", "web-1", "uid-1")
STARTED_AT = datetime(2026, 3, 4, 12, tzinfo=UTC)


def pressure(ratio):
    return ResourcePressure(
        resource=Resource.CPU,
        measured=((300, ratio),),
        lowest_ratio=ratio,
        highest_ratio=ratio,
        low_ratio=0.3,
        trigger_ratio=0.8,
        stop_ratio=0.75,
        ceiling_ratio=0.7,
        overloaded=ratio > 0.8,
    )


EVICTION = PlannedEviction(
    pod=POD,
    node="te3",
    workload="Deployment shop/web",
    workload_uid="uid-web",
    priority=0,
    cpu_millicores=500.0,
    memory_bytes=0.0,
    relief=(),
    expected_node="te5",
    places=1,
    reason="cpu",
)

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
    observed=Observed(nodes=3, pods=9, pods_measured=8, unresolved_series=2),
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
