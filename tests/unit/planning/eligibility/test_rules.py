"""Each rule alone, their order, and the rules that annotations lift, as in the document."""

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from desched.model.cluster import (
    MIGRATING_ANNOTATION,
    SYSTEM_CRITICAL_PRIORITY,
    Autoscaler,
    LargeObjects,
    Owner,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PodRef,
    PodVolume,
    VolumeKind,
)
from desched.model.selectors import LabelSelector
from desched.model.state import CoolDown, Pause, PauseScope, RecentMove
from desched.planning.eligibility.annotations import (
    EVICT_ANNOTATION,
    OWN_ANNOTATION,
    PREFER_NO_EVICTION_ANNOTATION,
)
from desched.planning.eligibility.rules import SYSTEM_NAMESPACES
from desched.plugins.queues.objects import MANAGED, QUEUE_NAME, Queue, QueueObjects
from desched.policy.policy import PriorityThreshold
from tests.builders import NOW, WINDOW_SECONDS, amounts, budget, pod, selector
from tests.repository import ROOT
from tests.unit.planning.eligibility.candidate import Candidate

DOCUMENT = ROOT / "docs" / "eligibility.md"
Spoil = Callable[[Candidate], Any]


def of_pod(**fields: object) -> Spoil:
    return lambda one: one.pod.update(fields)


def requesting(resource: str) -> Spoil:
    def spoil(one: Candidate) -> None:
        others = dict(one.pod.get("request", amounts()).extended)
        one.pod["request"] = amounts(0.1, 0.1, **others, **{resource: 1})

    return spoil


def of_workload(**fields: object) -> Spoil:
    return lambda one: one.workload.update(fields)


def by_policy(**fields: object) -> Spoil:
    return lambda one: one.protections.update(fields)


def with_budgets(*budgets: PodDisruptionBudget) -> Spoil:
    return lambda one: setattr(one, "budgets", budgets)


def annotated(key: str, value: str = "") -> Spoil:
    return lambda one: one.annotate(key, value)


def holding(volume: PodVolume) -> Spoil:
    return lambda one: one.add_volume(volume)


def claim_of_a_protected_kind(one: Candidate) -> None:
    one.protections["pvc_pods"] = True
    one.add_volume(PodVolume(VolumeKind.CLAIM, "data"))
    one.add_claim("data", PersistentVolume("pv"))


def of_desched(one: Candidate) -> None:
    one.cluster["own_pod"] = PodRef(one.pod.get("namespace", "apps"), "web-1")


def with_an_object_too_large(one: Candidate) -> None:
    namespace = one.pod.get("namespace", "apps")
    one.cluster["too_large"] = {namespace: LargeObjects(1, 0, "PodDisruptionBudget big: 900 KiB")}


def remembering(**parts: object) -> Spoil:
    return lambda one: one.remember(**parts)


def test_moves_of_more_than_an_hour_ago_do_not_count_for_the_limit_by_the_hour() -> None:
    one = Candidate()
    one.remember(moves=2 * (RecentMove("uid-web", NOW - timedelta(hours=1), "uid-other"),))
    assert one.reason is None


def all_of(*spoils: Spoil) -> Spoil:
    return lambda one: [spoil(one) for spoil in spoils]


MACHINE = Owner("VirtualMachineInstance", "web", "uid-web", "kubevirt.io/v1")
A_WHILE_AGO = NOW - timedelta(minutes=59)
AT_MAXIMUM = Autoscaler(3, 3, 3, above_target=True)
GROWING = Autoscaler(3, 4, 9)


def sharing_a_claim(one: Candidate) -> None:
    one.claims["both"] = PersistentVolumeClaim("apps", "both", "slow", "pv", for_one_node=True)
    one.volumes["pv"] = PersistentVolume("pv")
    one.add_volume(PodVolume(VolumeKind.CLAIM, "both"))
    namespace = one.pod.get("namespace", "apps")
    used = (PodVolume(VolumeKind.CLAIM, "both"),)
    one.others = (pod("other", on="n1", of=None, namespace=namespace, volumes=used),)


