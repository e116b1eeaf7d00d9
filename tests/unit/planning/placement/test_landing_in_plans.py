"""Plans, and the landings that the scheduler, or another one, would choose."""

import msgspec
import pytest

from desched.model.cluster import Effect, Pod, Taint
from desched.model.plan import Plan, RefusalReason
from tests.builders import (
    amounts,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    selector,
    snapshot,
    unknown,
    workload,
)

WORKER = {"role": "worker"}
CAREFUL = policy(max_landing_risk=0.15, destination_selector=selector(**WORKER))
TAINT = Taint("dedicated", Effect.NO_SCHEDULE)


def of_two_pods(cool_cpu: float, scheduler: str) -> Plan:
    """Two pods of 10 % on a node that has to lose both, and two alike places for them."""
    pods = [pod(name, on="hot", of=name, scheduler=scheduler) for name in "ab"]
    seen = snapshot(
        [node("hot"), node("cool1"), node("cool2")],
        pods,
        load(
            {"hot": (0.94, 0.1), "cool1": (cool_cpu, 0.1), "cool2": (cool_cpu, 0.1)},
            {"a": (0.4, 0.1), "b": (0.4, 0.1)},
        ),
        [workload("a", 20), workload("b", 20)],
    )
    return planned(seen)


@pytest.mark.parametrize(("scheduler", "count"), [("default-scheduler", 2), ("volcano", 1)])
def test_for_another_scheduler_each_node_where_it_may_land_keeps_its_share_of_room(
    scheduler: str, count: int
) -> None:
    # One is expected on each node. 59 % and 10 are under the ceiling of 70 %; a third of 10 more is
    # not, and as likely as that the first one comes there as well.
    assert len(of_two_pods(0.59, scheduler).evictions) == count


def test_with_room_for_its_shares_a_pod_of_another_scheduler_takes_it() -> None:
    assert len(of_two_pods(0.55, "volcano").evictions) == 2


@pytest.mark.parametrize("lure", ["unknown", "out of scope", "no destination"])
def test_a_landing_on_a_node_that_is_not_managed_is_a_risk(lure: str) -> None:
    """The scheduler would send the pod there, for the cool node looks full, by its requests."""
    labels = {} if lure == "no destination" else WORKER
    other = node("other", labels=labels, ready=lure != "out of scope")
    workers = [node(name, labels=WORKER) for name in ("hot", "cool")]
    seen = snapshot(
        [*workers, other],
        [
            pod("a", on="hot"),
            pod("fuller", on="hot", of=None, request=amounts(3.5, 14)),
            pod("full", on="cool", of=None, request=amounts(3, 12)),
        ],
        load(
            {
                "hot": (0.85, 0.1),
                "cool": (0.1, 0.1),
                "other": (unknown(), 0.1) if lure == "unknown" else (0.1, 0.1),
            },
            {"a": (0.8, 0.1)},
        ),
    )
    found = {refusal.pod.name: refusal for refusal in planned(seen, CAREFUL).refusals}
    assert found["a"].reason is RefusalReason.LANDING_RISK
    assert "100% to land where it would do harm" in found["a"].detail
    closed = msgspec.structs.replace(other, taints=(TAINT,))
    without = msgspec.structs.replace(seen.cluster, nodes=(*workers, closed))
    assert evicted(planned(msgspec.structs.replace(seen, cluster=without), CAREFUL)) == ["a"]


@pytest.mark.parametrize(("urgent", "expected"), [(0, []), (10, ["a"])])
def test_pending_pods_take_their_room_in_the_scheduler_s_order(
    urgent: int, expected: list[str]
) -> None:
    """Of two that wait for the cool node only one fits there, and one leaves room for a third."""

    def waiting(name: str, cores: float, priority: int = 0) -> Pod:
        return pod(
            name,
            of=name,
            phase="Pending",
            ready=False,
            request=amounts(cores),
            scheduling={"node_selector": (("kubernetes.io/hostname", "cool"),)},
            priority=priority,
        )

    seen = snapshot(
        [node("hot"), node("cool")],
        [
            pod("a", on="hot", request=amounts(2)),
            waiting("p-large", 3.5),
            waiting("q-small", 1, priority=urgent),
        ],
        load({"hot": (0.85, 0.1), "cool": (0.05, 0.1)}, {"a": (0.8, 0.1)}),
    )
    assert evicted(planned(seen)) == expected
