"""What holds for each view: its texts are harmless, programs read the same, and it fits."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError
from msgspec.structs import replace

from desched.doctor.table import DoctorReport, diagnosis_blocks
from desched.lab.comparison import backtest_view, backtests_blocks, simulation_view
from desched.lab.figures import Backtests, ClusterBacktest
from desched.policy_file.difference import policy_differences
from desched.ports import LeaseRecord
from desched.views.blocks import Block
from desched.views.comparison import Comparison
from desched.views.comparison_table import comparison_blocks
from desched.views.cycle import CycleView
from desched.views.cycle_table import cycle_blocks
from desched.views.explanation import explanation_blocks
from desched.views.policy_differences import PolicyComparison, difference_blocks
from desched.views.rendering import rendered
from desched.views.review import history_blocks, review_view
from desched.views.status import Status, status_blocks
from tests.properties.outputs import FORMATS, harmless
from tests.report_reference import SCHEMA, schema
from tests.shown import json_of, text_of
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
    blocks: Callable[[Any], Iterable[Block]]
    version: str | None
    narrowest: int = 40
    view: Callable[[Any], Any] = lambda value: value

    def hostile(self) -> Any:
        """The value with every text hostile but those that are codes."""
        value = self.value()
        codes = {"mode": value.mode} if isinstance(value, DoctorReport) else {}
        return replace(poisoned(value), **codes) if codes else poisoned(value)

    def parts(self, value: Any) -> tuple[Any, Iterable[Block]]:
        """What programs read, and what people do."""
        view = self.view(value)
        return view, self.blocks(view)

    def text(self, value: Any, width: int) -> str:
        """What a terminal of this width gets."""
        return text_of(self.blocks(self.view(value)), width)


def cycle(value: Any) -> Shown:
    return Shown(lambda: with_all(value), cycle_blocks, "report/v2", 60, CycleView)


def status() -> Status:
    lease = LeaseRecord("desched-0", 15, 1, STARTED_AT, STARTED_AT, "7")
    state, place = FOLLOWED_UP.state, "ConfigMap desched-system/desched-state"
    return Status(STARTED_AT, "here", place, state, "a problem", lease, "another")


def differences() -> PolicyComparison:
    cautious = OWN.replace("node: 5", "node: 1")
    rows = policy_differences(policy(), policy(cautious))
    return PolicyComparison(tuple(rows), compared("node: 5", "node: 1"))


def of(view: Callable[[Any], Comparison]) -> Callable[[Any], Iterable[Block]]:
    return lambda value: comparison_blocks(view(value))


VIEWS = {
    "cycle": cycle(FOLLOWED_UP),
    "held cycle": cycle(HELD),
    "status": Shown(status, status_blocks, "status/v1"),
    **{
        question: Shown(partial(answer, question), explanation_blocks, "explanation/v2")
        for question in QUESTIONS
    },
    "simulation": Shown(simulated, of(simulation_view), "simulation/v1"),
    "backtest": Shown(replayed, of(backtest_view), "backtest/v1"),
    "backtests": Shown(
        lambda: Backtests(clusters=(ClusterBacktest("prod", replayed()),)),
        backtests_blocks,
        "backtests/v1",
    ),
    "review": Shown(lambda: DRY, of(review_view), "review/v1"),
    "history": Shown(lambda: EVICTING.moves, history_blocks, None),
    "differences": Shown(differences, difference_blocks, None),
    "diagnosis": Shown(lambda: report(FINE, ODD, BAD, UNCLEAR), diagnosis_blocks, "doctor/v1"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_no_text_in_it_moves_the_cursor_or_is_markup(name: str) -> None:
    shown = VIEWS[name]
    hostile = shown.hostile()

    for form in FORMATS:
        harmless(rendered(*shown.parts(hostile), form))
    text = shown.text(hostile, 200)
    harmless(text)
    assert "[bold]" in text


@pytest.mark.parametrize("name", VIEWS)
def test_json_and_yaml_have_the_same_content(name: str) -> None:
    shown = VIEWS[name]
    view = shown.view(shown.value())
    document = json_of(view)

    assert document == yaml.safe_load(rendered(view, (), "yaml"))
    assert shown.version is None or document["version"] == f"desched.io/{shown.version}"


IN_SCHEMA = sorted(VIEWS.keys() - {"status", "differences", "diagnosis"})


@pytest.mark.parametrize("name", IN_SCHEMA)
def test_json_is_what_the_schema_has_and_nothing_else(name: str) -> None:
    shown = VIEWS[name]
    document = json_of(shown.view(shown.value()))

    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    Draft202012Validator(without_further_fields()).validate(document)


@pytest.mark.parametrize(
    "change", [{"result": "fine"}, {"cycle": "7"}, {"version": "v0"}, {"plan": {}}]
)
def test_the_schema_refuses_another_document_and_names_the_field(change: dict[str, Any]) -> None:
    view = CycleView(FOLLOWED_UP)
    document = json_of(view) | change

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
    piped = rendered(*shown.parts(shown.value()), "table")
    assert all(line == line.rstrip() for line in piped.splitlines())
