"""The file of results: what a run writes, and what the next one takes from it."""

from pathlib import Path

import msgspec
import pytest

from desched.errors import ConfigurationError
from desched.whatif.past.run import Span
from desched.whatif.tuning.replays import Played, Score
from desched.whatif.tuning.results import Question, open_results
from desched.whatif.tuning.search import Tried
from tests.unit.whatif.past.pasts import at

QUESTION = Question(
    policy="abc",
    varied=("stopMargin=4..6",),
    since="7d",
    until="now",
    interval_seconds=300.0,
    step_seconds=300,
)
SPAN = Span(at(0), at(12))
TRIED = Tried({"windows.cpu": ["5m", "15m"], "stopMargin": 4}, Played((Score(1.0, 2.0, 3),)))


def test_the_next_run_has_the_results_and_the_time_of_the_first(tmp_path) -> None:
    path = tmp_path / "results"
    first = open_results(path, QUESTION, SPAN)
    assert first.tried == ()
    first.add(TRIED)
    later = open_results(path, QUESTION, Span(at(3), at(15)))
    assert later.tried == (TRIED,)
    assert later.span == SPAN


def test_half_a_line_of_a_killed_run_is_dropped(tmp_path) -> None:
    path = tmp_path / "results"
    open_results(path, QUESTION, SPAN).add(TRIED)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-20:-1])
    open_results(path, QUESTION, SPAN).add(TRIED)
    assert open_results(path, QUESTION, SPAN).tried == (TRIED, TRIED)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policy": "other"}, "the policy differs"),
        ({"varied": ()}, "what varies differs"),
        ({"since": "8d"}, "--since differs"),
        ({"step_seconds": 60}, "--step differs"),
    ],
)
def test_results_of_another_search_are_refused(tmp_path, changes, said) -> None:
    open_results(tmp_path / "results", QUESTION, SPAN)
    other = msgspec.structs.replace(QUESTION, **changes)
    with pytest.raises(ConfigurationError, match=said):
        open_results(tmp_path / "results", other, SPAN)


@pytest.mark.parametrize("content", ["hello\n", "{}\n", "no end"])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path, content) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match="no file of results"):
        open_results(path, QUESTION, SPAN)
    assert path.read_text() == content


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used"):
        open_results(tmp_path / "nowhere" / "results", QUESTION, SPAN)
