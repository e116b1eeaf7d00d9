"""A node is in scope as soon as the longest window has seen it from its beginning on."""

from datetime import timedelta

import pytest

from desched.model.plan import NodeReason
from desched.model.resources import Resource
from desched.planning.overload.scope import out_of_scope
from tests.builders import NOW, node, policy, rule


@pytest.mark.parametrize(("seconds", "reason"), [(899, NodeReason.TOO_YOUNG), (900, None)])
def test_a_node_is_as_old_as_the_longest_window(seconds: int, reason: NodeReason | None) -> None:
    by = policy(rule(Resource.CPU, windows_seconds=(300, 900)))
    found = out_of_scope(node("n", created_at=NOW - timedelta(seconds=seconds)), by, NOW)
    assert (found.reason if found else None) is reason
