import pytest

from desched.bootstrap.runs import Ending
from desched.cli import main
from desched.views.cycle import CycleView
from desched.views.pages.cycle_page import cycle_page
from tests.page_reader import Page
from tests.unit.service.example_reports import REPORT


@pytest.fixture
def reporting(run):
    """A run that has a report."""

    def with_report(*arguments, change):  # noqa: ARG001  (of the policy)
        for sink in arguments[4:]:
            sink(REPORT)
        return Ending()

    run.side_effect = with_report
    return run


@pytest.mark.usefixtures("reporting")
def test_the_report_of_a_plan_is_written_as_a_page_and_its_place_named(tmp_path, capsys):
    file = tmp_path / "plan.html"

    assert main(["plan", "--report", str(file)]) == 0

    assert file.read_text() == cycle_page(CycleView(REPORT, single=True))
    captured = capsys.readouterr()
    assert captured.err == f"desched: The report is in {file}\n"
    assert captured.out == ""


@pytest.mark.parametrize("place", ["", "nowhere/plan.html"])
def test_a_place_that_cannot_be_a_file_is_refused_before_anything_runs(
    run, tmp_path, capsys, place
):
    assert main(["plan", "--report", f"{tmp_path}/{place}"]) == 2
    assert "is no file in a folder that exists" in capsys.readouterr().err
    run.assert_not_called()


def test_a_name_that_no_file_can_have_is_refused_before_anything_runs(run, tmp_path, capsys):
    assert main(["plan", f"--report={tmp_path / ('a' * 300)}"]) == 2
    assert "desched: --report: cannot write" in capsys.readouterr().err
    run.assert_not_called()


@pytest.mark.usefixtures("reporting")
def test_a_file_that_cannot_be_written_is_a_sentence_and_a_code(capsys):
    assert main(["plan", "--report", "/dev/full"]) == 2
    assert "desched: --report: cannot write /dev/full (No space left on device)." in (
        capsys.readouterr().err
    )


def test_the_demo_can_end_with_a_page_of_what_it_did(tmp_path, capsys):
    file = tmp_path / "demo.html"

    assert main(["demo", "--report", str(file)]) == 0

    assert "with desched: " in Page(file.read_text()).text
    assert capsys.readouterr().err == f"desched: The report is in {file}\n"


def test_charts_need_their_library_and_say_so_before_anything_runs(mocker, tmp_path, capsys):
    mocker.patch("desched.cli.page_file.find_spec", autospec=True, return_value=None)
    demo = mocker.patch("desched.lab.demo.run_demo", autospec=True)

    assert main(["demo", "--report", str(tmp_path / "demo.html")]) == 2
    assert "pip install 'desched[report]'" in capsys.readouterr().err
    demo.assert_not_called()
