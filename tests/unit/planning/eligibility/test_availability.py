"""What a workload can bear."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.model.cluster import Autoscaler, ClusterState, Owner, PodDisruptionBudget, Workload
from desched.model.selectors import LabelSelector
from desched.planning.eligibility.annotations import EVICT_ANNOTATION
from desched.planning.eligibility.availability import availability, replicas_to_spare
from desched.planning.eligibility.controllers import with_declared_workloads
from tests.builders import (
    NOW,
    budget,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    rule,
    snapshot,
    with_readable_owners,
    workload,
)
from tests.unit.planning.eligibility.candidate import Candidate

ROLLOUT = Owner("Rollout", "web", "uid-rollout", "argoproj.io/v1alpha1")
ROOMY = budget("a", 1, app="web")


def of(**workload: Any) -> Candidate:
    one = Candidate()
    one.workload |= workload
    return one


def spare(one: Candidate) -> int | None:
    context = one.context()
    return replicas_to_spare(context.cluster.pods[0], context)


# --- replicas ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "ready", "reason"),
    [
        (1, 1, "single_replica"),
        (0, 1, "single_replica"),
        (2, 2, None),
        (2, 1, "replicas_not_ready"),
        (3, 3, None),
        (3, 2, "replicas_not_ready"),
        (10, 10, None),
        (10, 9, "replicas_not_ready"),
        (3, 4, None),
    ],
)
def test_all_desired_replicas_are_ready_before_one_moves(
    replicas: int, ready: int, reason: str | None
) -> None:
    assert of(replicas=replicas, ready_replicas=ready).reason == reason


def test_what_is_not_ready_is_told_with_numbers() -> None:
    assert of(ready_replicas=2).detail == "Deployment apps/web has 2 of 3 Ready"


@pytest.mark.parametrize(
    ("replicas", "ready", "least", "left_over"),
    [(2, 2, 0, 1), (3, 3, 0, 2), (10, 10, 0, 5), (10, 9, 0, 4), (3, 3, 3, 0), (4, 4, 3, 1)],
)
def test_half_of_the_replicas_and_as_many_as_the_policy_asks_for_remain(
    replicas: int, ready: int, least: int, left_over: int
) -> None:
    one = of(replicas=replicas, ready_replicas=ready)
    one.protections["min_replicas"] = least
    assert spare(one) == left_over


def test_one_plan_takes_no_more_replicas_of_a_workload_than_it_can_do_without() -> None:
    names = ("a", "b", "c", "d")
    seen = snapshot(
        [node("hot"), node("cool", cpu=16)],
        [pod(name, on="hot") for name in names],
        load({"hot": (0.95, 0.1), "cool": (0.05, 0.05)}, dict.fromkeys(names, (0.6, 0.1))),
        [workload("web", replicas=4)],
    )
    deep = policy(rule(target_ratio=0.5))
    assert len(evicted(planned(seen, deep))) == 2
    with_budget = msgspec.structs.replace(seen.cluster, budgets=(budget("a", 3, app="web"),))
    budgeted = msgspec.structs.replace(seen, cluster=with_budget)
    assert len(evicted(planned(budgeted, deep))) == 3


def test_replicas_that_the_policy_would_miss_during_the_move_keep_the_pod() -> None:
    one = of(replicas=3)
    one.protections["min_replicas"] = 3
    assert one.finding() == (
        "too_few_replicas",
        "Deployment apps/web would have 2 Ready, the policy requires 3",
    )
    one.budgets = (ROOMY,)
    assert one.reason is None


def test_a_single_replica_stays_for_one_reason() -> None:
    one = of(replicas=1)
    assert one.reason == "single_replica"
    assert availability(one.context().cluster.pods[0], one.context()) is None


def test_where_the_controller_does_not_tell_the_ready_pods_are_counted() -> None:
    one = of(replicas=2, ready_replicas=None)
    context = one.context()
    assert one.detail == "Deployment apps/web has 1 of 2 Ready"
    first = context.cluster.pods[0]
    others = [
        msgspec.structs.replace(first, name="web-2", uid="uid-web-2"),
        msgspec.structs.replace(first, name="web-3", uid="uid-web-3", ready=False),
        msgspec.structs.replace(first, name="web-4", uid="uid-web-4", deleting=True),
    ]
    loaded = msgspec.structs.replace(context.cluster, pods=(first, *others))
    assert msgspec.structs.replace(context, cluster=loaded).ready_pods == {"uid-web": 2}


def test_a_budget_decides_in_place_of_the_count_of_ready_replicas() -> None:
    one = of(ready_replicas=1)
    one.budgets = (ROOMY,)
    assert one.reason is None
    assert spare(one) is None


def test_the_only_replica_moves_if_the_policy_or_an_annotation_accepts_that() -> None:
    by_policy = of(replicas=1)
    by_policy.protections["single_replicas"] = False
    assert by_policy.reason is None
    on_workload = of(replicas=1, annotations={EVICT_ANNOTATION: "true"})
    assert on_workload.reason is None
    assert of(replicas=1).annotate(EVICT_ANNOTATION, "true").reason is None


def test_a_budget_does_not_make_a_second_replica_of_one() -> None:
    one = of(replicas=1)
    one.budgets = (ROOMY,)
    assert one.reason == "single_replica"


def test_pods_of_a_job_that_ignores_disruptions_may_move_alone() -> None:
    """R2.3, R4.5: one eviction would use up what a Job may fail."""

    def job_of_one(*, survives: bool) -> Candidate:
        one = Candidate(owner=Owner("Job", "batch", "uid-job", "batch/v1"))
        job = Workload("Job", "apps", "batch", "uid-job", 1, survives_disruption=survives)
        one.cluster["workloads"] = {("apps", "uid-job"): job}
        return one

    assert job_of_one(survives=True).reason is None
    assert job_of_one(survives=False).finding() == ("job_counts_eviction", "Job apps/batch")


# --- autoscalers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scaler", "reason"),
    [
        (Autoscaler(3, 3, 9), None),
        (Autoscaler(3, 5, 9), "scaling_under_way"),
        (Autoscaler(3, 2, 9), "scaling_under_way"),
        (Autoscaler(3, 0, 9), None),
        (Autoscaler(3, 3, 9, NOW - timedelta(seconds=299)), "scaling_under_way"),
        (Autoscaler(3, 3, 9, NOW - timedelta(seconds=300)), None),
        (Autoscaler(3, 3, 3), None),
        (Autoscaler(3, 3, 3, above_target=True), "autoscaler_at_maximum"),
        (Autoscaler(3, 3, 9, above_target=True), None),
    ],
)
def test_a_workload_waits_while_its_autoscaler_works_or_can_do_no_more(
    scaler: Autoscaler, reason: str | None
) -> None:
    assert of(autoscaler=scaler).reason == reason


def test_a_workload_that_is_told_to_be_scaling_waits_too() -> None:
    assert of(scaling=True).reason == "scaling_under_way"


# --- budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budgets",
    [
        (ROOMY,),
        (budget("a", 0, app="other"),),
        (PodDisruptionBudget("other", "a", LabelSelector(), 0),),
        (PodDisruptionBudget("apps", "a", None, 0),),
    ],
)
def test_a_budget_with_head_room_or_of_other_pods_lets_the_pod_go(
    budgets: tuple[PodDisruptionBudget, ...],
) -> None:
    one = Candidate()
    one.budgets = budgets
    assert one.reason is None


# --- declared owners --------------------------------------------------------------------------


def of_a_rollout(*budgets: PodDisruptionBudget, kinds: tuple[str, ...]) -> Candidate:
    """The pod's ReplicaSet belongs to a Rollout."""
    one = Candidate()
    one.cluster = {"workloads": {}, "controller_owners": {("apps", "uid-web"): ROLLOUT}}
    one.protections["understood_owner_kinds"] = kinds
    one.budgets = budgets
    return one


