"""An overload counts only if the kubelet or the pods of a node show it: exporters can be forged."""

import msgspec
import pytest

from desched.model.load import Measured
from desched.model.plan import NodeClass, NodeReason
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from tests.builders import amounts, load, node, planned, pod, policy, reasons, snapshot

CPU, MEMORY = Resource.CPU, Resource.MEMORY


def forged(
    reported: float,
    *,
    kubelet: float | None = 0.0,
    used: float = 1.2,
    resource: Resource = CPU,
    kept: float = 0.0,
) -> Snapshot:
    """`hot` by its exporter and its kubelet, where two pods use this much of 4 cores, or of 16 GiB.

    `kept` of its memory is what it keeps from pods.
    """
    is_cpu = resource is CPU
    ratios = (reported, 0.1) if is_cpu else (0.1, reported)
    each = (used / 2, 0.5) if is_cpu else (0.1, used / 2)
    seen = load({"hot": ratios, "cool": (0.05, 0.05)}, dict.fromkeys("ab", each))
    before = seen.nodes["hot"][resource]
    assert isinstance(before, Measured)
    compared = msgspec.structs.replace(before, kubelet_ratio=kubelet)
    nodes = {**seen.nodes, "hot": {**seen.nodes["hot"], resource: compared}}
    free = msgspec.structs.replace(amounts(4, 16 * (1 - kept)), pods=110)
    return snapshot(
        [node("hot", allocatable=free), node("cool")],
        [pod("a", on="hot"), pod("b", on="hot")],
        msgspec.structs.replace(seen, nodes=nodes),
    )


@pytest.mark.parametrize("reported", [0.93, 0.99])
@pytest.mark.parametrize("kubelet", [0.0, 0.3])
def test_a_load_that_neither_kubelet_nor_pods_show_moves_no_pod(
    reported: float, kubelet: float
) -> None:
    plan = planned(forged(reported, kubelet=kubelet), policy())

    (hot,) = [verdict for verdict in plan.nodes if verdict.node == "hot"]
    assert (hot.node_class, hot.reason) == (NodeClass.OVERLOADED, NodeReason.LOAD_NOT_SHOWN)
    assert f"{reported:.1%}" in hot.detail
    assert (plan.evictions, plan.hold) == ((), None)
    assert reasons(plan) == dict.fromkeys("ab", "load_not_shown")


@pytest.mark.parametrize(
    ("seen", "reported", "shown", "tolerated"),
    [
        (
            forged(0.96, kubelet=0.85),
            "cpu 96.0%",
            "85.0%",
            "10 points more are believed, at most 95.0%",
        ),
        (
            forged(0.93, resource=MEMORY, used=3.2, kept=0.1),
            "memory 93.0%",
            "20.0%",
            "35 points more are believed, at most 55.0%",
        ),
    ],
)
def test_the_reason_has_what_is_read_and_what_is_tolerated(
    seen: Snapshot, reported: str, shown: str, tolerated: str
) -> None:
    (hot,) = [verdict for verdict in planned(seen, policy()).nodes if verdict.node == "hot"]
    assert hot.detail == (
        f"{reported} by its exporter, {shown} by its kubelet and its pods; {tolerated}"
    )


@pytest.mark.parametrize(
    "seen",
    [
        forged(0.93, kubelet=None),  # from metrics-server, or by a query of the user
        forged(0.93, kubelet=0.9),  # the host's own load, which its kubelet shows
        forged(0.93, used=2.8),  # that of pods, without the kubelet's figure
        forged(0.93, resource=MEMORY, used=11.5),
        forged(0.93, resource=MEMORY, used=9.5, kept=0.1),
    ],
)
def test_a_load_that_one_of_them_shows_is_relieved(seen: Snapshot) -> None:
    assert planned(seen, policy()).evictions


@pytest.mark.parametrize(
    "seen",
    [
        forged(0.93, kubelet=0.82),
        forged(0.93, used=2.6),
        forged(0.93, resource=MEMORY, used=9.5),
        forged(0.93, resource=MEMORY, kubelet=0.6, used=11.5),
    ],
)
def test_what_it_may_exceed_them_by_is_bounded(seen: Snapshot) -> None:
    assert set(reasons(planned(seen, policy())).values()) == {"load_not_shown"}


def test_pods_that_have_ended_count() -> None:
    """As the sum of all pods has them, and their own usage has not."""
    seen = forged(0.93)
    sums = {"hot": {CPU: (3600.0,), MEMORY: (2.0**30,)}}
    with_sums = msgspec.structs.replace(seen.load, pod_sums=sums)
    assert planned(msgspec.structs.replace(seen, load=with_sums), policy()).evictions


def test_nobody_is_steered_away_from_a_node_whose_load_is_not_shown() -> None:
    always = policy(steering=SteeringRules(SteeringMode.ALWAYS, 3))
    assert not planned(forged(0.93), always).taints
    assert planned(forged(0.93, kubelet=0.9), always).taints
