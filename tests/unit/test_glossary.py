"""Modules and the codes that users read are made of the words of docs/glossary.md."""

import importlib
import re
from collections.abc import Iterator
from enum import StrEnum
from inspect import getmembers, isclass

import pytest

from desched.cli.command_table import SUMMARIES
from tests.repository import ROOT

CODE = ROOT / "desched"

KUBERNETES = """
    affinity annotations api autoscaler claims cluster constraint controllers cpu cron daemonset
    desched device ephemeral events filters gpu group host itself job kube kubeconfig kubernetes
    label lease linux local memory metadata metrics mirror namespace node objects owner path pending
    pod port priorities priority prometheus pvc ready replica requests resize resource rollout
    koordinator kubectl machines migratable migrations network running scaling scheduler scheduling
    scores selectors service spread stack static status storage system taint terminating tolerations
    topology upstream utilization vertical virtual volume
"""
"""They mean what they mean to Kubernetes and its neighbours."""

PROGRAMS = """
    access adapters address answers arrays backoff bootstrap bounded cache chain chart cli
    client clock codes commands connection content conversion credentials deadline decoding
    default demo document draft durations election endpoint enum envelope errors executor exit
    facts file flags formatting gauge health http index inputs json loading log loop map model
    names notes original page paged picture placeholders plugins ports process program proxy
    queries raw reader reading reads reference rendering rights root rows rules runner sampling
    samples sarif scenarios schedule search sections server session set signals simulation store
    stored stream syntax table telemetry template text traces types values view watch world yaml
    block range
    aws comparison custom difference google plugin signature token
"""
"""They mean what they mean in any program."""

ENGLISH = """
    above absent acting all as at availability averaged awaited aware back balance balancing bare
    begun
    being blocked broken bound by came changes cheaper checks choice clocks compatibility competitor
    context contradictory counts covered critical current data departed deschedulers differ do
    earlier else elsewhere evaluated everything excluded exhausted existence failed feedback few
    figures finished finite first fits forbidden forward free gaps gone grace grouped guessed help
    history hourly implausible in just keeper kept late lines list long look made many maximum
    measured measurement measures moved needed never new no not nothing of old on once one orders
    other outside over part partial period prefers present problems progress proposed quality
    questions reason recent recently removed replaced requested room selected several share shared
    simulated single size slow somebody stale started stay stayed stays steps still stopped
    strategies taken throttled throttling times to today too total under understood unreadable
    valid wanted way whole without yet young
"""
"""They need no explanation."""

ON_THEIR_WAY_OUT = "wording"
"""Names of modules that the glossary should not have to explain."""

PLAIN = {*KUBERNETES.split(), *PROGRAMS.split(), *ENGLISH.split(), *ON_THEIR_WAY_OUT.split()}

COMMANDS = " ".join(SUMMARIES).split()
"""docs/commands.md explains them."""


def terms() -> list[str]:
    """The words and phrases that the glossary explains, in all the forms that it names."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    cells = re.findall(r"^\| (\*\*.+?) \|", glossary, re.MULTILINE)
    return [term for cell in cells for term in re.findall(r"\*\*(.+?)\*\*", cell)]


def words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", name.lower()))


KNOWN = PLAIN.union(COMMANDS, *(words(term) for term in terms()))


def unexplained(name: str) -> set[str]:
    """Words that are neither explained nor plain; a plural is as good as its word."""
    return {word for word in words(name) if not {word, word.removesuffix("s"), f"{word}s"} & KNOWN}


def names() -> list[str]:
    """Every folder and module of the program, without its dots."""
    paths = (path.relative_to(CODE) for path in CODE.rglob("*.py"))
    parts = {part for path in paths for part in path.with_suffix("").parts}
    return sorted(part for part in parts if not part.startswith("__"))


def codes() -> Iterator[str]:
    """Members of the model's enumerations, but for those that are Kubernetes' own values."""
    for path in (CODE / "model").glob("*.py"):
        module = importlib.import_module(f"desched.model.{path.stem}")
        for _, kind in getmembers(module, isclass):
            if issubclass(kind, StrEnum) and kind.__module__ == module.__name__:
                yield from (member.value for member in kind if member.value.islower())


@pytest.mark.parametrize("name", names())
def test_a_module_is_named_by_words_of_the_glossary_or_plain_ones(name: str) -> None:
    assert not unexplained(name)


@pytest.mark.parametrize("code", sorted(set(codes())))
def test_a_code_is_made_of_words_of_the_glossary_or_plain_ones(code: str) -> None:
    assert not unexplained(code)


def test_the_glossary_explains_no_word_twice() -> None:
    assert len(terms()) == len(set(terms())) > 50
    assert not {term for term in terms() if " " not in term and term in PLAIN}


def test_the_glossary_explains_no_word_that_nothing_uses() -> None:
    code = "\n".join(path.read_text() for path in CODE.rglob("*.py")).lower()
    forms = {term: re.sub(r"[ -]", r"[\\s_-]+", term) for term in terms()}

    assert [
        term for term, form in forms.items() if not re.search(f"(?<![a-z]){form}(?![a-z])", code)
    ] == []
