"""A gang that leaves whole is on no node before the first of its pods is placed again."""

import numpy as np
import pytest
from msgspec.structs import replace

from desched.model.cluster import Pod, PodAffinityTerm, SpreadConstraint
from desched.model.resources import Amounts
from desched.planning.kube_scheduler.scores.cluster_view import (
    ALTERNATIVES,
    LeavingPod,
    SchedulerView,
)
from desched.planning.kube_scheduler.scores.total import plugin_scores, total_scores
from desched.policy.schedulers import SchedulerRules
from tests.unit.planning.landing_cluster import by_label, cluster, having, node, pod

HOSTNAME = "kubernetes.io/hostname"
OF_WEB = PodAffinityTerm(HOSTNAME, by_label("app", "web"), weight=50)
EVENLY = SpreadConstraint(HOSTNAME, 1, hard=False, selector=by_label("app", "web"))
LARGE = Amounts(1000, 2**30, pods=1)
GATHERED = having(
    requests=LARGE, scored_cpu_millicores=1000, preferred_pod_affinity=(OF_WEB,), spread=(EVENLY,)
)
STATE = cluster(
    [node("a"), node("b", cores=8), node("c")],
    [
        pod("web-1", "a", scheduling=GATHERED, app="web"),
        pod("web-2", "b", scheduling=GATHERED, app="web"),
        pod("cache-1", "c", scheduling=GATHERED, app="cache"),
    ],
)
FIRST, SECOND, OTHER = STATE.pods


def view_of(*pods: Pod) -> SchedulerView:
    return SchedulerView(replace(STATE, pods=pods), SchedulerRules())


def scores(leaving: LeavingPod, view: SchedulerView) -> dict[str, list[int]]:
    found = plugin_scores(leaving, view, np.ones(3, dtype=bool))
    return {plugin: np.unique(row.reshape(-1, 3), axis=0).tolist() for plugin, row in found.items()}


def test_all_its_pods_are_gone_when_the_first_is_placed() -> None:
    both = [LeavingPod(FIRST, 0, gone=True), LeavingPod(SECOND, 1, gone=True)]
    left = view_of(FIRST, SECOND, OTHER).without(both)
    away = LeavingPod(FIRST, 0, gone=True, away=True)

    assert scores(away, left) == scores(both[0], view_of(FIRST, OTHER))
    assert left.fits(away).all()


def test_a_pod_that_was_placed_again_counts_there_alone() -> None:
    both = [LeavingPod(FIRST, 0, gone=True), LeavingPod(SECOND, 1, gone=True)]
    left = view_of(FIRST, SECOND, OTHER).without(both)
    placed = left.moved(LeavingPod(FIRST, 0, gone=True, away=True), np.array([[0.0, 0.0, 1.0]]))
    away = LeavingPod(SECOND, 1, gone=True, away=True)

    there = view_of(replace(FIRST, node="c"), SECOND, OTHER)
    assert scores(away, placed) == scores(both[1], there)
    assert scores(LeavingPod(OTHER, 2, gone=True), placed) == scores(
        LeavingPod(OTHER, 2, gone=True), view_of(replace(FIRST, node="c"), OTHER)
    )


def test_steps_of_any_size_through_the_alternatives_reach_all_of_them() -> None:
    for count in ALTERNATIVES:
        for step in range(1, count):
            assert len({step * i % count for i in range(count)}) == count


ANYWHERE = np.array([True, True, True])
BEFORE = view_of(FIRST, SECOND, OTHER)
STEERED = BEFORE.with_steered(np.array([False, True, False]))
MOVED = BEFORE.moved(LeavingPod(SECOND, 1, gone=True), np.array([[0.0, 0.0, 1.0]]))


@pytest.mark.parametrize("feasible", [ANYWHERE, np.array([False, True, True])])
@pytest.mark.parametrize("view", [STEERED, MOVED], ids=["steered", "moved"])
def test_known_scores_change_no_others(view: SchedulerView, feasible: np.ndarray) -> None:
    leaving = LeavingPod(FIRST, 0, gone=False)
    known = total_scores(leaving, BEFORE, ANYWHERE)
    found = total_scores(leaving, view, feasible, scored=known)
    assert found.total.tolist() == total_scores(leaving, view, feasible).total.tolist()


def test_scores_are_kept_where_only_soft_taints_differ() -> None:
    leaving = LeavingPod(FIRST, 0, gone=False)
    known = total_scores(leaving, BEFORE, ANYWHERE)
    found = total_scores(leaving, STEERED, ANYWHERE.copy(), scored=known)
    assert found.besides_taints is known.besides_taints
    assert found.total.tolist() != known.total.tolist()
