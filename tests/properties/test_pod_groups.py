"""No plan takes a gang below its minimum, whatever the order of its evictions."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.pod_groups import TASK, VOLCANO_GROUP
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from tests.builders import (
    NOW,
    certain,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)

NAME = "gang.scheduling.koordinator.sh/name"
LEAST = "gang.scheduling.koordinator.sh/min-available"
EAGER = policy(rule(target_ratio=0.6, ceiling_margin_ratio=0.0), limits=no_limits_but())


def gang_cluster(
    members: list[tuple[int, str, bool]], minima: list[int], of_tasks: Sequence[int] = ()
) -> Snapshot:
    """Pods of gangs, all of them candidates or else on a cool node; each has its workload.

    With minima of tasks, they are in a PodGroup of Volcano with these tasks, too.
    """
    pods, usage = [], {}
    for i, (gang, on, ready) in enumerate(members):
        marks = {NAME: f"gang-{gang}", LEAST: str(minima[gang])}
        if of_tasks:
            marks |= {VOLCANO_GROUP: "tasks", TASK: str(i % len(of_tasks))}
        pods.append(pod(f"p{i}", on=on, of=f"w{i}", annotations=marks, ready=ready))
        usage[f"p{i}"] = (0.4, 0.1)
    loads = {"hot-1": (0.95, 0.1), "hot-2": (0.9, 0.1), "cool-1": (0.1, 0.1), "cool-2": (0.0, 0.1)}
    workloads = [workload(f"w{i}", 4) for i in range(len(pods))]
    nodes = [node(name, cpu=8) for name in loads]
    parts = (
        GroupPart(str(task), least, LabelSelector((Requirement(TASK, Operator.IN, (str(task),)),)))
        for task, least in enumerate(of_tasks)
    )
    declared = DeclaredGroup("Volcano", "apps", "tasks", 0, "", tuple(parts))
    return snapshot(nodes, pods, load(loads, usage), workloads, declared_groups=(declared,))


def available(seen: Snapshot, without: set[str], by: str = NAME) -> Counter[str]:
    here = (p for p in seen.cluster.pods if p.ready and p.name not in without)
    return Counter(p.annotations[by] for p in here)


members = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["hot-1", "hot-1", "hot-2", "cool-1"]),
    st.integers(0, 9).map(lambda drawn: drawn > 0),
)


@given(
    members=st.lists(members, min_size=12, max_size=24),
    minima=st.lists(st.integers(1, 7), min_size=3, max_size=3),
    of_tasks=st.lists(st.integers(0, 7), max_size=3),
    in_flight=st.integers(0, 4),
)
def test_no_gang_falls_below_its_minimum(
    members: list[tuple[int, str, bool]], minima: list[int], of_tasks: list[int], in_flight: int
) -> None:
    """R2.2: nor a task; over a whole plan, and over evictions in flight that a webhook delays."""
    seen = gang_cluster(members, minima, of_tasks)
    cool = [each for each in seen.cluster.pods if each.node == "cool-1"][:in_flight]
    at = NOW - timedelta(minutes=10)
    records = (
        EvictionRecord(p.ref, p.node, f"uid-of-{p.name}", at, certain("cool-2"), taken_over=True)
        for p in cool
    )
    plan = planned(seen, EAGER, State(evictions=tuple(records)))

    leaving = {each.name for each in cool}
    left = leaving | {eviction.pod.name for eviction in plan.evictions}
    before, after = available(seen, leaving), available(seen, left)
    for number, least in enumerate(minima):
        gang = f"gang-{number}"
        assert least == 1 or after[gang] == before[gang] or after[gang] >= least
    if of_tasks:
        before, after = available(seen, leaving, TASK), available(seen, left, TASK)
        for task, least in enumerate(of_tasks):
            assert after[str(task)] == before[str(task)] or after[str(task)] >= least


def test_the_surplus_of_each_task_moves() -> None:
    """R2.2: of two tasks of 5 pods, one needs 3 and one 5; the gang needs 2."""
    seen = gang_cluster([(0, "hot-1", True)] * 10, [2, 0, 0], [3, 5])
    moved = {int(eviction.pod.name[1:]) % 2 for eviction in planned(seen, EAGER).evictions}
    assert (len(planned(seen, EAGER).evictions), moved) == (2, {0})


def test_the_surplus_of_a_gang_moves() -> None:
    """R2.2: a minimum of 6 of 10 running pods leaves at most 4; one of all leaves none."""
    for least, expected in ((6, 4), (9, 1), (10, 0)):
        seen = gang_cluster([(0, "hot-1", True)] * 10, [least, 0, 0])
        plan = planned(seen, EAGER)
        assert len(plan.evictions) == expected
        stay = Counter((r.reason.value, r.detail) for r in plan.refusals)
        gang = "gang apps/gang-0 (Koordinator)"
        said = f"{least} needed, and this plan takes {expected}" if expected else "10 of 10 needed"
        assert stay == {("pod_group", f"{gang}: {said}"): 10 - expected}
