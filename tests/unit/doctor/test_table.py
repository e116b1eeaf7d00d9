"""The diagnosis as people and programs read it."""

import msgspec
import pytest
from msgspec.structs import replace

from desched.doctor.checks import CheckName, Diagnosis, ok, problem, skipped, unknown, warning
from desched.doctor.diagnosis import diagnose
from desched.doctor.table import DoctorReport, diagnosis_blocks, summary
from tests.builders import NOW
from tests.shown import json_of, text_of
from tests.unit.doctor.cases import CASES
from tests.unit.doctor.examinations import examination

FINE = ok(CheckName.API_SERVER, "It answers.")
ODD = warning(CheckName.BUDGETS, "Odd.", "Change `x`.", [f"detail {i}" for i in range(7)])
BAD = problem(CheckName.PROMETHEUS, "There is none.", "Set `metrics.address`.")
UNCLEAR = unknown(CheckName.CLUSTER, "Not read.", "Grant `it`.")


def report(*checks, **fields):
    found = DoctorReport(NOW, 'context "prod"', "policy.yaml", "dry_run", Diagnosis(checks))
    return msgspec.structs.replace(found, **fields)


def printed(found, width=80):
    return text_of(diagnosis_blocks(found), width)


def test_a_table_has_each_check_with_its_fix_and_the_answer_to_the_question():
    text = printed(report(FINE, BAD, ODD))

    assert text.splitlines()[0] == 'desched · doctor · context "prod"'
    assert "policy policy.yaml, dry run" in text
    assert "ok      api_server It answers." in text
    assert "problem prometheus There is none." in text
    assert "→ Set `metrics.address`." in text
    assert text.endswith("It is not safe to start desched here: 1 problem, 1 warning.\n")


def test_what_is_most_urgent_comes_last_and_what_was_skipped_is_one_row():
    lost = [skipped(name, "No answer.") for name in (CheckName.NODES, CheckName.CLOCKS)]
    text = printed(report(BAD, FINE, lost[0], ODD, UNCLEAR, lost[1]))

    verdicts = [line.split()[0] for line in text.splitlines() if line and line[0] in "sowup"]
    assert verdicts == ["skipped", "ok", "warning", "unknown", "problem"]
    assert "skipped 2 checks   No answer. (nodes, clocks)" in text
    assert "skipped nodes" in printed(report(lost[0]))


def test_details_are_shown_for_what_is_not_well_and_not_all_of_them():
    text = printed(report(ODD))
    assert "detail 4" in text
    assert "detail 5" not in text
    assert "… and 2 more; --output json has all" in text
    assert "detail" not in printed(report(ok(CheckName.NODES, "Well.", details=["detail"])))


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ((FINE,), "It is safe to start desched here (0 warnings)."),
        ((FINE, ODD), "It is safe to start desched here (1 warning)."),
        ((BAD, BAD, ODD), "It is not safe to start desched here: 2 problems, 1 warning."),
        ((UNCLEAR,), "It is not safe to start desched here: 0 problems, 1 unknown, 0 warnings."),
    ],
)
def test_the_summary_counts_what_stands_in_the_way(checks, said):
    assert summary(Diagnosis(checks)) == said


def test_json_has_every_field_of_every_check():
    found = report(FINE, ODD)
    document = json_of(found)

    assert document["safe_to_start"] is True
    assert document["checks"][1] == {
        "name": "budgets",
        "verdict": "warning",
        "found": "Odd.",
        "fix": "Change `x`.",
        "details": [f"detail {i}" for i in range(7)],
        "invalid_configuration": False,
    }


@pytest.mark.parametrize("width", [50, 80])
def test_only_a_word_that_is_kept_whole_makes_a_line_wider_than_the_terminal(width):
    for examined in (examination(), *(case.examined for case in CASES[::10])):
        checks = diagnose(examined).checks
        lines = printed(report(*checks), width).splitlines()
        assert all(len(line) <= width or len(line[30:].split()) == 1 for line in lines)
        assert {word for check in checks for word in check.fix.split()} <= set(
            "\n".join(lines).split()
        )


def test_what_is_found_of_several_checks_is_said_once_with_each_fix():
    names = CheckName.NODE_CPU, CheckName.NODE_MEMORY
    alike = [problem(name, "No series.", f"Set `{name}`.", ["detail"]) for name in names]

    text = printed(report(*alike))

    assert text.count("No series.") == text.count("detail") == 1
    assert "node_cpu    No series." in text
    assert "node_memory   detail" in text
    assert "→ Set `node_cpu`." in text
    assert "→ Set `node_memory`." in text
    assert printed(report(*(replace(each, fix="Wait.") for each in alike))).count("Wait.") == 1
