"""The landing forecast beside the real kube-scheduler, on random clusters (short form).

`python -m benchmarks.landing` is the long form.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.landing_trials import SCORES_FLAGS, Trial, Trials
from tests.controlplane.random_clusters import build, random_cluster

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
    """Evictions one by one, and groups of them, in a cluster of each kind."""
    cluster = random_cluster(seed=3, homogeneous=request.param == "homogeneous")
    build(scoring_control_plane, cluster)
    running = Trials(scoring_control_plane, cluster, seed=3)
    yield list(running.run(EVICTIONS)), list(running.run(EVICTIONS, AT_ONCE))
    scoring_control_plane.reset()


def test_every_node_gets_the_score_that_the_scheduler_gives_it(
    trials: tuple[list[Trial], list[Trial]],
) -> None:
    singles, _ = trials
    assert sum(len(trial.scored) for trial in singles) > EVICTIONS
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
