"""The linters of others accept the pipelines and the chart."""

import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.chart_rendering import renderer
from tests.repository import ROOT


def complaints(*command: str | Path) -> str:
    """What a linter says, empty if it finds nothing."""
    beside = [str(Path(sys.executable).parent), str(renderer("helm").parent)]
    path = os.pathsep.join([*beside, os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_actionlint_accepts_the_pipelines(linters: dict[str, Path]) -> None:
    pipelines = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

    assert pipelines
    assert complaints(linters["actionlint"], "-no-color", *pipelines) == ""


def test_chart_testing_accepts_the_chart(linters: dict[str, Path]) -> None:
    assert complaints(linters["ct"], "lint", "--config", ".github/ct.yaml") == ""


def test_chart_testing_finds_what_is_wrong(linters: dict[str, Path], tmp_path: Path) -> None:
    chart = tmp_path / "desched"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: desched\nversion: 0.1.0\n")
    (chart / "values.yaml").write_text("{}\n")

    found = complaints(linters["ct"], "lint", "--config", ".github/ct.yaml", "--charts", chart)
    assert "description: Required field missing" in found
