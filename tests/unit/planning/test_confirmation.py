"""Confirmation: the same rules, on freshly read objects."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from desched.model.cluster import (
    Autoscaler,
    Node,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodRef,
    PodVolume,
    Taint,
    VolumeKind,
    Workload,
)
from desched.model.plan import Finding, PlannedEviction, RefusalReason, Undertaking
from desched.model.snapshot import FreshPod, Room
from desched.model.state import State
from desched.planning.confirmation import reconsider
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.terms import Refused
from desched.planning.overload.pod_usage import UsageBook
from desched.plugins.queues.objects import MANAGED, QUEUE_NAME, Queue, QueueObjects
from desched.policy.policy import Policy, Protections
from tests.builders import (
    NOW,
    amounts,
    budget,
    load,
    node,
    planned,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)

EAGER = policy(rule(stop_margin_ratio=0.3, ceiling_margin_ratio=0.3))
ROLLOUT = Owner("Rollout", "web", "uid-rollout", "argoproj.io/v1alpha1")


class Second:
    """The plan evicts pod a, one of two on node hot; then some of it changes."""

    def __init__(self, by: Policy = EAGER, **cluster: Any) -> None:
        of_load = load({"hot": (0.9, 0.1), "cool": (0.0, 0.0)}, dict.fromkeys("ab", (0.9, 0.1)))
        pods = [pod("a", on="hot"), pod("b", on="hot")]
        workloads = cluster.pop("workloads", [workload("web", 4)])
        seen = snapshot([node("hot"), node("cool")], pods, of_load, workloads, **cluster)
        self.eviction: PlannedEviction = planned(seen, by).evictions[0]
        assert self.eviction.pod.name == "a"
        book = UsageBook(seen, by, NOW)
        self.context: EligibilityContext = EligibilityContext.of(book, State())
        self.pod: Pod = pods[0]
        self.node: Node | None = node("hot")
        self.workload: Workload | None = seen.cluster.workload_of(pods[0])
        self.controller_owner: Owner | None = None
        self.budgets: tuple[PodDisruptionBudget, ...] = seen.cluster.budgets
        self.later_seconds = 1.0
        self.room: Room | None = None
        self.siblings: tuple[Pod, ...] = ()
        self.owner_annotations: dict[str, str] | None = {}
        self.too_large = ""
        self.queues: tuple[Queue, ...] = ()

    def finding(self) -> Refused:
        owner = self.controller_owner
        look = FreshPod(
            *(self.pod, self.node, self.workload, owner, self.budgets, self.room),
            self.siblings,
            owner_annotations=self.owner_annotations,
            too_large=self.too_large,
            extras=QueueObjects(self.queues).extras,
        )
        now = NOW + timedelta(seconds=self.later_seconds)
        return reconsider(self.eviction, look, self.context, now)

    def reason(self) -> RefusalReason | None:
        finding = self.finding()
        return finding.reason if finding else None


DATA = (PodVolume(VolumeKind.CLAIM, "data"),)


def test_a_claim_for_one_node_that_another_pod_has_begun_to_use_keeps_the_pod() -> None:
    claim = PersistentVolumeClaim("apps", "data", "nfs", "pv", for_one_node=True)
    second = Second(claims={("apps", "data"): claim}, volumes={"pv": PersistentVolume("pv")})
    second.pod = pod("a", on="hot", volumes=DATA)
    second.siblings = (second.pod, pod("c", on="cool", of=None, volumes=DATA))
    assert second.reason() is None
    second.siblings = (second.pod, pod("c", on="hot", of=None, volumes=DATA))
    assert second.finding() == Finding(
        RefusalReason.SHARED_CLAIM, "claim data: apps/c uses it, too"
    )


def test_a_workload_that_has_come_to_its_queue_meanwhile_keeps_the_pod() -> None:
    labels = {"app": "web", MANAGED: "true", QUEUE_NAME: "main"}
    local = Queue("Kueue", "apps", "main", cluster_queue="team-a")
    second = Second(extras=QueueObjects((local, Queue("Kueue", "", "team-a"))).extras)
    second.pod = pod("a", on="hot", labels=labels)
    second.queues = (local, Queue("Kueue", "", "team-a"))
    assert second.reason() is None
    second.queues = (local, Queue("Kueue", "", "team-a", waiting=1))
    assert second.reason() is RefusalReason.QUEUE_BUSY
    for found in (), (local,), (second.queues[1],):
        second.queues = found  # one of them is gone, or must not be read any more
        assert second.reason() is RefusalReason.QUEUE_UNKNOWN


def test_an_object_of_its_namespace_that_has_become_too_large_keeps_the_pod() -> None:
    second = Second()
    second.too_large = "PodDisruptionBudget big: 900 KiB"
    assert second.finding() == Finding(RefusalReason.OBJECTS_TOO_LARGE, second.too_large)


def test_a_constraint_that_came_meanwhile_and_is_not_evaluated_keeps_the_pod() -> None:
    second = Second()
    second.pod = pod("a", on="hot", scheduling={"unevaluated": ("too large",)})
    assert second.finding() == Finding(RefusalReason.CONSTRAINT_NOT_EVALUATED, "too large")


def test_what_has_not_changed_is_confirmed() -> None:
    assert Second().finding() is None


class Waiving(Undertaking, frozen=True):
    """Something that pods with GPUs may leave for."""

    waived = frozenset({RefusalReason.GPU_POD})


def test_what_a_pod_leaves_for_waives_its_own_rules_and_no_other() -> None:
    second = Second()
    requests = amounts(1, 1, **{"nvidia.com/gpu": 1})
    second.pod = replace(second.pod, scheduling=replace(second.pod.scheduling, requests=requests))
    assert second.reason() is RefusalReason.GPU_POD
    second.eviction = replace(second.eviction, undertaking=Waiving())
    assert second.reason() is None
    second.pod = replace(second.pod, ready=False)
    assert second.reason() is RefusalReason.NOT_READY


def test_a_pod_that_is_gone_is_not() -> None:
    second = Second()
    finding = reconsider(second.eviction, None, second.context, NOW)
    assert finding == Finding(RefusalReason.CONFIRMATION_FAILED, "the pod is gone")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rolling_out": True}, RefusalReason.ROLLOUT_UNDER_WAY),
        ({"scaling": True}, RefusalReason.SCALING_UNDER_WAY),
        ({"ready_replicas": 3}, RefusalReason.REPLICAS_NOT_READY),
        ({"desired_replicas": 1, "ready_replicas": 1}, RefusalReason.SINGLE_REPLICA),
        ({"annotations": {"desched.io/evict": "false"}}, RefusalReason.OPTED_OUT),
    ],
)
def test_the_workload_is_judged_as_it_is_now(
    changes: dict[str, Any], reason: RefusalReason
) -> None:
    second = Second()
    assert second.workload is not None
    second.workload = replace(second.workload, **changes)
    assert second.reason() is reason


def test_an_autoscaler_that_acted_after_the_plan_counts() -> None:
    second = Second()
    assert second.workload is not None
    scaler = Autoscaler(4, 4, 9, last_scaled_at=NOW + timedelta(seconds=1))
    second.workload = replace(second.workload, autoscaler=scaler)
    second.later_seconds = 3
    assert second.finding() == Finding(
        RefusalReason.SCALING_UNDER_WAY, "Deployment apps/web, scaled 2 s ago"
    )


def test_a_workload_that_is_no_longer_understood_is_left_alone() -> None:
    second = Second()
    second.workload = None
    assert second.reason() is RefusalReason.OWNER_NOT_UNDERSTOOD


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"unschedulable": True}, "node hot is cordoned now"),
        ({"deleting": True}, "node hot is being_removed now (it has a deletion timestamp)"),
        ({"ready": False}, "node hot is not_ready now"),
        (
            {"taints": (Taint("node.kubernetes.io/memory-pressure", "NoSchedule"),)},
            "node hot is under_pressure now (node.kubernetes.io/memory-pressure)",
        ),
        ({"created_at": NOW}, "node hot is too_young now (1 s old, the longest window is 300 s)"),
    ],
)
def test_the_node_has_to_be_in_scope_still(changes: dict[str, Any], said: str) -> None:
    second = Second()
    second.node = replace(node("hot"), **changes)
    assert second.finding() == Finding(RefusalReason.CONFIRMATION_FAILED, said)


def test_a_node_that_is_gone_needs_no_relief() -> None:
    second = Second()
    second.node = None
    assert second.finding() == Finding(RefusalReason.CONFIRMATION_FAILED, "node hot is gone")


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        ((budget("guard", 1, app="web"),), None),  # the plan's other pod took one of the two
        ((budget("guard", 0, app="web"),), RefusalReason.BUDGET_EXHAUSTED),
        (
            (replace(budget("guard", 1, app="web"), up_to_date=False),),
            RefusalReason.BUDGET_NOT_CURRENT,
        ),
        (
            (budget("guard", 1, app="web"), budget("later", 1, app="web")),
            RefusalReason.SEVERAL_BUDGETS,
        ),
        ((budget("guard", 0, app="others"),), None),
    ],
)
def test_budgets_are_judged_by_their_status_now(
    budgets: tuple[PodDisruptionBudget, ...], reason: RefusalReason | None
) -> None:
    second = Second(budgets=(budget("guard", 2, app="web"),))
    second.budgets = budgets
    assert second.reason() is reason


@pytest.mark.parametrize(
    ("window_seconds", "age_seconds", "reason"),
    [
        (60, 60, None),
        (60, 61, RefusalReason.LOAD_TOO_OLD),
        (300, 300, None),
        (300, 301, RefusalReason.LOAD_TOO_OLD),
        (900, 300, None),
        (900, 301, RefusalReason.LOAD_TOO_OLD),
        (300, -1, None),
        (300, -3600, RefusalReason.LOAD_TOO_OLD),
    ],
)
def test_a_load_is_acted_on_for_its_shortest_window_and_five_minutes_at_most(
    window_seconds: int, age_seconds: float, reason: RefusalReason | None
) -> None:
    second = Second(
        replace(EAGER, rules=(replace(EAGER.rules[0], windows_seconds=(window_seconds,)),))
    )
    second.later_seconds = age_seconds
    assert second.reason() is reason


class TestDeclaredKinds:
    """The policy declares a Rollout to replace its pods; only its annotations are read."""

    def second(self) -> Second:
        by = policy(
            rule(stop_margin_ratio=0.3, ceiling_margin_ratio=0.3),
            protections=Protections(
                understood_owner_kinds=("argoproj.io/Rollout",), min_replicas=2
            ),
        )
        second = Second(
            by,
            workloads=[workload("other")],
            controller_owners={("apps", "uid-web"): ROLLOUT},
            budgets=(budget("guard", 1, app="web"),),
        )
        second.controller_owner = ROLLOUT
        return second

    def test_it_is_as_large_as_it_was_for_the_plan(self) -> None:
        assert self.second().finding() is None

    @pytest.mark.parametrize(
        ("owner", "annotations", "reason"),
        [
            (replace(ROLLOUT, uid="another"), {}, RefusalReason.OWNER_NOT_UNDERSTOOD),
            (None, {}, RefusalReason.OWNER_NOT_UNDERSTOOD),
            (ROLLOUT, None, RefusalReason.OWNER_NOT_UNDERSTOOD),  # it cannot be read any more
            (ROLLOUT, {"desched.io/evict": "false"}, RefusalReason.OPTED_OUT),
        ],
    )
    def test_its_owner_is_judged_as_it_is_now(
        self, owner: Owner | None, annotations: dict[str, str] | None, reason: RefusalReason
    ) -> None:
        second = self.second()
        second.controller_owner = owner
        second.owner_annotations = annotations
        assert second.reason() is reason


def test_descheds_own_workload_is_known_by_its_pods_of_the_plan() -> None:
    # The plan never has such a pod; the rule has to hold at the second look by itself.
    second = Second()
    cluster = replace(second.context.cluster, own_pod=PodRef("apps", "b"))
    second.context = replace(second.context, cluster=cluster)
    assert second.reason() is RefusalReason.DESCHED_ITSELF


def test_a_gang_is_counted_again() -> None:
    """R2.2: what another one took since the plan is not taken again."""
    gang = {
        "gang.scheduling.koordinator.sh/name": "llama",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    second = Second()
    second.pod = pod("a", on="hot", annotations=gang)
    b, c = (pod(name, on="cool", annotations=gang) for name in "bc")
    second.siblings = (second.pod, b, c)
    assert second.finding() is None
    for siblings in ((second.pod, b, replace(c, deleting=True)), (second.pod, b), ()):
        second.siblings = siblings
        assert second.reason() is RefusalReason.POD_GROUP