def in_a_queue(*queues: Queue) -> Spoil:
    """Kueue has admitted the pod from the queue `main`; it is among these or not."""

    def spoil(one: Candidate) -> None:
        labels = one.pod.get("labels", {"app": "web"})
        one.pod["labels"] = labels | {MANAGED: "true", QUEUE_NAME: "main"}
        one.cluster["extras"] = QueueObjects(queues).extras

    return spoil


SPOILED: list[tuple[str, Spoil]] = [
    ("mirror_pod", annotated("kubernetes.io/config.mirror", "x")),
    ("static_pod", annotated("kubernetes.io/config.source", "file")),
    ("daemonset_pod", of_pod(owner=Owner("DaemonSet", "d", "uid-web"))),
    ("desched_itself", of_desched),
    ("terminating", of_pod(deleting=True)),
    ("not_running", of_pod(phase="Pending")),
    ("not_ready", of_pod(ready=False)),
    ("objects_too_large", with_an_object_too_large),
    ("opted_out", annotated(EVICT_ANNOTATION, "false")),
    ("pod_group", of_pod(scheduling_group="training")),
    ("bare_pod", of_pod(owner=None)),
    ("owner_not_understood", of_pod(owner=Owner("Foo", "f", "uid-f", "example.com/v1"))),
    ("system_critical", of_pod(priority=SYSTEM_CRITICAL_PRIORITY)),
    (
        "priority_threshold",
        all_of(
            of_pod(priority=10_000), by_policy(priority_threshold=PriorityThreshold(value=10_000))
        ),
    ),
    ("namespace_excluded", by_policy(included_namespaces=("other",))),
    ("system_namespace", of_pod(namespace="kube-system")),
    ("namespace_not_selected", by_policy(namespace_labels=selector(team="a"))),
    ("labels_not_selected", by_policy(labels=selector(app="other"))),
    ("devices_summed", requesting("nvidia.com/gpumem")),
    ("gpu_pod", requesting("nvidia.com/gpu")),
    ("pvc_pod", claim_of_a_protected_kind),
    ("node_named", of_workload(pinned_to="n1")),
    ("node_bound_volume", holding(PodVolume(VolumeKind.CLAIM, "lost"))),
    ("shared_claim", sharing_a_claim),
    ("local_storage", holding(PodVolume(VolumeKind.EMPTY_DIR))),
    ("host_path", holding(PodVolume(VolumeKind.HOST_PATH, path="/var/lib/models"))),
    ("resource_claims", of_pod(has_resource_claims=True)),
    ("networks_unknown", annotated("networking.gke.io/interfaces", "[")),
    ("too_few_replicas", by_policy(min_replicas=10)),
    ("too_young", by_policy(min_pod_age_seconds=172_800)),
    ("long_grace_period", of_pod(grace_period_seconds=601)),
    (
        "prefers_no_eviction",
        all_of(
            annotated(PREFER_NO_EVICTION_ANNOTATION),
            by_policy(prefer_no_eviction_is_mandatory=True),
        ),
    ),
    ("job_counts_eviction", of_workload(survives_disruption=False)),
    ("rollout_under_way", of_workload(rolling_out=True)),
    ("scaling_under_way", of_workload(autoscaler=GROWING)),
    ("autoscaler_at_maximum", of_workload(autoscaler=AT_MAXIMUM)),
    ("resize_under_way", of_pod(resizing=True)),
    ("migration_under_way", all_of(of_pod(owner=MACHINE), annotated(MIGRATING_ANNOTATION))),
    ("requests_unknown", of_workload(requests_unknown="VerticalPodAutoscaler web: startupBoost")),
    (
        "queue_busy",
        in_a_queue(
            Queue("Kueue", "apps", "main", cluster_queue="team-a"),
            Queue("Kueue", "", "team-a", waiting=1),
        ),
    ),
    ("queue_unknown", in_a_queue(Queue("Kueue", "", "team-a"))),
    ("paused", remembering(pauses=(Pause(PauseScope.WORKLOAD, NOW, None, "apps/web"),))),
    ("in_flight", lambda one: one.evict_before(result=None)),
    (
        "cooling_down",
        remembering(cool_downs=(CoolDown("uid-web", "", NOW + timedelta(minutes=5)),)),
    ),
    ("moved_recently", remembering(moves=(RecentMove("uid-web", A_WHILE_AGO, "uid-web-1"),))),
    ("limit_hourly", remembering(moves=2 * (RecentMove("uid-web", A_WHILE_AGO, "uid-other"),))),
    ("not_migratable", of_pod(owner=MACHINE)),
    ("without_budget", all_of(with_budgets(), by_policy(pods_without_budget=True))),
    ("several_budgets", with_budgets(budget("a", 5, app="web"), budget("b", 5, app="web"))),
    (
        "budget_not_current",
        with_budgets(PodDisruptionBudget("apps", "a", LabelSelector(), 5, up_to_date=False)),
    ),
    ("budget_exhausted", with_budgets(budget("a", 0, app="web"))),
    ("single_replica", all_of(of_workload(replicas=1), by_policy(min_replicas=0))),
    ("replicas_not_ready", of_workload(ready_replicas=2)),
    ("too_few_replicas", by_policy(min_replicas=3)),
    ("too_young", of_pod(started_at=NOW - timedelta(seconds=WINDOW_SECONDS - 1))),
    ("usage_unknown", lambda one: setattr(one, "measured", False)),
]

