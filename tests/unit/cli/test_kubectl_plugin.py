"""The plug-in of kubectl: its name in help and messages, and its completions."""

import re

import pytest

from desched.cli import kubectl_plugin
from desched.cli.command_table import SUMMARIES


def page(capsys, *arguments):
    """What the plug-in prints, which ends well."""
    assert kubectl_plugin.run(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_of_the_plugin_has_command_lines_as_they_are_typed(name, capsys):
    text = page(capsys, *name.split(), "--help")
    assert text.startswith(f"Usage: kubectl desched {name}")
    assert not re.search("^  desched |`desched ", text, re.MULTILINE)


def test_the_first_page_of_the_plugin_has_command_lines_as_they_are_typed(capsys):
    text = page(capsys, "--help")
    assert text.startswith("Usage: kubectl desched [COMMAND]")
    assert "\n  kubectl desched plan --policy policy.yaml\n" in text
    assert "`kubectl desched help settings`" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_mistake_names_the_help_of_the_plugin(capsys):
    assert kubectl_plugin.run(["plan", "--nosuch"]) == 2
    assert "See `kubectl desched plan --help`." in capsys.readouterr().err


def completions(capsys, *words):
    """The completions of the last word, and the directive."""
    assert kubectl_plugin.complete(words) == 0
    *items, directive = capsys.readouterr().out.splitlines()
    return items, directive


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], "status\tShow the last cycle, pauses and evictions..."),
        (["steering", ""], "clear\tRemove desched's soft taints from all nodes."),
        (["plan", "-o", "j"], "json"),
    ],
)
def test_kubectl_gets_words_with_their_meaning_and_adds_no_files(words, expected, capsys):
    assert completions(capsys, *words) == ([expected], ":4")


def test_kubectl_leaves_the_names_of_files_to_the_shell(capsys):
    assert completions(capsys, "plan", "--policy", "p") == ([], ":0")


def test_no_completion_of_the_plugin_evicts(capsys):
    items, _ = completions(capsys, "--e")
    assert not [item for item in items if item.startswith("--evict")]


def test_without_a_word_kubectl_gets_all_commands(capsys):
    items, _ = completions(capsys, "")
    assert {item.partition("\t")[0] for item in items} == {name.split()[0] for name in SUMMARIES}
