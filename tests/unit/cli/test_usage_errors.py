import re

import pytest

from desched.cli import main
from desched.cli.other_deschedulers import SUBSTITUTES
from desched.settings import Settings, flag_of, option_of
from tests.unit.test_settings import example

FIELDS = [n for n, f in Settings.model_fields.items() if not option_of(f).environment_only]


@pytest.mark.parametrize("flag", ["--v", "-v", "--v=3", "-v=3", "-v3", "--vv", "--verbose"])
@pytest.mark.parametrize("command", [[], ["plan"], ["status"], ["demo"]])
def test_the_verbosity_of_other_deschedulers_has_its_substitute(flag, command, run, capsys):
    assert main([*command, flag]) == 2
    error = capsys.readouterr().err
    assert "; --log-level debug takes its place." in error
    assert "--evict" not in error
    run.assert_not_called()


@pytest.mark.parametrize(
    "flag", ["--evic", "--evict-", "--evicts", "--ev", "--vict", "--v", "--onc", "--one", "--e"]
)
@pytest.mark.parametrize("command", [[], ["plan"], ["status"]])
def test_no_message_suggests_a_flag_that_evicts(flag, command, capsys):
    assert main([*command, flag]) == 2
    assert not re.search(r"did you mean --(evict|once)\b", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("explain pod/x", "-n"),
        ("explain pod/x", "--namespace"),
        ("explain pod/x", "--service"),
        ("explain pod/x", "--snapshot"),
        ("doctor", "--write-policy"),
    ],
)
def test_a_flag_of_a_command_needs_its_value(words, flag, capsys):
    assert main([*words.split(), flag]) == 2
    assert f"{flag} requires a value" in capsys.readouterr().err


@pytest.mark.parametrize("name", [n for n in FIELDS if not isinstance(example(n)[1], bool)])
def test_a_flag_is_no_value_of_another_flag(name, run, capsys):
    for words in ([flag_of(name)], [flag_of(name), "--dry-run"]):
        assert main(words) == 2
        assert f"{flag_of(name)} requires a value" in capsys.readouterr().err
    run.assert_not_called()


@pytest.mark.parametrize(
    ("words", "started"),
    [
        ("--context plan status", "status"),
        ("--context=plan status --state-namespace pause", "status"),
        ("--because status pause", "pause"),
    ],
)
def test_the_value_of_a_flag_is_not_taken_for_the_command(command, words, started):
    assert main(words.split()) == 0
    assert command.call_args.args[0] == started


VOLCANO = (
    "--descheduling-interval-cron-expression=@hourly --descheduling-interval=10m "
    "--policy-config-file=/policy-dir/policy.yaml --leader-elect=false "
    "--leader-elect-resource-namespace=volcano-system --v=3"
)


def test_all_flags_of_another_descheduler_are_named_at_once(run, capsys):
    assert main(VOLCANO.split()) == 2

    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("desched: --leader-elect-resource-namespace: --state-namespace takes")
    assert "; --log-level debug takes its place." in second
    run.assert_not_called()


def test_what_is_left_of_it_runs_but_for_two_timings(run, capsys):
    words = VOLCANO.split()

    assert main(words[:4]) == 2
    assert "contradict each other; keep one." in capsys.readouterr().err
    assert main(words[1:4]) == 0
    assert run.call_count == 1


@pytest.mark.parametrize("flag", SUBSTITUTES)
@pytest.mark.parametrize("command", [[], ["plan"], ["status"]])
def test_a_flag_of_another_descheduler_has_a_sentence_without_its_value(flag, command, run, capsys):
    assert main([*command, f"{flag}=s3cr3t"]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"desched: {flag}: {SUBSTITUTES[flag]} See ")
    run.assert_not_called()
