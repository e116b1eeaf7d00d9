"""Each rule on its own, and the order of all of them."""

from datetime import timedelta

import msgspec
import pytest

from desched.model.cluster import (
    SYSTEM_CRITICAL_PRIORITY,
    ClusterState,
    Owner,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodVolume,
    VolumeKind,
    Workload,
)
from desched.model.load import PodUsage
from desched.model.memory import Memory
from desched.model.selectors import LabelSelector
from desched.model.snapshot import Snapshot
from desched.planning.eligibility import EVICT_ANNOTATION, PREFER_NO_EVICTION_ANNOTATION, refuse
from desched.planning.planner import surroundings
from desched.planning.usage import UsageBook
from desched.policy.policy import Policy, PriorityThreshold, Protections
from tests.builders import GIB, NOW, budget, load, pod, policy, selector, snapshot, workload

CLAIM = PodVolume(VolumeKind.CLAIM, "data")
YOUNG = NOW - timedelta(minutes=2)


def seen_with(one: Pod, **cluster: object) -> Snapshot:
    of_load = msgspec.structs.replace(
        load({}), pods={(one.namespace, one.name): PodUsage((500.0,), (float(GIB),))}
    )
    return msgspec.structs.replace(
        snapshot([], [one], of_load),
        cluster=ClusterState(
            (),
            (one,),
            **({"workloads": {"uid-web": workload("web")}} | cluster),  # type: ignore[arg-type]
        ),
    )


def finding(one: Pod, by: Policy | None = None, **cluster: object) -> str | None:
    seen, chosen = seen_with(one, **cluster), by or policy()
    book = UsageBook(seen, chosen, NOW)
    found = refuse(one, surroundings(seen, chosen, Memory(), NOW, book))
    return found[0].value if found else None


def protecting(**fields: object) -> Policy:
    return policy(protections=Protections(**fields))  # type: ignore[arg-type]


def rolled(**fields: object) -> dict[str, Workload]:
    return {"uid-web": workload("web", **fields)}  # type: ignore[arg-type]


def test_an_ordinary_replica_may_be_moved() -> None:
    assert finding(pod("web-1")) is None


NEVER = [
    (pod("p", annotations={"kubernetes.io/config.mirror": "x"}), "mirror_pod"),
    (pod("p", owner=Owner("Node", "n", "u")), "mirror_pod"),
    (pod("p", annotations={"kubernetes.io/config.source": "file"}), "static_pod"),
    (pod("p", owner=Owner("DaemonSet", "d", "uid-web")), "daemonset_pod"),
    (pod("p", deleting=True), "terminating"),
    (pod("p", phase="Pending"), "not_running"),
    (pod("p", ready=False), "not_ready"),
    (pod("p", annotations={EVICT_ANNOTATION: "false"}), "opted_out"),
    (pod("p", of=None), "bare_pod"),
    (pod("p", owner=Owner("Job", "j", "uid-j", "batch/v1")), "owner_not_understood"),
]


@pytest.mark.parametrize(("one", "reason"), NEVER)
def test_what_no_policy_lifts_is_never_moved(one: Pod, reason: str) -> None:
    open_to_all = protecting(system_critical=False, local_storage=False)
    assert finding(one, open_to_all) == reason


@pytest.mark.parametrize(("one", "reason"), NEVER)
def test_the_evict_annotation_does_not_lift_what_is_never_moved(one: Pod, reason: str) -> None:
    asked = msgspec.structs.replace(one, annotations={EVICT_ANNOTATION: "true"} | one.annotations)
    assert finding(asked) == reason


def test_a_workload_opts_out_for_all_of_its_pods() -> None:
    assert finding(pod("p"), workloads=rolled(annotations={EVICT_ANNOTATION: "False"})) == (
        "opted_out"
    )


PROTECTED = [
    (pod("p", priority=SYSTEM_CRITICAL_PRIORITY), {}, "system_critical"),
    (
        pod("p", priority=10_000),
        {"priority_threshold": PriorityThreshold(value=10_000)},
        "priority_threshold",
    ),
    (pod("p"), {"excluded_namespaces": ("apps",)}, "namespace_excluded"),
    (pod("p"), {"included_namespaces": ("other",)}, "namespace_excluded"),
    (pod("p"), {"namespace_labels": selector(team="a")}, "namespace_not_selected"),
    (pod("p"), {"labels": selector(app="other")}, "labels_not_selected"),
    (pod("p", volumes=(CLAIM,)), {"pvc_pods": True}, "pvc_pod"),
    (pod("p", volumes=(PodVolume(VolumeKind.EMPTY_DIR),)), {}, "local_storage"),
    (pod("p", volumes=(PodVolume(VolumeKind.HOST_PATH),)), {}, "local_storage"),
    (pod("p", has_resource_claims=True), {"resource_claims": True}, "resource_claims"),
    (pod("p"), {"min_replicas": 4}, "too_few_replicas"),
    (pod("p", started_at=YOUNG), {"min_pod_age_seconds": 3600}, "too_young"),
    (pod("p", started_at=None), {"min_pod_age_seconds": 3600}, "too_young"),
    (pod("p"), {"pods_without_budget": True}, "without_budget"),
    (
        pod("p", annotations={PREFER_NO_EVICTION_ANNOTATION: ""}),
        {"prefer_no_eviction_is_mandatory": True},
        "prefers_no_eviction",
    ),
]


