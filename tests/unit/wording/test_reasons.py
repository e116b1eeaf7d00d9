"""Each reason has its texts, in one place."""

import re
from enum import StrEnum

import pytest

from desched.lab.figures import Assumption
from desched.lab.recorded_past import Caveat
from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeReason, RefusalReason, UnreservedReason
from desched.model.report import CycleResult, EvictionVerdict, NotActing
from desched.model.state import MoveResult
from desched.plugins.gpus.facts import GpuAnswer, GpusLeftOut
from desched.wording.reasons import sentence_of, texts
from tests.report_reference import PAGE, SCHEMA, schema_text, with_reasons

WITH_REMEDY = (
    RefusalReason,
    NodeReason,
    UnknownReason,
    HoldReason,
    NotActing,
    CycleResult,
    MoveResult,
)
KINDS = (
    *WITH_REMEDY,
    EvictionVerdict,
    UnreservedReason,
    GpusLeftOut,
    GpuAnswer,
    Assumption,
    Caveat,
)


def test_these_are_all_kinds() -> None:
    assert set(texts()) == {kind.__name__ for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_each_reason_has_a_sentence_and_no_other_has(kind: type[StrEnum]) -> None:
    """X2: machine-readable, with a sentence for people."""
    found = texts()[kind.__name__]

    assert list(found) == [reason.value for reason in kind]
    assert all(text.means.endswith(".") for text in found.values())


@pytest.mark.parametrize("kind", WITH_REMEDY)
def test_each_reason_says_what_would_have_to_change(kind: type[StrEnum]) -> None:
    remedies = [
        text.remedy.format(workload="w", pool="p") for text in texts()[kind.__name__].values()
    ]

    assert all(remedy.endswith(".") for remedy in remedies)
    assert not [remedy for remedy in remedies if "--evict" in remedy]


def test_equal_words_of_different_kinds_keep_their_own_sentence() -> None:
    assert sentence_of(NodeReason.TOO_YOUNG) != sentence_of(RefusalReason.TOO_YOUNG)


def test_the_documents_have_the_texts_and_the_schema_the_fields_of_now() -> None:
    assert SCHEMA.read_text() == schema_text(), "run `make generated`"
    assert PAGE.read_text() == with_reasons(PAGE.read_text()), "run `make generated`"


def test_each_kind_of_reason_has_one_table() -> None:
    tables = re.findall(r"<!-- reasons of (\w+) -->", PAGE.read_text())

    assert sorted(tables) == sorted(texts())
