"""The examples of docs/report.md run on real documents and print what the page has."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from desched.lab.clock import VirtualClock
from desched.model.report import CycleReport
from desched.snapshot_file.load_check import own_policy
from desched.snapshot_file.report import report_of
from desched.snapshot_file.storage import load_snapshot
from desched.views.rendering import rendered
from tests.builders import NOW
from tests.repository import ROOT
from tests.shown import shown
from tests.stored_snapshots import STORED
from tests.unit.lab.test_backtest_view import replayed
from tests.unit.plugins.gpus import test_views as test_gpus
from tests.unit.service.example_reports import FOLLOWED_UP
from tests.unit.views.test_explanation import answer

PAGE = ROOT / "docs" / "report.md"


def planned() -> CycleReport:
    (path,) = STORED.glob("*.snapshot")
    content = load_snapshot(path)
    return report_of(content, own_policy(content, path.name), VirtualClock(NOW))


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    for name, text in {
        "plan": shown(planned(), "json"),
        "evicted": shown(FOLLOWED_UP, "json"),
        "gpus": shown(test_gpus.report(test_gpus.seen()), "json"),
        "explanation": rendered(answer("pod/demo/payments-1"), (), "json"),
        "backtest": rendered(replayed(), (), "json"),
    }.items():
        (folder / f"{name}.json").write_text(text)
    return folder


def examples() -> dict[str, str | None]:
    """Each command with jq, and what it prints if the page has that."""
    page = PAGE.read_text()
    silent = re.findall(r"^jq .+$", page, re.MULTILINE)
    printed = re.findall(r"^\$ (jq .+)\n((?:.+\n)+?)```", page, re.MULTILINE)
    return {**dict.fromkeys(silent), **dict(printed)}


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize("command", examples())
def test_an_example_prints_what_the_page_has(command: str, documents: Path) -> None:
    ran = subprocess.run(  # noqa: S603  (the commands of the page)
        shlex.split(command), cwd=documents, text=True, capture_output=True, check=True
    )

    assert ran.stdout.strip()
    assert examples()[command] in {None, ran.stdout}


def test_the_page_has_examples_of_both_kinds() -> None:
    outputs = list(examples().values())

    assert len(outputs) > outputs.count(None) > 5
