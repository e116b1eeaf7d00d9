"""The soak in its short form: a few minutes of churn and faults, and no harm done."""

from pathlib import Path

from tests.controlplane.soak import soak
from tests.controlplane.soak_form import MINUTES
from tests.controlplane.soak_report import figures

SEED = 74
"""Leads to faults of every sort, and to a killed replica early enough to see its successor age."""


def test_churn_and_faults_lead_to_no_harm(binaries: dict[str, Path], tmp_path: Path) -> None:
    outcome = soak(MINUTES, SEED, binaries, tmp_path)
    assert not outcome.problems, figures(outcome)