LIFTED = {
    "priority_threshold",
    "gpu_pod",
    "pvc_pod",
    "local_storage",
    "host_path",
    "too_few_replicas",
    "single_replica",
}
each_rule = pytest.mark.parametrize(
    ("reason", "spoil"), SPOILED, ids=[f"{i}-{reason}" for i, (reason, _) in enumerate(SPOILED)]
)


def spoiled(*spoils: Spoil) -> Candidate:
    """The first to be named is applied last, so that it is whole where two touch the same."""
    one = Candidate()
    for spoil in reversed(spoils):
        spoil(one)
    return one


def test_an_ordinary_replica_may_be_moved() -> None:
    assert Candidate().reason is None


@each_rule
def test_each_rule_refuses_what_it_is_about(reason: str, spoil: Spoil) -> None:
    """X2: each refusal has the code of its rule."""
    assert spoiled(spoil).reason == reason


def test_a_workload_of_another_namespace_is_not_taken_for_the_owner() -> None:
    candidate = Candidate(namespace="other")
    candidate.workload["namespace"] = "apps"
    assert candidate.reason == "owner_not_understood"


def test_of_two_rules_that_refuse_the_earlier_gives_the_reason() -> None:
    for (first, one), (second, other) in combinations(SPOILED, 2):
        assert spoiled(one, other).reason == first, (first, second)


@each_rule
def test_the_evict_annotation_lifts_priority_storage_and_replica_rules_only(
    reason: str, spoil: Spoil
) -> None:
    asked = spoiled(spoil).annotate(EVICT_ANNOTATION, "true")
    assert asked.reason == (None if reason in LIFTED else reason)


@each_rule
def test_our_own_annotation_lifts_the_words_of_others_as_well(reason: str, spoil: Spoil) -> None:
    asked = spoiled(spoil).annotate(OWN_ANNOTATION, "true")
    lifted = LIFTED | {"opted_out", "prefers_no_eviction"}
    assert asked.reason == (None if reason in lifted else reason)


def documented_rules() -> list[str]:
    return (
        DOCUMENT.read_text().partition("## The rules in order")[2].partition("\n## ")[0].split("\n")
    )


def test_the_documented_order_is_the_order_of_the_rules() -> None:
    cells = [row.split("|")[1] for row in documented_rules() if row.startswith("| `")]
    assert [r for cell in cells for r in re.findall(r"`(\w+)`", cell)] == [r for r, _ in SPOILED]


def test_the_documented_rules_that_are_lifted_are_those() -> None:
    rows = [row for row in documented_rules() if "**lifted**" in row]
    assert {r for row in rows for r in re.findall(r"`(\w+)`", row.split("|")[1])} == LIFTED


