"""The landing forecast beside the real kube-scheduler, on random clusters (short form).

`python -m drills.landing` is the long form.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.landing_trials import Trial, Trials
from tests.controlplane.random_clusters import build, random_cluster
from tests.controlplane.scheduler_log import SCORES_FLAGS
from tests.controlplane.soft_taints import SoftTaints, with_soft_taints

EVICTIONS = 15
AT_ONCE = 5


@pytest.fixture(scope="module")
def scoring_control_plane(binaries: dict[str, Path]) -> Iterator[ControlPlane]:
    """One whose scheduler logs its scores."""
    with ControlPlane(binaries, SCORES_FLAGS) as control_plane:
        yield control_plane


@pytest.fixture(scope="module", params=["heterogeneous", "homogeneous"])
def trials(
    request: pytest.FixtureRequest, scoring_control_plane: ControlPlane
) -> Iterator[tuple[list[Trial], list[Trial]]]:
    """Evictions one by one, and groups of them, in a cluster of each kind with soft taints."""
    homogeneous = request.param == "homogeneous"
    cluster = with_soft_taints(random_cluster(seed=3, homogeneous=homogeneous), seed=3)
    build(scoring_control_plane, cluster)
    taints = SoftTaints(scoring_control_plane, seed=3)
    running = Trials(scoring_control_plane, cluster, 3, taints)
    yield list(running.run(EVICTIONS)), list(running.run(EVICTIONS, AT_ONCE))
    scoring_control_plane.reset()


def test_every_node_gets_the_score_that_the_scheduler_gives_it(
    trials: tuple[list[Trial], list[Trial]],
) -> None:
    singles, _ = trials
    assert sum(len(trial.scored) for trial in singles) > EVICTIONS
    assert any(trial.steered for trial in singles)
    assert not [str(trial) for trial in singles if trial.differences()]


def test_the_same_nodes_are_feasible_as_in_the_scheduler(
    trials: tuple[list[Trial], list[Trial]],
) -> None:
    singles, _ = trials
    assert not [str(t) for t in singles if t.scored and t.scored != t.feasible]


def test_replacements_land_where_they_are_expected(
    trials: tuple[list[Trial], list[Trial]],
) -> None:
    singles, _ = trials
    assert not [str(trial) for trial in singles if not trial.is_covered]


def test_of_several_evictions_at_once_each_lands_where_it_is_expected(
    trials: tuple[list[Trial], list[Trial]],
) -> None:
    _, groups = trials
    missed = [str(trial) for trial in groups if not trial.is_covered]
    assert len(missed) <= EVICTIONS // 10, missed
