"""The filters agree with the real kube-scheduler, node by node, on seeded random clusters.

`python -m drills.feasibility` is the long form.
"""

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.feasibility_trials import Trial

VICTIMS = 12


@pytest.mark.parametrize("seed", [2, 3])
def test_a_node_is_feasible_exactly_if_the_scheduler_binds_a_copy_there(
    control_plane: ControlPlane, seed: int
) -> None:
    trial = Trial(control_plane, seed)
    for number in range(VICTIMS):
        trial.probe(number)
    assert not trial.mismatches, "\n\n".join(trial.mismatches)
    assert 0 < trial.bound < trial.agreed
