import subprocess
import sys

import pytest

from desched import __version__, cli
from desched.cli import build_parser, main
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.settings import Settings, flag_of, load_settings, option_of, variable_of
from tests.unit.test_settings import EXAMPLES, example

FIELDS = [n for n, f in Settings.model_fields.items() if not option_of(f).environment_only]
SECRETS = [n for n, f in Settings.model_fields.items() if option_of(f).environment_only]


def parsed(*arguments):
    given = vars(build_parser().parse_args(arguments))
    given.pop("command")
    return given


@pytest.fixture
def run(mocker):
    """What the command line starts, without any cluster."""
    return mocker.patch("desched.bootstrap.runs.run", autospec=True)


# --- flags are settings ----------------------------------------------------------------------


@pytest.mark.parametrize("name", FIELDS)
def test_every_flag_sets_its_field_as_its_variable_does(name, monkeypatch):
    text, _ = example(name)
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


def test_a_flag_that_is_not_given_leaves_the_word_to_the_environment(monkeypatch):
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
def test_the_spellings_of_the_peers_are_accepted(alias, flag, value):
    assert parsed(alias, value) == parsed(flag, value)


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_is_an_argument(name, capsys):
    assert main([f"{flag_of(name)}=value"]) == 2
    assert "Unrecognized arguments" in capsys.readouterr().err


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


def test_the_version_is_told(capsys):
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
    assert "Did you mean --dry-run?" in capsys.readouterr().err


def test_abbreviations_are_not_guessed(capsys):
    assert main(["--ev"]) == 2
    assert "Unrecognized arguments: --ev" in capsys.readouterr().err


def test_dry_run_and_evict_contradict_each_other(run, capsys):
    assert main(["--dry-run", "--evict"]) == 2
    assert "contradict each other" in capsys.readouterr().err
    run.assert_not_called()


def test_without_a_policy_it_says_which_flag_names_one(capsys):
    assert main(["--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "--policy FILE (DESCHED_POLICY)" in error
    assert "policies/" in error


def test_a_reader_of_the_report_may_leave_early():
    program = (
        "import sys; from desched import cli\n"
        "def run(*_): sys.stdout.write('x' * 1_000_000)\n"
        "import desched.bootstrap.runs as runs; runs.run = run\n"
        "sys.exit(cli.main([]))"
    )
    with subprocess.Popen(  # noqa: S603  (our own interpreter and program)
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == b""


def test_help_loads_neither_client_nor_scheduler():
    program = (
        "import sys; from desched.cli import build_parser; build_parser().format_help()\n"
        "print({'kubernetes', 'apscheduler', 'numpy', 'requests'} & set(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603  (our own interpreter and program)
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "set()\n"


def test_the_demonstration_is_a_command(mocker):
    demo = mocker.patch("desched.simulation.demo.run_demo", autospec=True, return_value=0)
    assert cli.main(["demo"]) == 0
    demo.assert_called_once()
