import pytest

from desched.cli import main
from desched.cli.command import invocation_of
from desched.cli.program import Program
from desched.settings import Settings, flag_of, load_settings, option_of, variable_of
from tests.repository import ROOT
from tests.setting_flags import setting_flags
from tests.unit.test_settings import EXAMPLES, example

FIELDS = [n for n, f in Settings.model_fields.items() if not option_of(f).environment_only]
SECRETS = [n for n, f in Settings.model_fields.items() if option_of(f).environment_only]


def parsed(*arguments):
    return invocation_of(Program().make_context("desched", [*arguments])).texts


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
        ("--client-connection-kubeconfig", "--kubeconfig", "config"),
        ("--leader-elect-lease-duration", "--lease-duration", "137s"),
        ("--leader-elect-renew-deadline", "--renew-deadline", "107s"),
        ("--leader-elect-retry-period", "--retry-period", "26s"),
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


def test_the_rows_about_settings_are_up_to_date():
    written = (ROOT / "desched" / "cli" / "setting_flags.json").read_text()
    assert written == setting_flags(), "run `make generated`"