@pytest.mark.parametrize(("one", "protections", "reason"), PROTECTED)
def test_a_policy_protects_what_it_says(
    one: Pod, protections: dict[str, object], reason: str
) -> None:
    assert finding(one, protecting(**protections)) == reason


LIFTED = {"priority_threshold", "pvc_pod", "local_storage", "too_few_replicas"}


@pytest.mark.parametrize(("one", "protections", "reason"), PROTECTED)
def test_the_evict_annotation_lifts_priority_storage_and_replica_rules_only(
    one: Pod, protections: dict[str, object], reason: str
) -> None:
    asked = msgspec.structs.replace(one, annotations={EVICT_ANNOTATION: ""} | one.annotations)
    assert finding(asked, protecting(**protections)) == (None if reason in LIFTED else reason)


@pytest.mark.parametrize(
    ("one", "protections"),
    [
        (pod("p", priority=9_999), {"priority_threshold": PriorityThreshold(value=10_000)}),
        (pod("p", priority=SYSTEM_CRITICAL_PRIORITY), {"system_critical": False}),
        (pod("p", volumes=(CLAIM,)), {}),
        (pod("p", volumes=(PodVolume(VolumeKind.EMPTY_DIR),)), {"local_storage": False}),
        (pod("p"), {"included_namespaces": ("apps",)}),
        (pod("p"), {"min_replicas": 3}),
        (pod("p", annotations={PREFER_NO_EVICTION_ANNOTATION: ""}), {}),
        (pod("p"), {"labels": LabelSelector()}),
    ],
)
def test_a_policy_leaves_open_what_it_does_not_protect(
    one: Pod, protections: dict[str, object]
) -> None:
    assert finding(one, protecting(**protections)) is None


def test_switching_off_system_critical_protection_keeps_the_threshold() -> None:
    by = protecting(system_critical=False, priority_threshold=PriorityThreshold(value=10_000))
    assert finding(pod("p", priority=SYSTEM_CRITICAL_PRIORITY), by) == "priority_threshold"


def test_a_threshold_by_name_is_the_value_of_the_class() -> None:
    by = protecting(priority_threshold=PriorityThreshold(class_name="high"))
    assert finding(pod("p", priority=500), by, priority_classes={"high": 500}) == (
        "priority_threshold"
    )
    assert finding(pod("p", priority=499), by, priority_classes={"high": 500}) is None


@pytest.mark.parametrize(
    ("storage_class", "reason"), [("fast", "pvc_pod"), ("slow", None), ("", "pvc_pod")]
)
def test_claims_are_protected_by_storage_class_and_unknown_ones_too(
    storage_class: str, reason: str | None
) -> None:
    by = protecting(pvc_pods=True, protected_storage_classes=("fast",))
    claims = {("apps", "data"): PersistentVolumeClaim("apps", "data", storage_class, "pv")}
    assert finding(pod("p", volumes=(CLAIM,)), by, claims=claims) == reason
    assert finding(pod("p", volumes=(CLAIM,)), by) == "pvc_pod"


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ({"workloads": rolled(rolling_out=True)}, "rollout_under_way"),
        ({"workloads": rolled(scaling=True)}, "scaling_under_way"),
        ({"budgets": (budget("a", 0, app="web"),)}, "budget_exhausted"),
        ({"budgets": (budget("a", 5, app="web"), budget("b", 5, app="web"))}, "several_budgets"),
        (
            {"budgets": (PodDisruptionBudget("apps", "a", LabelSelector(), 5, up_to_date=False),)},
            "budget_not_current",
        ),
        ({"budgets": (budget("a", 1, app="web"),)}, None),
        ({"budgets": (budget("a", 0, app="other"),)}, None),
        ({"budgets": (PodDisruptionBudget("other", "a", LabelSelector(), 0),)}, None),
        ({"budgets": (PodDisruptionBudget("apps", "a", None, 0),)}, None),
    ],
)
def test_a_workload_in_motion_or_a_budget_makes_the_pod_wait(
    cluster: dict[str, object], reason: str | None
) -> None:
    assert finding(pod("p"), **cluster) == reason


def test_a_pod_without_measured_usage_stays() -> None:
    one = pod("p")
    blind = msgspec.structs.replace(seen_with(one), load=load({}))
    book = UsageBook(blind, policy(), NOW)
    found = refuse(one, surroundings(blind, policy(), Memory(), NOW, book))
    assert found is not None
    assert found[0] == "usage_unknown"


def test_a_pod_that_its_window_has_not_fully_seen_stays() -> None:
    assert finding(pod("p", started_at=YOUNG)) == "usage_unknown"
