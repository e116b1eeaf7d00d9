"""Whatever stands in the state, a cycle by it ends in a report, and begins with care."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings

from desched.model.cluster import PodRef
from desched.model.landing import LandingChance
from desched.model.report import Mode
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    Failure,
    ForecastCheck,
    LastCycle,
    MoveResult,
    NodeRounds,
    Pause,
    PauseScope,
    State,
)
from desched.model.stored_state import encode_state, pruned
from desched.plugins.gpus.drains.drain import Drain, DrainEnd, Drains
from desched.plugins.states import decode_state
from desched.views.rendering import rendered
from desched.views.status import Status, status_blocks
from tests.builders import NOW, policy
from tests.properties.hostile_cluster import HostileCluster, documents
from tests.properties.mutations import mutated
from tests.properties.outputs import every_output, harmless
from tests.unit.adapters.kubernetes.fake_api_server import FakeApiServer

MINUTE = timedelta(minutes=1)
RECORD = EvictionRecord(
    pod=PodRef("shop", "web-9", "uid-web-9"),
    node="te1",
    workload_uid="uid-web",
    evicted_at=NOW - 20 * MINUTE,
    cpu_millicores=400.0,
    memory_bytes=1e8,
    left_at=NOW - 19 * MINUTE,
    workload="Deployment shop/web",
    replicas=3,
    landing=(LandingChance("te2", 0.8), LandingChance("te3", 0.2)),
    landing_risk=0.1,
    judged_by=NOW + MINUTE,
    steered=("te1",),
)
MEMORY = State(
    evictions=(
        RECORD,
        msgspec.structs.replace(RECORD, pod=PodRef("shop", "db-0", "uid-db-0"), left_at=None),
        msgspec.structs.replace(
            RECORD,
            pod=PodRef("shop", "web-8", "uid-web-8"),
            replacement=PodRef("shop", "web-3", "uid-web-3"),
            landed_on="te2",
            result=MoveResult.LANDED_AS_FORECAST,
            settled_at=NOW - MINUTE,
        ),
    ),
    since=NOW - 60 * MINUTE,
    cool_downs=(
        CoolDown("uid-db", "StatefulSet shop/db", NOW - MINUTE, 2, MoveResult.LANDED_OVERLOADED),
    ),
    nodes=(NodeRounds("te1", 1, NOW - 20 * MINUTE, None, NOW - 19 * MINUTE, 0.2),),
    pauses=(
        Pause(PauseScope.POOL, NOW - MINUTE, NOW + MINUTE, "gpu", "two moves failed"),
        Pause(PauseScope.WORKLOAD, NOW - MINUTE, None, "shop/sums", "please", "a person"),
    ),
    failures=(Failure("Deployment shop/web", "", NOW - 9 * MINUTE, MoveResult.NOT_READY),),
    forecasts=(ForecastCheck(NOW - MINUTE, "", 0.1, bad=False, probability=0.8, hit=True),),
    extras=Drains(
        (
            Drain(
                (RECORD.pod,), ("te1",), 8, NOW - MINUTE, NOW + MINUTE, namespace="shop", moves=1
            ),
            Drain(
                (), ("te2",), 8, NOW - 9 * MINUTE, NOW - MINUTE, reserve="reserve of 8 GPUs"
            ).ended(DrainEnd.BROKEN, NOW - 2 * MINUTE, "node te2 is gone"),
        )
    ).extras,
    last_cycle=LastCycle(NOW - MINUTE, "desched-0", "evict", "evicted", ("te1",), 1, "why"),
)
DOCUMENT: Any = json.loads(encode_state(MEMORY))


@pytest.fixture(scope="module")
def cluster() -> Iterator[HostileCluster]:
    with FakeApiServer() as server:
        yield HostileCluster(server)


def edited(path: str, value: object) -> Any:
    """The document with another value at a path of keys and positions."""
    document = json.loads(json.dumps(DOCUMENT))
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    parent = document["state"]
    for step in steps:
        parent = parent[step]
    parent[last] = value
    return document


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated(DOCUMENT))
@example(edited("cool_downs.0.level", 10**30))
@example(edited("nodes.0.rounds", 10**30))
@example(edited("nodes.0.rounds", -(10**9)))
@example(edited("evictions.0.replicas", 10**30))
@example(edited("evictions.0.cpu_millicores", -1e308))
@example(edited("evictions.0.memory_bytes", 1e308))
@example(edited("evictions.0.evicted_at", "8999-12-31T23:59:59Z"))
@example(edited("forecasts.0.risk", -1e308))
@example(edited("extras.gpus.drains.0.moves", -(10**30)))
@example(edited("extras.gpus.drains.1.ended_at", None))
@example(edited("last_cycle.result", "\x1b[2J"))
def test_any_edit_of_the_memory_leads_to_a_report_or_a_careful_start(
    cluster: HostileCluster, document: Any
) -> None:
    found = decode_state(json.dumps(document))
    assert (found.state is None) == bool(found.problem)
    standing = Status(NOW, "here", "ConfigMap", found.state, found.problem)
    for form in ("table", "json", "yaml"):
        harmless(rendered(standing, status_blocks(standing), form))
    if found.state is None:
        return
    cluster.holds(documents())
    report = cluster.cycle(policy(), Mode.EVICT, found.state)
    every_output(report)
    assert decode_state(encode_state(pruned(report.state, NOW))).state is not None
