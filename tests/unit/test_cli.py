import signal
import subprocess
import sys
from pathlib import Path

import pytest

from desched import __version__, cli
from desched.bootstrap.runs import Ending
from desched.cli import COMMANDS, FLAGS, main, parse
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.settings import Settings, flag_of, load_settings, option_of, variable_of
from tests.unit.test_settings import EXAMPLES, example

FIELDS = [n for n, f in Settings.model_fields.items() if not option_of(f).environment_only]
SECRETS = [n for n, f in Settings.model_fields.items() if option_of(f).environment_only]


def parsed(*arguments):
    given = parse(arguments)
    given.pop("command")
    return given


@pytest.fixture
def run(mocker):
    """What the command line starts, without any cluster."""
    return mocker.patch("desched.bootstrap.runs.run", autospec=True, return_value=Ending())


# --- flags are settings ----------------------------------------------------------------------


@pytest.mark.parametrize("name", FIELDS)
def test_every_flag_sets_its_field_as_its_variable_does(name, monkeypatch):
    text, _ = example(name)
    if name == "timezone":  # the flag alone would mean nothing
        monkeypatch.setenv("DESCHED_CRON", "@hourly")
    by_flag = load_settings(parsed(f"{flag_of(name)}={text}"))
    monkeypatch.setenv(variable_of(name), text)
    assert by_flag == load_settings(parsed())
    assert by_flag.given(name)


@pytest.mark.parametrize(
    "name", [name for name in FIELDS if EXAMPLES.get(name, ("", 0))[1] is True]
)
def test_switches_need_no_value(name):
    assert load_settings(parsed(flag_of(name))).given(name)


def test_a_switch_can_be_turned_off_against_the_environment(monkeypatch):
    monkeypatch.setenv("DESCHED_DRY_RUN", "true")
    assert load_settings(parsed()).dry_run
    assert not load_settings(parsed("--dry-run=false")).dry_run


def test_a_flag_that_is_not_given_leaves_the_value_of_the_environment(monkeypatch):
    monkeypatch.setenv("DESCHED_OUTPUT", "json")
    assert load_settings(parsed("--once")).output == "json"
    assert load_settings(parsed("--output", "yaml")).output == "yaml"


@pytest.mark.parametrize(
    ("alias", "flag", "value"),
    [
        ("--policy-config-file", "--policy", "policy.yaml"),
        ("--descheduling-interval", "--interval", "5m"),
        ("--descheduling-interval-cron-expression", "--cron", "*/10 * * * *"),
    ],
)
def test_the_flags_of_the_upstream_deschedulers_are_accepted(alias, flag, value):
    assert parsed(alias, value) == parsed(flag, value)


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("joint", ["=", " "])
def test_no_secret_is_an_argument_and_none_is_repeated(name, joint, capsys):
    assert main(f"{flag_of(name)}{joint}s3cr3t --dry-run".split()) == 2
    error = capsys.readouterr().err
    assert "not accepted as an argument" in error
    assert f"set {variable_of(name)}" in error
    assert "s3cr3t" not in error


def test_instead_of_a_secret_the_flag_of_its_file_is_named(capsys):
    assert main(["--prometheus-password", "x"]) == 2
    assert "--prometheus-password-file" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["--polcy s3cr3t", "--polcy=s3cr3t", "demo --polcy s3cr3t"])
def test_the_value_of_an_unknown_flag_is_not_repeated(words, capsys):
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("desched: There is no flag --polcy; did you mean --policy?")
    assert "s3cr3t" not in error


# --- help ------------------------------------------------------------------------------------


