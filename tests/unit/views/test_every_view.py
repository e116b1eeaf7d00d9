"""What holds for each view: its texts are harmless, programs read the same, and it fits."""

import io
import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError
from msgspec.structs import replace
from rich.console import Console

from desched.doctor.table import DoctorReport, print_diagnosis
from desched.lab.comparison import print_backtest, print_backtests, print_simulation
from desched.lab.figures import Backtests, ClusterBacktest
from desched.policy_file.difference import policy_differences
from desched.ports import LeaseRecord
from desched.views.cycle import CycleView
from desched.views.cycle_table import print_cycle
from desched.views.explanation import print_explanation
from desched.views.policy_differences import PolicyComparison, print_differences
from desched.views.rendering import Printer, rendered
from desched.views.review import print_history, print_review
from desched.views.status import Status, print_status
from tests.properties.outputs import FORMATS, harmless
from tests.report_reference import SCHEMA, schema
from tests.unit.doctor.test_table import BAD, FINE, ODD, UNCLEAR, report
from tests.unit.lab.test_backtest_view import replayed
from tests.unit.lab.test_simulation_view import simulated
from tests.unit.service.example_reports import FOLLOWED_UP, HELD, STARTED_AT
from tests.unit.service.test_adversarial_outputs import poisoned, with_all
from tests.unit.snapshot_file.test_comparison import OWN, compared, policy
from tests.unit.views.test_explanation import QUESTIONS, answer
from tests.unit.views.test_review import DRY, EVICTING


class Shown(NamedTuple):
    """What is shown, how, and the narrowest terminal for which it is made."""

    value: Callable[[], Any]
    print_table: Printer[Any]
    version: str | None
    narrowest: int = 40
    view: Callable[[Any], Any] = lambda value: value

    def hostile(self) -> Any:
        """The value with every text hostile but those that are codes."""
        value = self.value()
        codes = {"mode": value.mode} if isinstance(value, DoctorReport) else {}
        return replace(poisoned(value), **codes) if codes else poisoned(value)

    def text(self, value: Any, width: int) -> str:
        """What a terminal of this width gets."""
        stream = io.StringIO()
        self.print_table(self.view(value), Console(file=stream, width=width, color_system=None))
        return stream.getvalue()


def cycle(value: Any) -> Shown:
    return Shown(lambda: with_all(value), print_cycle, "report/v2", 60, CycleView)


def status() -> Status:
    lease = LeaseRecord("desched-0", 15, 1, STARTED_AT, STARTED_AT, "7")
    state, place = FOLLOWED_UP.state, "ConfigMap desched-system/desched-state"
    return Status(STARTED_AT, "here", place, state, "a problem", lease, "another")


def differences() -> PolicyComparison:
    cautious = OWN.replace("node: 5", "node: 1")
    rows = policy_differences(policy(), policy(cautious))
    return PolicyComparison(tuple(rows), compared("node: 5", "node: 1"))


VIEWS = {
    "cycle": cycle(FOLLOWED_UP),
    "held cycle": cycle(HELD),
    "status": Shown(status, print_status, "status/v1"),
    **{
        question: Shown(partial(answer, question), print_explanation, "explanation/v2")
        for question in QUESTIONS
    },
    "simulation": Shown(simulated, print_simulation, "simulation/v1"),
    "backtest": Shown(replayed, print_backtest, "backtest/v1"),
    "backtests": Shown(
        lambda: Backtests(clusters=(ClusterBacktest("prod", replayed()),)),
        print_backtests,
        "backtests/v1",
    ),
    "review": Shown(lambda: DRY, print_review, "review/v1"),
    "history": Shown(lambda: EVICTING.moves, print_history, None),
    "differences": Shown(differences, print_differences, None),
    "diagnosis": Shown(lambda: report(FINE, ODD, BAD, UNCLEAR), print_diagnosis, "doctor/v1"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_no_text_in_it_moves_the_cursor_or_is_markup(name: str) -> None:
    shown = VIEWS[name]
    hostile = shown.hostile()

    for form in FORMATS:
        harmless(rendered(shown.view(hostile), shown.print_table, form))
    text = shown.text(hostile, 200)
    harmless(text)
    assert "[bold]" in text


@pytest.mark.parametrize("name", VIEWS)
def test_json_and_yaml_have_the_same_content(name: str) -> None:
    shown = VIEWS[name]
    view = shown.view(shown.value())
    document = json.loads(rendered(view, shown.print_table, "json"))

    assert document == yaml.safe_load(rendered(view, shown.print_table, "yaml"))
    assert shown.version is None or document["version"] == f"desched.io/{shown.version}"


IN_SCHEMA = sorted(VIEWS.keys() - {"status", "differences", "diagnosis"})


@pytest.mark.parametrize("name", IN_SCHEMA)
def test_json_is_what_the_schema_has_and_nothing_else(name: str) -> None:
    shown = VIEWS[name]
    document = json.loads(rendered(shown.view(shown.value()), shown.print_table, "json"))

    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    Draft202012Validator(without_further_fields()).validate(document)


@pytest.mark.parametrize(
    "change", [{"result": "fine"}, {"cycle": "7"}, {"version": "v0"}, {"plan": {}}]
)
def test_the_schema_refuses_another_document_and_names_the_field(change: dict[str, Any]) -> None:
    view = CycleView(FOLLOWED_UP)
    document = json.loads(rendered(view, print_cycle, "json")) | change

    with pytest.raises(ValidationError) as refused:
        Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert list(refused.value.path) == list(change)


def without_further_fields() -> dict[str, Any]:
    strict = schema()
    for each in strict["$defs"].values():
        if "properties" in each:
            each["additionalProperties"] = False
    return strict


@pytest.mark.parametrize("name", VIEWS)
def test_no_line_is_wider_than_the_terminal_and_a_piped_one_has_no_trailing_blanks(
    name: str,
) -> None:
    shown = VIEWS[name]

    for width in (shown.narrowest, 80, 200):
        assert max(map(len, shown.text(shown.value(), width).splitlines())) <= width
    piped = rendered(shown.view(shown.value()), shown.print_table, "table")
    assert all(line == line.rstrip() for line in piped.splitlines())
