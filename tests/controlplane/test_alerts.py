"""The alerts in deploy/alerts.yaml are rules that Prometheus takes."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.controlplane.binaries import find_or_build

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yaml"


@pytest.mark.usefixtures("binaries")
def test_prometheus_takes_every_alert(tmp_path: Path) -> None:
    groups = yaml.safe_load(ALERTS.read_text())["spec"]["groups"]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": groups}))
    checked = subprocess.run(
        [find_or_build(["promtool"])["promtool"], "check", "rules", "--lint=all", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(groups[0]["rules"]) > 15
    assert checked.returncode == 0, checked.stdout + checked.stderr
