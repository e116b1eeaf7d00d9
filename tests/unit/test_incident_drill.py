"""Hours of cycles through an incident: nothing is evicted until it is over, and then again."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from desched.errors import ObservationError, ObservationSource
from desched.model.cluster import Node, Owner, Pod, ServerHealth
from desched.model.report import CycleResult
from desched.model.snapshot import Snapshot
from desched.model.state import State
from tests.builders import NOW, load, node, pod, snapshot
from tests.unit.test_cycle import OK, ScriptedWorld

MINUTE = timedelta(minutes=1)
EVERY = 10 * MINUTE
BEGINS, ENDS = NOW + 30 * MINUTE, NOW + 210 * MINUTE
LASTS_TO = NOW + 300 * MINUTE
NAMES = ("hot", "cool", *(f"n{i}" for i in range(18)))

Cluster = Callable[[datetime], Snapshot]


def cluster(nodes: list[Node], pods: list[Pod], health: ServerHealth) -> Snapshot:
    """A hot node that one move relieves, with other nodes and pods."""
    fit = {each.name: (0.1, 0.1) for each in nodes if each.ready}
    return snapshot(
        nodes,
        [pod("a", on="hot"), pod("b", on="hot"), *pods],
        load(fit | {"hot": (0.9, 0.1)}, {"a": (0.8, 0.1), "b": (0.8, 0.1)}),
        server_health=health,
    )


def nodes_fail(now: datetime) -> Snapshot:
    """Half of the nodes are not Ready while it lasts; two were forgotten days ago."""
    gone = {"n16": NOW - timedelta(days=3), "n17": NOW - timedelta(days=2)}
    if BEGINS <= now < ENDS:
        gone |= {f"n{i}": BEGINS for i in range(8)}
    found = (node(name, ready=name not in gone, troubled_since=gone.get(name)) for name in NAMES)
    return cluster([*found], [], ServerHealth())


def images_fail(now: datetime) -> Snapshot:
    """The new pods of all workloads lack their image while it lasts; one has for weeks."""
    owner = Owner("ReplicaSet", "web-2", "uid-new", "apps/v1")
    pods = [
        pod(
            f"{namespace}-{i}",
            on=f"n{i}",
            namespace=namespace,
            owner=owner,
            created_at=since,
            ready=False,
            waiting_for="ImagePullBackOff",
            waiting_since=since,
        )
        for namespace, count, since in (
            *((f"team{t}", 5, BEGINS) for t in range(4)),
            ("forgotten", 9, NOW - timedelta(weeks=2)),
        )
        for i in range(count)
        if since < BEGINS or BEGINS <= now < ENDS
    ]
    return cluster([*map(node, NAMES)], pods, ServerHealth())


def server_fails(now: datetime) -> Snapshot:
    """The API server is away for the first half, and fails one request in three after it."""
    if BEGINS <= now < BEGINS + (ENDS - BEGINS) / 2:
        raise ObservationError(ObservationSource.CLUSTER, "The API server did not answer.")
    health = ServerHealth(60, 20) if BEGINS <= now < ENDS else ServerHealth(60, 1)
    return cluster([*map(node, NAMES)], [], health)


@pytest.mark.parametrize("seen", [nodes_fail, images_fail, server_fails])
def test_nothing_is_evicted_until_an_incident_is_over(seen: Cluster) -> None:
    now, state, evicted = NOW, State(), dict[datetime, bool]()
    while now < LASTS_TO:
        evicted[now] = False
        try:
            world = ScriptedWorld(seen(now), OK, OK)
        except ObservationError:  # the cycle is skipped
            now += EVERY
            continue
        world.seen, world.time = replace(world.seen, taken_at=now), now
        report = world.run(state=state)
        evicted[now] = bool(world.asked)
        assert (report.result is CycleResult.HELD) == (BEGINS <= now < ENDS)
        # The pod is there again, as if its replacement came back.
        state = State(last_cycle=report.state.last_cycle)
        now += EVERY

    assert evicted == {at: not BEGINS <= at < ENDS for at in evicted}
    assert len(evicted) == 30