def test_the_documented_system_namespaces_are_those() -> None:
    text = "\n".join(documented_rules())
    assert all(namespace in text for namespace in SYSTEM_NAMESPACES)


OPEN: dict[str, Spoil] = {
    "a priority below the threshold": all_of(
        of_pod(priority=9_999), by_policy(priority_threshold=PriorityThreshold(value=10_000))
    ),
    "a critical priority that is let go": all_of(
        of_pod(priority=SYSTEM_CRITICAL_PRIORITY), by_policy(system_critical=False)
    ),
    "disk storage that is let go": all_of(
        holding(PodVolume(VolumeKind.EMPTY_DIR)), by_policy(local_storage=False)
    ),
    "an included namespace": by_policy(included_namespaces=("apps",)),
    "a namespace beside an excluded one": by_policy(excluded_namespaces=("default",)),
    "a workload that keeps enough replicas": by_policy(min_replicas=2),
    "a pod of just the minimum age": by_policy(min_pod_age_seconds=86_400),
    "a grace period of ten minutes": of_pod(grace_period_seconds=600),
    "a longer one that is allowed": all_of(
        of_pod(grace_period_seconds=601), by_policy(max_grace_period_seconds=601)
    ),
    "a preference": annotated(PREFER_NO_EVICTION_ANNOTATION),
    "a selector of everything": by_policy(labels=LabelSelector()),
    "a workload beside a paused one": remembering(
        pauses=(Pause(PauseScope.WORKLOAD, NOW, None, "apps/other"),)
    ),
    "a cool-down that is over": remembering(cool_downs=(CoolDown("uid-web", "", NOW),)),
    "a pause that is over": remembering(
        pauses=(Pause(PauseScope.WORKLOAD, NOW - timedelta(hours=1), NOW, "apps/web"),)
    ),
    "a pod of another maker than desched": lambda one: one.cluster.update(
        own_pod=PodRef("apps", "another")
    ),
    "a pod that the window has just seen": of_pod(
        started_at=NOW - timedelta(seconds=WINDOW_SECONDS)
    ),
}


@pytest.mark.parametrize("spoil", OPEN.values(), ids=OPEN)
def test_a_policy_leaves_open_what_it_does_not_protect(spoil: Spoil) -> None:
    assert spoiled(spoil).reason is None


def test_the_preference_of_a_workload_holds_for_its_pods() -> None:
    mandatory = by_policy(prefer_no_eviction_is_mandatory=True)
    on_workload = of_workload(annotations={PREFER_NO_EVICTION_ANNOTATION: ""})
    assert spoiled(all_of(on_workload, mandatory)).reason == "prefers_no_eviction"


@pytest.mark.parametrize("namespace", sorted(SYSTEM_NAMESPACES))
def test_system_namespaces_stay_unless_the_policy_includes_them(namespace: str) -> None:
    one = Candidate(namespace=namespace)
    one.protections["excluded_namespaces"] = ("default",)
    assert one.reason == "system_namespace"
    one.protections = {"included_namespaces": (namespace,)}
    assert one.reason is None


def test_switching_off_system_critical_protection_keeps_the_threshold() -> None:
    one = Candidate(priority=SYSTEM_CRITICAL_PRIORITY)
    one.protections = {
        "system_critical": False,
        "priority_threshold": PriorityThreshold(value=10_000),
    }
    assert one.reason == "priority_threshold"


@pytest.mark.parametrize(("priority", "reason"), [(500, "priority_threshold"), (499, None)])
def test_a_threshold_by_name_is_the_value_of_the_class(priority: int, reason: str | None) -> None:
    one = Candidate(priority=priority)
    one.protections["priority_threshold"] = PriorityThreshold(class_name="high")
    one.cluster["priority_classes"] = {"high": 500}
    assert one.reason == reason


def test_a_pod_without_a_start_time_is_too_young_for_a_minimum_age() -> None:
    one = Candidate(started_at=None)
    one.protections["min_pod_age_seconds"] = 60
    assert one.finding() == ("too_young", "its start time is not known")
