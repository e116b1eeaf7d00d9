"""Pods of Volcano Jobs stay, unless the policy lets those move that their job does not need."""

import msgspec
import pytest

from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.pod_groups import TASK
from desched.model.cluster import Owner, Pod
from desched.model.plan import Plan
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.planning.eligibility.controllers import VOLCANO_JOB, VOLCANO_JOB_KIND
from desched.plugins.gangs.keys import VolcanoJobs
from desched.plugins.gangs.plugin import Gangs
from desched.policy.policy import Policy, Protections
from tests.builders import amounts, evicted, house, load, node, planned, pod, policy, snapshot

GROUP = "job-uid-job"
OWNER = Owner("Job", "job", "uid-job", "batch.volcano.sh/v1alpha1")


def member(number: int, on: str, task: str = "worker") -> Pod:
    marks = {
        "scheduling.k8s.io/group-name": GROUP,
        "volcano.sh/job-name": "job",
        TASK: task,
    }
    return pod(
        f"job-{task}-{number}",
        on=on,
        owner=OWNER,
        labels={"volcano.sh/job-name": "job"},
        annotations=marks,
        scheduler="volcano",
        request=amounts(0.5, 0.5),
    )


def part(task: str, minimum: int) -> GroupPart:
    return GroupPart(task, minimum, LabelSelector((Requirement(TASK, Operator.IN, (task,)),)))


def job(minimum: int = 6, stays: str = "", **tasks: int) -> DeclaredGroup:
    parts = tuple(part(*each) for each in (tasks or {"worker": 1}).items())
    return DeclaredGroup(VOLCANO_JOB, "apps", "job", minimum, stays, parts)


PODS = DeclaredGroup("Volcano", "apps", GROUP, 6, parts=(part("worker", 10),))
"""The PodGroup that Volcano's controller makes of the job; its task is as the webhook writes it."""

SURPLUS = policy(
    plugins=house(Gangs(volcano_jobs=VolcanoJobs.SURPLUS)),
    protections=Protections(understood_owner_kinds=(VOLCANO_JOB_KIND,)),
)


def plan_of(*groups: DeclaredGroup, by: Policy = SURPLUS, pods: tuple[Pod, ...] = ()) -> Plan:
    """Ten pods of a job, of which six are on the hot node, with room elsewhere."""
    pods = pods or tuple(member(i, "hot" if i < 6 else "warm") for i in range(10))
    nodes = [node(name, capacity=amounts(8, 32)) for name in ("hot", "warm", "cool")]
    used = load(
        {"hot": (1.0, 0.1), "warm": (0.2, 0.1), "cool": (0.1, 0.1)},
        {each.name: (0.5, 0.1) for each in pods},
    )
    return planned(snapshot(nodes, pods, used, declared_groups=groups), by)


def why(plan: Plan) -> str:
    (found,) = {f"{each.reason}: {each.detail}" for each in plan.refusals}
    return found


def test_pods_above_the_minimum_of_the_job_move() -> None:
    """R2.2: of the guide's job, 6 of 10 needed, exactly four may go."""
    plan = plan_of(job(), PODS)
    assert len(evicted(plan)) == 4
    assert {move.workload for move in plan.evictions} == {"Volcano Job apps/job"}


def test_by_default_none_moves() -> None:
    """R2.3: also if desched may read the job."""
    plan = plan_of(job(), PODS, by=policy())
    assert evicted(plan) == []
    understood = policy(protections=Protections(understood_owner_kinds=(VOLCANO_JOB_KIND,)))
    found = why(plan_of(job(), PODS, by=understood))
    assert found.endswith("(Volcano Job): one eviction may restart the whole job")


def test_none_moves_without_the_rights() -> None:
    """X4: neither the job nor its PodGroup may be missing."""
    assert why(plan_of(PODS)).endswith("one eviction may restart the whole job")
    assert why(plan_of(job())).endswith("(Volcano): how many pods it needs is not known")


def test_a_policy_of_the_job_keeps_it_and_is_named() -> None:
    """R2.3."""
    stays = "RestartJob on PodFailed, which an eviction may raise; 3 such evictions end the job"
    assert why(plan_of(job(stays=stays), PODS)).endswith(f"(Volcano Job): {stays}")


def test_a_task_keeps_what_it_needs() -> None:
    """R2.2: the only master stays, and its workers go."""
    pods = (
        member(0, "hot", "master"),
        *(member(i, "hot" if i < 6 else "warm") for i in range(1, 10)),
    )
    plan = plan_of(job(master=1, worker=1), PODS, pods=pods)
    assert len(evicted(plan)) == 4
    assert "job-master-0" not in evicted(plan)
    plan = plan_of(job(worker=8), PODS)
    assert len(evicted(plan)) == 2
    plan = plan_of(job(other=1), PODS)
    assert "which of its parts" in why(plan)


def test_the_group_of_the_job_still_counts() -> None:
    """R2.2, R2.5: it may need more, or be assembled just now."""
    needs_nine = msgspec.structs.replace(PODS, minimum=9)
    assert len(evicted(plan_of(job(), needs_nine))) == 1
    assembling = msgspec.structs.replace(PODS, stays="it is being assembled (Pending)")
    assert "being assembled" in why(plan_of(job(), assembling))


@pytest.mark.parametrize("api_version", ["batch/v1", "example.com/v1"])
def test_jobs_of_others_are_no_volcano_jobs(api_version: str) -> None:
    """X4: a job is known by its API group, not by its kind."""
    owner = Owner("Job", "job", "uid-job", api_version)
    pods = tuple(
        msgspec.structs.replace(member(i, "hot" if i < 6 else "warm"), owner=owner)
        for i in range(10)
    )
    assert evicted(plan_of(job(), PODS, pods=pods)) == []