def test_the_report_names_the_owner_as_a_policy_would_declare_it() -> None:
    one = of_a_rollout(ROOMY, kinds=())
    assert one.finding() == ("owner_not_understood", "argoproj.io/Rollout web")


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        ((ROOMY,), None),
        ((), "without_budget"),
        ((budget("a", 0, app="web"),), "budget_exhausted"),
    ],
)
def test_pods_of_a_declared_kind_move_only_within_a_budget(
    budgets: tuple[PodDisruptionBudget, ...], reason: str | None
) -> None:
    assert of_a_rollout(*budgets, kinds=("argoproj.io/Rollout",)).reason == reason


@pytest.mark.parametrize("namespace", ["apps", ""])
def test_annotations_of_a_declared_workload_hold_for_its_pods(namespace: str) -> None:
    one = of_a_rollout(ROOMY, kinds=("argoproj.io/Rollout",))
    one.cluster["declared_owners"] = {(namespace, ROLLOUT.uid): {EVICT_ANNOTATION: "false"}}
    assert one.finding() == ("opted_out", f'{EVICT_ANNOTATION}: "false" on Rollout apps/web')


@pytest.mark.parametrize(
    ("read", "why"),
    [
        ({"declared_owners": {("other", ROLLOUT.uid): {}}}, "no object with its uid was read"),
        ({"unread_kinds": {"argoproj.io/Rollout": "it is forbidden"}}, "it is forbidden"),
    ],
)
def test_pods_of_a_declared_workload_stay_unless_its_annotations_are_known(
    read: dict[str, Any], why: str
) -> None:
    one = of_a_rollout(ROOMY, kinds=("argoproj.io/Rollout",)).annotate(EVICT_ANNOTATION, "true")
    one.cluster |= read
    assert one.finding() == ("owner_not_understood", f"argoproj.io/Rollout web: {why}")


