"""Pods of KubeVirt's virtual machines, which an eviction migrates to another node."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import msgspec
import pytest

from desched.model.cluster import (
    MIGRATING_ANNOTATION,
    ClusterState,
    Owner,
    Pod,
    PodDisruptionBudget,
    PodVolume,
    VolumeKind,
)
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.eligibility.rules import refuse
from desched.planning.selection.limits import EvictionQuota
from desched.plugins.virtual_machines.kubevirt import AT_A_TIME, FROM_A_NODE, KIND, TAKES_OVER
from desched.policy.policy import Protections
from tests.builders import NOW, budget, certain, context_of, no_limits_but, pod, policy
from tests.unit.planning.eligibility.candidate import Candidate

GUARDED = (budget("kubevirt-disruption-budget-1", 0, app="web"),)


def machine(uid: str = "uid-vm") -> Owner:
    return Owner("VirtualMachineInstance", uid.removeprefix("uid-"), uid, "kubevirt.io/v1")


def virtual_machine(*budgets: PodDisruptionBudget, kinds: tuple[str, ...] = (KIND,)) -> Candidate:
    """The pod of a virtual machine, as KubeVirt makes it."""
    disk = PodVolume(VolumeKind.EMPTY_DIR)
    one = Candidate(owner=machine(), annotations={TAKES_OVER: ""}, volumes=(disk,))
    one.cluster = {"workloads": {}}
    one.protections = {"understood_owner_kinds": kinds}
    one.budgets = budgets
    return one


def test_a_machine_that_kubevirt_migrates_may_move() -> None:
    assert virtual_machine(*GUARDED).finding() is None


def test_without_a_declaration_a_machine_stays() -> None:
    undeclared = virtual_machine(*GUARDED, kinds=())
    undeclared.pod["volumes"] = ()
    assert undeclared.finding() == ("owner_not_understood", f"{KIND} vm")


@pytest.mark.parametrize(
    ("budgets", "detail"),
    [
        ((), "no PodDisruptionBudget of KubeVirt protects it"),
        ((budget("own", 1, app="web"),), "apps/own would allow to stop it"),
        ((*GUARDED, budget("own", 1, app="web")), "apps/own would allow to stop it"),
    ],
)
def test_a_machine_that_an_eviction_could_stop_stays(
    budgets: tuple[PodDisruptionBudget, ...], detail: str
) -> None:
    assert virtual_machine(*budgets).finding() == ("not_migratable", detail)


def test_a_machine_whose_eviction_nobody_answers_stays() -> None:
    one = virtual_machine(*GUARDED)
    one.pod |= {"annotations": {}, "volumes": ()}
    assert one.finding() == ("not_migratable", f"no annotation {TAKES_OVER}")


def test_the_pod_of_another_kind_gains_nothing_by_the_annotation() -> None:
    one = Candidate(annotations={TAKES_OVER: ""}, volumes=(PodVolume(VolumeKind.EMPTY_DIR),))
    assert one.reason == "local_storage"
    one.pod["volumes"] = ()
    one.budgets = GUARDED
    assert one.reason == "budget_exhausted"


def test_a_machine_that_kubevirt_marks_as_migrating_stays() -> None:
    one = virtual_machine(*GUARDED).annotate(MIGRATING_ANNOTATION, "kubevirt")
    assert one.finding() == ("migration_under_way", "KubeVirt migrates it")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "migration_under_way"),
        ({"phase": "Succeeded"}, None),
        ({"owner": machine("uid-other")}, None),
        ({"namespace": "strangers"}, None),
    ],
)
def test_a_machine_with_a_second_pod_is_migrating(
    fields: dict[str, Any], reason: str | None
) -> None:
    one = virtual_machine(*GUARDED)
    one.others = (pod("target", on="n2", **({"owner": machine()} | fields)),)
    assert one.reason == reason


class CountedPods(tuple[Pod, ...]):
    """Pods that count how often somebody goes through them."""

    __slots__ = ()
    passes: ClassVar[int] = 0

    def __iter__(self) -> Iterator[Pod]:
        CountedPods.passes += 1
        return super().__iter__()


def test_the_pods_are_not_gone_through_for_each_machine() -> None:
    context = virtual_machine(*GUARDED).context()
    (one,) = context.cluster.pods
    cluster = msgspec.structs.replace(context.cluster, pods=CountedPods((one,)))
    context = msgspec.structs.replace(context, cluster=cluster)
    assert refuse(one, context) is None
    before = CountedPods.passes
    assert refuse(one, context) is None
    assert (before > 0, CountedPods.passes - before) == (True, 0)


# --- KubeVirt's limits ------------------------------------------------------------------------


def running(number: int, on: str = "n1", **fields: Any) -> Pod:
    annotations = {TAKES_OVER: ""} | fields.pop("annotations", {})
    return pod(
        f"vm{number}", on=on, owner=machine(f"uid-{number}"), annotations=annotations, **fields
    )


def quota(*pods: Pod, state: State | None = None) -> EvictionQuota:
    cluster = ClusterState((), pods, {}, budgets=GUARDED)
    by = policy(
        limits=no_limits_but(node=None), protections=Protections(understood_owner_kinds=(KIND,))
    )
    return EvictionQuota(Eligibility(context_of(cluster, by, state)))


def allowed(of: EvictionQuota, *pods: Pod) -> list[str]:
    """The pods that a plan may take one after the other, with this reason for the others."""
    taken = []
    for one in pods:
        finding = of.why_refused(one)
        if finding is None:
            of.take(one)
            taken.append(one.name)
        else:
            assert finding.reason == "limit_migrations"
    return taken


def test_a_plan_migrates_two_machines_from_a_node_and_five_in_all() -> None:
    pods = [running(n, on=f"n{n % 4}") for n in range(12)]
    assert allowed(quota(*pods), *pods) == ["vm0", "vm1", "vm2", "vm3", "vm4"]
    assert AT_A_TIME == 5
    of_one_node = [running(n) for n in range(4)]
    assert allowed(quota(*of_one_node), *of_one_node) == ["vm0", "vm1"]
    assert FROM_A_NODE == 2


def test_migrations_of_others_count_for_the_node_that_the_machine_leaves() -> None:
    pods = [running(n) for n in range(3)]
    target = running(0, on="n2", created_at=NOW)
    marked = running(9, annotations={MIGRATING_ANNOTATION: "kubevirt"})
    assert allowed(quota(*pods, target), *pods[1:]) == ["vm1"]
    assert allowed(quota(*pods, target, marked), *pods[1:]) == []
    elsewhere = running(5, on="n2")
    assert allowed(quota(*pods, target, marked, elsewhere), elsewhere) == ["vm5"]


def test_pending_pods_that_claim_machines_are_no_migrations() -> None:
    pods = [running(n) for n in range(3)]
    claims = [running(n, on="", namespace="evil", phase="Pending") for n in range(5, 10)]
    twice = [*claims, *(msgspec.structs.replace(each, name=f"{each.name}-2") for each in claims)]
    assert allowed(quota(*pods, *twice), *pods) == ["vm0", "vm1"]


def test_pods_that_claim_migrating_machines_leave_half_of_each_limit_to_others() -> None:
    pods = [running(n, on=f"n{n % 4}") for n in range(8)]
    claims = [
        running(n, on=f"n{n % 4}", namespace="evil", annotations={MIGRATING_ANNOTATION: "kubevirt"})
        for n in range(10, 30)
    ]
    assert allowed(quota(*pods, *claims), *pods) == ["vm0", "vm1", "vm2"]
    assert allowed(quota(*claims), claims[0]) == []


def test_a_migration_that_desched_has_just_caused_counts_once() -> None:
    pods = [running(n) for n in range(3)]
    begun = EvictionRecord(
        pods[0].ref, "n1", "apps/uid-0", NOW - timedelta(minutes=1), certain("n2"), taken_over=True
    )
    state = State(evictions=(begun,))
    assert allowed(quota(*pods, state=state), *pods[1:]) == ["vm1"]
    target = running(0, on="n2", created_at=NOW)
    assert allowed(quota(*pods, target, state=state), *pods[1:]) == ["vm1"]


def test_other_pods_have_no_limit_of_migrations() -> None:
    pods = [pod(f"db{n}", on="n1", of="db") for n in range(9)]
    assert len(allowed(quota(*pods), *pods)) == len(pods)
