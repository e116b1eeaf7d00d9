import pytest

from desched.bootstrap.runs import Ending
from desched.cli import main
from desched.cli.command import load_command
from desched.cli.command_table import SUMMARIES
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.settings import Settings


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
        ("resume --all", "resume", {"all": True}),
        ("status", "status", {}),
        ("steering clear", "steering clear", {}),
        ("steering --log-level=debug clear", "steering clear", {}),
    ],
)
def test_a_command_gets_its_flags_and_the_settings(command, words, name, flags):
    assert main([*words.split(), "--context=prod", "--state-namespace=ops"]) == 0
    started, invocation = command.call_args.args
    settings = invocation.settings()
    assert (started, invocation.flags) == (name, flags)
    assert (settings.context, settings.state_namespace) == ("prod", "ops")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("status --for 2h", "--for has no effect for `desched status`"),
        ("pause --all", "--all has no effect for `desched pause`"),
        ("resume --because x", "--because has no effect for `desched resume`"),
        ("pause --output json", "--output has no effect for `desched pause`"),
        ("status --dry-run", "--dry-run has no effect for `desched status`"),
        (
            "--workload shop/web",
            "--workload belongs to `desched history` and `desched pause` and `desched resume`",
        ),
        ("pause shop/web", 'The argument "shop/web" is unknown'),
        ("pause --becuase x", "There is no flag --becuase; did you mean --because?"),
        ("convert", 'There is no command "convert"; did you mean "policy convert"?'),
        ("clear", 'There is no command "clear"; did you mean "steering clear"?'),
        ("backtest --from 7d", "--from: did you mean --since?"),
        ("report --from 7d", "--from: did you mean --since?"),
        ("pause --reason work", "--reason: did you mean --because?"),
        ("explain node a --from http://h", "--from: did you mean --service, or --snapshot?"),
        ("plan --from now.snapshot", "--from: did you mean --snapshot?"),
        ("puase", 'There is no command "puase"; did you mean "pause"?'),
        ("xyzzy", "there are plan, doctor, explain, snapshot, "),
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


def test_flags_of_commands_do_not_hide_settings_of_the_same_name():
    for name in SUMMARIES:
        command = load_command(name)
        own = {parameter.name for parameter in command.own_parameters}
        assert not own & Settings.model_fields.keys()
        assert {*command.settings} <= Settings.model_fields.keys()


def test_a_group_without_a_command_names_those_that_it_has(capsys):
    assert main(["policy"]) == 2
    assert "`desched policy convert` or `desched policy diff`" in capsys.readouterr().err


def test_steering_has_the_command_clear_only(capsys):
    for words in (["steering"], ["steering", "wheel"]):
        assert main(words) == 2
        assert "The only command is `desched steering clear`" in capsys.readouterr().err
    assert main(["steering", "clear", "now"]) == 2
    assert 'The argument "now" is unknown' in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["EVICT=true", "INTERVAL=5m", "DRY_RUN=false", "ONCE=false"])
def test_a_plan_is_one_dry_run_whatever_the_environment_says(run, monkeypatch, variable):
    name, _, value = variable.partition("=")
    monkeypatch.setenv(f"DESCHED_{name}", value)
    assert main(["plan", "--policy", "p.yaml", "-o", "json", "--prometheus-url", "http://p"]) == 0
    settings = run.call_args.args[0]
    assert settings.dry_run
    assert not settings.evict
    assert not settings.loops
    assert (str(settings.policy), settings.output, settings.prometheus_url) == (
        "p.yaml",
        "json",
        "http://p",
    )


def test_a_plan_has_the_exit_codes_of_a_dry_run(run):
    run.return_value = Ending(inconclusive=True)
    assert main(["plan"]) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan --evict", "--evict: `desched plan` changes nothing; omit the flag."),
        ("--evict plan", "--evict: `desched plan` changes nothing; omit the flag."),
        ("plan --dry-run=false", "--dry-run: `desched plan` is always a dry run; omit the flag."),
        ("plan --interval 5m", "--interval has no effect for `desched plan`; omit it."),
        ("plan --listen-address :1", "--listen-address has no effect for `desched plan`"),
    ],
)
def test_a_plan_refuses_what_is_not_for_a_dry_run(run, capsys, words, said):
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
    run.assert_not_called()
