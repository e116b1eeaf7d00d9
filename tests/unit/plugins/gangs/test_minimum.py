"""Pods that a gang needs stay; what runs above its minimum may move."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.model.checkpoints import CHECKPOINTS
from desched.model.cluster import PodRef
from desched.model.state import EvictionRecord, MoveResult
from tests.builders import NOW, certain, pod
from tests.unit.planning.eligibility.candidate import Candidate

NAME = "gang.scheduling.koordinator.sh/name"
LEAST = "gang.scheduling.koordinator.sh/min-available"


def marks(least: int) -> dict[str, str]:
    return {NAME: "llama", LEAST: str(least)}


def gang(running: int, least: int) -> Candidate:
    """One of so many running members of a gang."""
    one = Candidate(annotations=marks(least))
    one.others = tuple(
        pod(f"other-{i}", on="n2", annotations=marks(least)) for i in range(running - 1)
    )
    return one


def test_no_pod_leaves_while_the_gang_moves_whole() -> None:
    one = gang(4, 2)
    name = "gang apps/llama (Koordinator)"
    left = EvictionRecord(
        PodRef("apps", "old", "uid-old"), "n2", "uid-other", NOW, certain("n1"), gang=name
    )
    one.remember(evictions=(left,))
    assert one.detail == f"{name}: its move as a whole is not judged yet"
    one.remember(evictions=(replace(left, result=MoveResult.LANDED_ELSEWHERE),))
    assert one.reason is None


@pytest.mark.parametrize(
    ("running", "least", "detail"),
    [
        (8, 8, "gang apps/llama (Koordinator): 8 of 8 needed"),
        (7, 8, "gang apps/llama (Koordinator): 8 needed, 7 available"),
        (10, 6, None),
        (9, 8, None),
    ],
)
def test_a_member_moves_only_above_the_minimum(
    running: int, least: int, detail: str | None
) -> None:
    """R2.2: evictions from a gang are at most what runs above its minimum."""
    assert gang(running, least).finding() == (("pod_group", detail) if detail else None)


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"deleting": True},
        {"phase": "Pending"},
        {"phase": "Succeeded"},
        {"namespace": "other"},
        {"annotations": {NAME: "another", LEAST: "2"}},
    ],
)
def test_only_available_members_of_the_same_gang_count(change: dict[str, Any]) -> None:
    """R2.2, R2.5: a gang that is being assembled has no surplus."""
    one = gang(2, 2)
    one.others += (pod("other-9", on="n2", **({"annotations": marks(2)} | change)),)
    assert one.reason == "pod_group"


def test_the_largest_minimum_that_any_member_has_counts() -> None:
    """R2.2: a pod cannot lower the minimum of its gang."""
    one = gang(4, 4)
    one.pod["annotations"] = marks(2)
    assert one.detail == "gang apps/llama (Koordinator): 4 of 4 needed"
    other = gang(4, 4)
    other.others = (*other.others[:-1], replace(other.others[-1], annotations=marks(2)))
    assert other.detail == one.detail


def test_a_member_in_flight_does_not_count() -> None:
    """R2.2: minima hold over evictions of earlier cycles."""
    one = gang(3, 2)
    assert one.reason is None
    leaving = EvictionRecord(one.others[0].ref, "n2", "uid-other", NOW, certain("n1"))
    one.remember(evictions=(leaving,))
    assert one.detail == "gang apps/llama (Koordinator): 2 of 2 needed"


@pytest.mark.parametrize(
    ("running", "least", "detail"),
    [
        (8, 8, "gang apps/llama (Volcano): 8 of 8 needed"),
        (10, 6, None),
        (3, 1, None),
    ],
)
def test_the_object_of_a_group_says_how_many_stay(
    running: int, least: int, detail: str | None
) -> None:
    """R2.1, R2.2: a named group of Volcano, by its PodGroup."""
    named = {"scheduling.k8s.io/group-name": "llama"}
    one = Candidate(annotations=named)
    one.others = tuple(pod(f"other-{i}", on="n2", annotations=named) for i in range(running - 1))
    assert one.detail == "gang apps/llama (Volcano): how many pods it needs is not known"
    group = DeclaredGroup("Volcano", "apps", "llama", least)
    one.cluster["extras"] = GangObjects((group,)).extras
    assert one.finding() == (("pod_group", detail) if detail else None)


def test_no_annotation_of_the_pod_lifts_that() -> None:
    assert gang(8, 8).annotate("desched.io/evict", "true").reason == "pod_group"


def test_a_gang_that_no_pod_may_leave_refuses_beside_one_with_a_surplus() -> None:
    one = gang(10, 2).annotate("volcano.sh/job-name", "llama")
    assert one.detail == "gang apps/llama (Volcano Job): one eviction may restart the whole job"


def test_a_bare_pod_of_a_gang_is_refused_by_its_name() -> None:
    """R0.4: bare pods of SkyPilot are never evicted."""
    one = Candidate(owner=None, labels={"parent": "skypilot", "skypilot-cluster-name": "llama"})
    assert one.detail == "gang apps/llama (SkyPilot): nothing creates its pods again"


@pytest.mark.parametrize(
    ("value", "age_seconds", "detail"),
    [
        ("600s", 599, "599 s old, volcano.sh/cooldown-time 600 s"),
        ("600s", 600, None),
        ("soon", 86_400, "volcano.sh/cooldown-time: soon is no duration"),
    ],
)
def test_a_pod_younger_than_its_cool_down_stays(
    value: str, age_seconds: int, detail: str | None
) -> None:
    """R2.5: a cool-down that has not passed, or that is not understood."""
    started = NOW - timedelta(seconds=age_seconds)
    for where in ("labels", "annotations"):
        one = Candidate(started_at=started, **{where: {"volcano.sh/cooldown-time": value}})
        assert one.finding() == (("too_young", detail) if detail else None)


@pytest.mark.parametrize(
    ("replicas", "survives", "saves", "expected"),
    [
        (1, True, True, None),
        (1, True, False, "pod_group"),
        (2, True, True, "pod_group"),
        (1, False, True, "job_counts_eviction"),
    ],
)
def test_a_task_of_determined_leaves_only_if_it_saves_its_work_and_comes_back(
    replicas: int, expected: str | None, *, survives: bool, saves: bool
) -> None:
    """R4.5: the annotation lifts the protection of Determined AI, and no other."""
    one = Candidate(labels={"determined": "1.2f1c.1"})
    one.workload |= {"replicas": replicas, "survives_disruption": survives}
    one.protections["single_replicas"] = False
    if saves:
        one.annotate(CHECKPOINTS, "true")
    assert one.reason == expected
