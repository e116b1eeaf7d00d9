"""The soak in its short form: a few minutes of churn and faults, and no harm done."""

from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.soak import soak
from tests.controlplane.soak_form import MINUTES
from tests.controlplane.soak_report import figures

SEED = 74
"""Leads to faults of every sort, and to a killed replica early enough to see its successor age."""


def test_churn_and_faults_lead_to_no_harm(control_plane: ControlPlane, tmp_path: Path) -> None:
    outcome = soak(MINUTES, SEED, control_plane, tmp_path)
    assert not outcome.problems, figures(outcome)
