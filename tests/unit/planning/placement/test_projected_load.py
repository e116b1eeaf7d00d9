"""What moves so far add to the forecasts of nodes."""

import numpy as np
import pytest

from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import classify
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.placement.projected_load import LEAST_SHARE, ProjectedLoad
from desched.planning.planner import before_moves
from tests.builders import NOW, load, node, pod, policy, snapshot

USAGE = {Resource.CPU: 1000.0, Resource.MEMORY: 0.0}


@pytest.fixture
def projected() -> ProjectedLoad:
    """Two nodes at 75 %, of which a pod of a quarter of a node may get to `b`."""
    pods = [pod("p", on="a")]
    seen = snapshot(
        [node("a"), node("b")], pods, load({"a": (0.75, 0.1), "b": (0.75, 0.1)}, {"p": (1.0, 0.0)})
    )
    book = UsageBook(seen, policy(), NOW)
    context = EligibilityContext.of(book, State())
    return before_moves(context, classify(book, State())).destinations.free.load


@pytest.mark.parametrize(("share", "counts"), [(0.5, True), (0.01, True), (LEAST_SHARE / 2, False)])
def test_a_share_of_a_pod_counts_unless_it_is_tiny(
    projected: ProjectedLoad, share: float, *, counts: bool
) -> None:
    before = projected.expected_minutes("b")
    projected.forecast_shares(pod("p", on="a"), USAGE, np.array([0.0, share]))
    assert (projected.expected_minutes("b") > before) == counts
