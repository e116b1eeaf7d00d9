from collections.abc import Mapping
from enum import StrEnum

import pytest

from desched.model.load import UnknownReason
from desched.model.plan import HoldReason, NodeReason, RefusalReason
from desched.views.explained import changes


@pytest.mark.parametrize(
    ("reasons", "sentences"),
    [
        (RefusalReason, changes.FOR_PODS),
        (NodeReason, changes.FOR_NODES),
        (UnknownReason, changes.FOR_UNKNOWN_LOADS),
        (HoldReason, changes.FOR_HOLDS),
    ],
)
def test_every_reason_has_what_would_have_to_change(
    reasons: type[StrEnum], sentences: Mapping[str, str]
) -> None:
    assert set(sentences) == set(reasons)
    assert all(sentence.endswith(".") for sentence in sentences.values())


def test_no_change_suggests_a_flag_that_evicts() -> None:
    texts = [*changes.FOR_PODS.values(), *changes.FOR_NODES.values(), *changes.FOR_HOLDS.values()]

    assert not [text for text in texts if "--evict" in text]