def test_a_declared_kind_may_own_its_pods_without_a_replica_set() -> None:
    one = Candidate(owner=Owner("CloneSet", "web", "uid-clones", "apps.kruise.io/v1alpha1"))
    one.cluster = {"workloads": {}}
    one.budgets = (ROOMY,)
    one.protections["understood_owner_kinds"] = ("apps.kruise.io/CloneSet",)
    assert one.reason is None
    one.protections["understood_owner_kinds"] = ("apps/CloneSet",)
    assert one.reason == "owner_not_understood"


@pytest.mark.parametrize("target", [("Rollout", "web"), ("ReplicaSet", "web-5d4")])
def test_what_pods_of_a_declared_kind_request_under_a_vertical_autoscaler_is_not_known(
    target: tuple[str, str],
) -> None:
    kind, name = target
    one = Candidate(owner=Owner("ReplicaSet", "web-5d4", "uid-web"))
    one.cluster = {
        "workloads": {},
        "controller_owners": {("apps", "uid-web"): ROLLOUT},
        "sized_owners": frozenset({(kind, "apps", name)}),
    }
    one.budgets = (ROOMY,)
    one.protections["understood_owner_kinds"] = ("argoproj.io/Rollout",)

    sized = f"a VerticalPodAutoscaler sizes the pods of {kind} {name}"
    assert one.finding() == ("requests_unknown", sized)
    one.cluster["sized_owners"] = frozenset({(kind, "strangers", name), ("Other", "apps", name)})
    assert one.finding() is None


def test_a_declared_daemonset_still_stays() -> None:
    one = Candidate(owner=Owner("DaemonSet", "d", "uid-d", "apps.kruise.io/v1alpha1"))
    one.budgets = (ROOMY,)
    one.protections["understood_owner_kinds"] = ("apps.kruise.io/DaemonSet",)
    assert one.reason == "daemonset_pod"


def test_a_job_of_another_controller_cannot_be_declared() -> None:
    one = Candidate(owner=Owner("Job", "sums-0", "uid-job", "batch/v1"))
    job_set = Owner("JobSet", "sums", "uid-set", "jobset.x-k8s.io/v1alpha2")
    one.cluster = {"workloads": {}, "controller_owners": {("apps", "uid-job"): job_set}}
    one.budgets = (ROOMY,)
    one.protections["understood_owner_kinds"] = ("jobset.x-k8s.io/JobSet", "batch/Job")
    assert one.finding() == ("owner_not_understood", "jobset.x-k8s.io/JobSet sums")


def test_a_declared_workload_has_as_many_replicas_as_there_are_pods() -> None:
    owned = [pod("a"), pod("b"), pod("c", phase="Succeeded"), pod("d", of=None)]
    owners = {("apps", "uid-web"): ROLLOUT}
    loaded = with_readable_owners(ClusterState((), tuple(owned), {}, controller_owners=owners))
    declared = with_declared_workloads(loaded, ("argoproj.io/Rollout",))
    assert declared.workloads == {
        ("apps", "uid-web"): Workload("Rollout", "apps", "web", "apps/uid-rollout", 2, sized=False)
    }
    assert with_declared_workloads(loaded, ()) is loaded


def test_pods_of_another_namespace_are_no_replicas_of_a_declared_workload() -> None:
    claimed = [pod(f"claims-{i}", namespace="other") for i in range(5)]
    loaded = ClusterState(
        (), (pod("a"), *claimed), {}, controller_owners={("apps", "uid-web"): ROLLOUT}
    )
    declared = with_declared_workloads(loaded, ("argoproj.io/Rollout",))
    assert declared.workloads["apps", "uid-web"].desired_replicas == 1


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v1", "Foo"), ("apps/v1", "apps/Foo"), ("a.b/v1", "a.b/Foo")]
)
def test_a_kind_is_written_with_its_group_and_without_its_version(
    api_version: str, kind: str
) -> None:
    assert Owner("Foo", "f", "u", api_version).declared_kind == kind


@pytest.mark.parametrize(
    ("by_hand", "said"),
    [
        ("", "Deployment apps/web"),
        ("it is paused", "Deployment apps/web: it is paused, so only a person ends it"),
    ],
)
def test_a_rollout_names_who_ends_it(by_hand: str, said: str) -> None:
    one = Candidate()
    one.workload |= {"rolling_out": True, "rolled_by_hand": by_hand}
    assert one.finding() == ("rollout_under_way", said)
