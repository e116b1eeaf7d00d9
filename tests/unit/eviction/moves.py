"""Evictions of web-0 from n0 two minutes ago, expected on n1, and later snapshots."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from desched.eviction.follow_up import FollowUp
from desched.model.cluster import Pod, PodRef, Workload
from desched.model.landing import LandingChance
from desched.model.load import Measured, Unknown
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, State
from desched.policy.policy import Policy
from tests.builders import NOW, followed_up, load, node, pod, policy, snapshot, workload

EVICTED_AT = NOW - timedelta(minutes=2)
DUE = NOW + timedelta(minutes=8)
POLICY = policy()


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def ref(name: str) -> PodRef:
    return PodRef("apps", name, f"uid-{name}")


def record(name: str = "web-0", of: str = "web", **fields: Any) -> EvictionRecord:
    defaults: dict[str, Any] = {
        "node": "n0",
        "workload_uid": f"uid-{of}",
        "workload": f"Deployment apps/{of}",
        "evicted_at": EVICTED_AT,
        "cpu_millicores": 400.0,
        "memory_bytes": 0.0,
        "left_at": NOW - minutes(1),
        "replicas": 3,
        "landing": (LandingChance("n1", 0.7), LandingChance("n2", 0.3)),
        "landing_risk": 0.1,
        "judged_by": DUE,
    }
    return EvictionRecord(pod=ref(name), **(defaults | fields))


def replacement(name: str = "web-9", on: str = "n1", **fields: Any) -> Pod:
    """A Ready pod that was created right after the eviction."""
    created = {"created_at": EVICTED_AT, "started_at": EVICTED_AT}
    return pod(name, on, **(created | fields))


CALM: dict[str, Measured | Unknown | float] = {"n0": 0.5, "n1": 0.5, "n2": 0.5, "n3": 0.5}


def look(
    pods: Iterable[Pod] = (),
    cpu: Mapping[str, Measured | Unknown | float] = CALM,
    workloads: Iterable[Workload] | None = None,
    **cluster: Any,
) -> Snapshot:
    """Four nodes of 4 cores with this CPU load, and workloads `web` and `db` of 3 replicas."""
    nodes = [node(name) for name in cpu]
    ratios = {name: (ratio, 0.1) for name, ratio in cpu.items()}
    owners = [workload("web"), workload("db")] if workloads is None else workloads
    return snapshot(nodes, pods, load(ratios), owners, **cluster)


def followed(
    state: State | EvictionRecord,
    seen: Snapshot,
    now: datetime = NOW,
    by: Policy = POLICY,
) -> FollowUp:
    if isinstance(state, EvictionRecord):
        state = State((state,))
    return followed_up(state, seen, by, now)


def result(
    state: State | EvictionRecord, seen: Snapshot, now: datetime = NOW, by: Policy = POLICY
) -> MoveResult | None:
    """What became of the only eviction."""
    (only,) = followed(state, seen, now, by).state.evictions
    return only.result
