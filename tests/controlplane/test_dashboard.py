"""Every query of the dashboard finds something in the metrics of a service at work."""

import json
from pathlib import Path
from typing import Any

import pytest

from desched.model.report import Mode
from desched.service.telemetry.metrics import ServiceMetrics
from tests.controlplane.binaries import find_or_build
from tests.controlplane.chart_rendering import DASHBOARD, run
from tests.unit.service.example_reports import FOLLOWED_UP

MINUTES = 70


def queries() -> dict[str, str]:
    """What each line of a panel asks, without the filters that leave out what is zero."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return {
        f"{panel['title']} {target['refId']}": target["expr"].replace(" > 0", "")
        for panel in panels
        for target in panel.get("targets", ())
    }


def exposed() -> list[dict[str, str]]:
    """What a service exposes, for an hour, as promtool has it."""
    metrics = ServiceMetrics(Mode.EVICT)
    metrics.leadership_changed(leading=True)
    metrics.cycle_completed(FOLLOWED_UP)
    lines = metrics.exposition().decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return [{"series": name, "values": f"{value}x{MINUTES}"} for name, value in samples]


@pytest.mark.usefixtures("binaries")
def test_no_panel_is_empty_while_a_service_is_at_work(tmp_path: Path) -> None:
    """A query that finds something is an alert that fires."""
    rules = [{"alert": name, "expr": f"count({query}) > 0"} for name, query in queries().items()]
    fires: dict[str, Any] = {"exp_labels": {}, "exp_annotations": {}}
    end = f"{MINUTES}m"
    asked = [{"eval_time": end, "alertname": name, "exp_alerts": [fires]} for name in queries()]
    hour = {"interval": "1m", "input_series": exposed(), "alert_rule_test": asked}
    files = {
        "rules.yaml": {"groups": [{"name": "dashboard", "rules": rules}]},
        "tests.yaml": {"rule_files": ["rules.yaml"], "tests": [hour]},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))

    assert len(asked) > 20
    run(find_or_build(["promtool"])["promtool"], "test", "rules", tmp_path / "tests.yaml")