def test_the_help_page_names_every_flag_variable_and_exit_code(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    page = capsys.readouterr().out
    for name in FIELDS:
        assert f"{flag_of(name)} " in page
    for name in Settings.model_fields:
        assert variable_of(name) in page
    for words in ("desched demo", "Exit codes: 0 done", "--dry-run --policy", "Default: 5m"):
        assert words in page


def test_the_help_page_fits_a_terminal(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_the_help_page_shows_no_value_of_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("DESCHED_PROMETHEUS_PASSWORD", "s3cr3t")
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "s3cr3t" not in capsys.readouterr().out


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"desched {__version__}\n"


# --- exit codes ------------------------------------------------------------------------------


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


def test_a_misspelt_flag_gets_a_suggestion(capsys):
    assert main(["--dryrun"]) == 2
    assert "did you mean --dry-run?" in capsys.readouterr().err


def test_a_misspelt_command_gets_a_suggestion(capsys):
    assert main(["demoo"]) == 2
    assert 'There is no command "demoo"; did you mean "demo"?' in capsys.readouterr().err


def test_a_second_word_is_refused(capsys):
    assert main(["demo", "twice"]) == 2
    assert 'The argument "twice" is unknown' in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--policy=x", "--output=json", "--dry-run"])
def test_the_demo_takes_no_flags(flag, capsys):
    assert main(["demo", flag]) == 2
    assert f"{flag.partition('=')[0]}: the demo has its own" in capsys.readouterr().err


def test_abbreviations_are_not_guessed(capsys):
    assert main(["--ev"]) == 2
    assert "There is no flag --ev" in capsys.readouterr().err


def test_dry_run_and_evict_contradict_each_other(run, capsys):
    assert main(["--dry-run", "--evict"]) == 2
    assert "contradict each other" in capsys.readouterr().err
    run.assert_not_called()


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
        "import sys; from desched import cli, simulation\n"
        "def run_demo(console, _):\n"
        "    for _ in range(100_000): console.print('x' * 70)\n"
        "import desched.simulation.demo as demo; demo.run_demo = run_demo\n"
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


def test_help_loads_neither_client_nor_scheduler():
    program = (
        "import sys; from desched.cli import build_parser; build_parser().format_help()\n"
        "print({'kubernetes', 'apscheduler', 'numpy', 'requests'} & set(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603  (our own interpreter and program)
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "set()\n"


def test_the_demo_is_a_command(mocker):
    demo = mocker.patch("desched.simulation.demo.run_demo", autospec=True, return_value=0)
    assert cli.main(["demo"]) == 0
    demo.assert_called_once()


# --- pause, resume, status -------------------------------------------------------------------


@pytest.fixture
def command(mocker):
    """What a command for people starts, without any cluster."""
    return mocker.patch("desched.bootstrap.commands.run_command", autospec=True)


@pytest.mark.parametrize(
    ("words", "name", "flags"),
    [
        ("pause", "pause", {}),
        (
            "pause --workload shop/web --for 2h --because x",
            "pause",
            {"workload": "shop/web", "for": "2h", "because": "x"},
        ),
        ("--pool gpu pause", "pause", {"pool": "gpu"}),
        ("resume --all", "resume", {"all": ""}),
        ("status", "status", {}),
    ],
)
def test_a_command_gets_its_flags_and_the_settings(command, words, name, flags):
    assert main([*words.split(), "--context=prod", "--state-namespace=ops"]) == 0
    started, settings, given, stdout, stderr = command.call_args.args
    assert (started, given) == (name, flags)
    assert (settings.context, settings.state_namespace) == ("prod", "ops")
    assert (stdout, stderr) == (sys.stdout, sys.stderr)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("status --for 2h", "--for has no effect for `desched status`"),
        ("pause --all", "--all has no effect for `desched pause`"),
        ("resume --because x", "--because has no effect for `desched resume`"),
        ("pause --output json", "--output has no effect for `desched pause`"),
        ("status --dry-run", "--dry-run has no effect for `desched status`"),
        ("--workload shop/web", "--workload belongs to `desched pause` and `desched resume`"),
        ("pause shop/web", 'The argument "shop/web" is unknown'),
        ("pause --becuase x", "There is no flag --becuase; did you mean --because?"),
        ("puase", 'There is no command "puase"; did you mean "pause"?'),
        ("explode", "there are demo, pause, resume, status"),
    ],
)
def test_a_flag_without_effect_for_a_command_is_refused(command, run, capsys, words, said):
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
    command.assert_not_called()
    run.assert_not_called()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("Create the namespace."), 2),
        (ObservationError(ObservationSource.CLUSTER, "Whether it holds is not known."), 3),
    ],
)
def test_a_command_that_fails_is_a_sentence_and_a_code(command, capsys, error, code):
    command.side_effect = error
    assert main(["pause"]) == code
    assert capsys.readouterr().err == f"desched: {error}\n"


def test_commands_do_not_hide_behind_settings_of_the_same_name():
    assert not FLAGS.keys() & Settings.model_fields.keys()
    for each in COMMANDS.values():
        assert each <= {*FIELDS, *FLAGS}


def test_the_help_page_names_every_command_and_its_flags(capsys):
    with pytest.raises(SystemExit):
        main(["pause", "--help"])
    page = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  desched {name} " in page
    for name in FLAGS:
        assert f"  {flag_of(name)}" in page


def test_steering_has_the_command_clear_only(capsys):
    assert parse(["steering", "clear", "--context", "kind"])["command"] == "steering"
    for words in (["steering"], ["steering", "wheel"], ["steering", "clear", "now"]):
        assert main(words) == 2
        assert "The only command is `desched steering clear`" in capsys.readouterr().err
