"""What the documents say is true of the code, where that can be checked."""

import json
import re
from pathlib import Path

import pytest
import yaml

from desched.cli import ExitCode
from desched.model.report import Mode
from desched.service.telemetry.metrics import ServiceMetrics
from desched.settings import Settings, variable_of
from tests.chart_reference import ALERTS, RUNBOOKS, with_alerts
from tests.documented_commands import documented_commands
from tests.permission_tables import PERMISSIONS, with_permissions
from tests.repository import ROOT
from tests.unit.service.example_reports import FOLLOWED_UP

DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("deploy/**/*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("drills/*.md"),
        *ROOT.glob("policies/*.md"),
        *ROOT.glob("tests/**/*.md"),
    ]
)


def targets(document: Path) -> list[str]:
    """Links to other files of the project and to headings."""
    links = re.findall(r"\]\(([^)\s]+)\)", document.read_text())
    return [link for link in links if not link.startswith("https://")]


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in targets(document):
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_every_module_that_the_architecture_names_is_there() -> None:
    named = re.findall(r"`([a-z_/]+(?:\*)?\.py)`", (ROOT / "docs" / "architecture.md").read_text())

    assert named
    for name in named:
        assert list((ROOT / "desched").glob(name)), name


def test_every_file_that_contributing_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`(?:[^`]* )?((?:desched|tests|docs)/[\w/.]+)`", text)

    assert {"desched/wording/reasons.toml", "tests/unit/test_cycle.py"} <= {
        path.rstrip("/") for path in named
    }
    for path in named:
        assert (ROOT / path).exists(), path


def test_every_test_that_the_threat_model_names_is_there() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text()
    rows = re.findall(r"^\| (?!attempt|who).+\| (.+) \|$", text, re.MULTILINE)
    named = re.findall(r"`((?:unit|controlplane|properties)/[\w/.]+)`", "".join(rows))

    assert len(named) > 30
    for path in named:
        assert (ROOT / "tests" / path).exists(), path


def operations() -> str:
    return (ROOT / "docs" / "operations.md").read_text()


def reference() -> str:
    return (ROOT / "docs" / "operations-reference.md").read_text()


def test_the_documented_permissions_are_the_required_ones() -> None:
    tables = re.findall(r"<!-- rights of (.+?) -->", reference())

    assert sorted(tables) == sorted(PERMISSIONS)
    assert with_permissions(reference()) == reference(), "run `make generated`"


def exposed_metrics() -> set[str]:
    metrics = ServiceMetrics(Mode.EVICT)
    metrics.leadership_changed(leading=True)
    metrics.cycle_completed(FOLLOWED_UP)
    types = re.findall(r"^# TYPE (desched_\S+)", metrics.exposition().decode(), re.MULTILINE)
    return {name for name in types if not name.endswith("_created")}


def test_the_documented_metrics_are_the_exposed_ones() -> None:
    described = reference().partition("## Metrics")[2]

    assert set(re.findall(r"^\| `(desched_\w+)`", described, re.MULTILINE)) == exposed_metrics()
    assert set(re.findall(r"\bdesched_\w+", operations() + reference())) <= exposed_metrics()


def test_the_alerts_are_about_exposed_metrics() -> None:
    rules = yaml.safe_load(ALERTS.read_text())
    alerts = rules["spec"]["groups"][0]["rules"]

    assert len({alert["alert"] for alert in alerts}) == len(alerts)
    for alert in alerts:
        assert set(re.findall(r"\bdesched_\w+", alert["expr"])) <= exposed_metrics()
        assert set(alert["annotations"]) == {"summary", "action"}


def test_every_alert_has_a_section_that_its_runbook_url_leads_to() -> None:
    rules = yaml.safe_load(ALERTS.read_text())
    alerts = [rule["alert"] for rule in rules["spec"]["groups"][0]["rules"]]

    assert with_alerts(reference()) == reference(), "run `make generated`"
    assert {name.lower() for name in alerts} <= anchors(RUNBOOKS)


def test_the_dashboard_is_about_exposed_metrics() -> None:
    dashboard = json.loads((ROOT / "deploy/chart/dashboards/desched.json").read_text())
    queries = [target["expr"] for p in dashboard["panels"] for target in p.get("targets", ())]
    parts = {f"{name}_bucket" for name in exposed_metrics()}

    assert len(queries) > 20
    for query in queries:
        assert set(re.findall(r"\bdesched_\w+", query)) <= exposed_metrics() | parts


def test_every_exit_code_is_documented() -> None:
    documented = reference().partition("## Exit codes")[2].partition("\n## ")[0]

    assert re.findall(r"^\| (\d) \|", documented, re.MULTILINE) == [
        str(code.value) for code in sorted(ExitCode)
    ]


def test_every_variable_that_is_documented_is_a_setting() -> None:
    known = {variable_of(name) for name in Settings.model_fields}

    assert set(re.findall(r"\bDESCHED_\w+", operations())) <= known


@pytest.mark.parametrize("record", sorted(ROOT.glob("docs/decisions/*.md")), ids=lambda p: p.stem)
def test_every_decision_has_a_number_a_date_and_a_status(record: Path) -> None:
    number = int(record.stem[:4])
    status = r"(accepted|removed|superseded by \[\d+\])"
    head = rf"# {number}\. .+\n\nDate: \d{{4}}-\d\d-\d\d\. Status: {status}"

    assert re.match(head, record.read_text())


def test_what_is_installed_runs_the_policy_that_was_tried() -> None:
    tried = documented_commands("README.md", "Try it")
    (installed,) = (
        each for each in documented_commands("README.md", "Run it") if "helm install" in each
    )

    (written,) = re.findall(r"--write-policy (\S+)", " ".join(tried))
    assert f"plan --policy {written}" in " ".join(tried)
    assert f"--set-file policy={written}" in installed
