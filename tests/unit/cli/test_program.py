import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from desched import cli
from desched.bootstrap.runs import Ending
from desched.cli import main
from desched.commands import doctor
from desched.doctor.checks import CheckName, Diagnosis, ok, problem, unknown, warning
from desched.errors import ConfigurationError, ObservationError, ObservationSource


def test_a_run_that_ends_well_exits_0_with_the_settings_given(run):
    assert main(["--dry-run", "--policy", "policy.yaml"]) == 0
    settings = run.call_args.args[0]
    assert settings.dry_run
    assert str(settings.policy) == "policy.yaml"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("Mend the policy."), 2),
        (ObservationError(ObservationSource.CLUSTER, "The API server is away."), 3),
    ],
)
def test_an_error_that_is_understood_is_a_sentence_and_a_code(run, capsys, error, code):
    run.side_effect = error
    assert main([]) == code
    captured = capsys.readouterr()
    assert captured.err == f"desched: {error}\n"
    assert captured.out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_report_is_a_sentence_and_the_code_of_shells(run, capsys, number):
    run.return_value = Ending(cut_short_by=number)
    assert main(["--once"]) == 128 + number
    message = f"desched: Ended by {number.name} before the report; nothing was evicted.\n"
    assert capsys.readouterr().err == message


def test_an_interrupted_command_is_a_line_and_the_code_of_shells(command, capsys):
    command.side_effect = KeyboardInterrupt
    assert main(["status"]) == 130
    assert capsys.readouterr().err == "desched: Ended by SIGINT.\n"


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (ok(CheckName.NODES, "Well."), 0),
        (warning(CheckName.NODES, "Odd.", "Mend it."), 0),
        (problem(CheckName.NODES, "Bad.", "Mend it."), 3),
        (unknown(CheckName.NODES, "Unclear.", "Ask."), 3),
        (replace(problem(CheckName.POLICY, "Bad.", "Mend."), invalid_configuration=True), 2),
    ],
)
def test_the_doctor_ends_with_whether_it_is_safe_to_start(mocker, check, code):
    found = Diagnosis((check,))
    asked = mocker.patch.object(doctor, "diagnosed", autospec=True, return_value=found)

    assert main(["doctor", "--policy", "p.yaml", "--write-policy", "new.yaml", "--force"]) == code
    settings, output = asked.call_args.args
    assert str(settings.policy) == "p.yaml"
    assert (str(output.policy_file), output.force) == ("new.yaml", True)


def test_force_needs_a_file_to_replace(mocker, capsys):
    asked = mocker.patch.object(doctor, "diagnosed", autospec=True)
    assert main(["doctor", "--force"]) == 2
    assert "without --write-policy" in capsys.readouterr().err
    asked.assert_not_called()


def test_a_single_cycle_that_is_inconclusive_exits_3(run):
    run.return_value = Ending(inconclusive=True)
    assert main(["--once"]) == 3


def test_a_bug_is_one_line_and_exits_1(run, capsys):
    run.side_effect = KeyError("nodes")
    assert main([]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("desched: This is a bug in desched: KeyError: 'nodes'")


def test_each_wrong_setting_has_its_line(run, capsys):
    assert main(["--interval=5", "--output=xml"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    run.assert_not_called()


@pytest.mark.parametrize("flag", ["--policy=x", "--output=json", "--dry-run"])
def test_the_demo_takes_no_flags(flag, capsys):
    assert main(["demo", flag]) == 2
    assert f"{flag.partition('=')[0]}: the demo has its own" in capsys.readouterr().err


def test_without_a_policy_it_names_the_flag(capsys):
    assert main(["--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "--policy FILE (DESCHED_POLICY)" in error
    assert "policies/" in error


def test_a_reader_of_the_report_may_leave_early():
    program = (
        "import sys; from desched import cli\n"
        "def run(*_): sys.stdout.write('x' * 1_000_000); return runs.Ending()\n"
        "import desched.bootstrap.runs as runs; runs.run = run\n"
        "sys.exit(cli.main([]))"
    )
    _reads_ten_bytes_of(program)


def test_a_reader_of_the_demo_may_leave_early():
    program = (
        "import sys; from desched import cli\n"
        "def run_demo(console, *_):\n"
        "    for n in range(100_000): console.print('x' * 70)\n"
        "import desched.lab.demo as demo; demo.run_demo = run_demo\n"
        "sys.exit(cli.main(['demo']))"
    )
    _reads_ten_bytes_of(program)


def _reads_ten_bytes_of(program):
    with subprocess.Popen(  # noqa: S603  (our own interpreter and program)
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_an_output_that_cannot_be_written_is_no_bug(size):
    program = (
        "import sys; from desched import cli\n"
        f"def run(*_): sys.stdout.write('x' * {size}); sys.stdout.flush()\n"
        "import desched.bootstrap.runs as runs; runs.run = run\n"
        "sys.exit(cli.main([]))"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(  # noqa: S603  (our own interpreter and program)
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("desched: The output cannot be written (No space left on device)")
    assert len(done.stderr.splitlines()) == 1


def test_the_demo_is_a_command(mocker):
    demo = mocker.patch("desched.lab.demo.run_demo", autospec=True, return_value=0)
    assert cli.main(["demo"]) == 0
    demo.assert_called_once()


def test_an_output_without_letters_gets_question_marks(run, monkeypatch):
    output = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", output)
    run.side_effect = lambda *_: output.write("shop · é") and Ending()
    assert main(["--dry-run", "--policy", "policy.yaml"]) == 0
    assert output.buffer.getvalue() == b"shop ? ?"
