"""Memory that a node keeps for huge pages leaves both sides of its load."""

from typing import Any

import msgspec
import pytest

from desched.model.cluster import Node
from desched.model.load import ClusterLoad, Level, LoadHistory, Measured
from desched.model.plan import NodeClass, NodeVerdict
from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.overload.classification import Pressure, classify
from desched.planning.overload.huge_pages import ordinary_ratio
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import DestinationWindow
from tests.builders import GIB, NOW, amounts, load, node, pod, policy, rule, snapshot

KEPT = {"hugepages-1Gi": 56 * GIB}
ALL_USED = 61.5 / 64


def of_fleet(**extended: int) -> Node:
    """A node of 64 GiB of which 6 are left to pods."""
    return node(
        "n",
        capacity=amounts(4, 64, **extended),
        allocatable=amounts(4, 6, **extended),
    )


def judged(seen: Node, of_load: ClusterLoad, **fields: Any) -> Pressure:
    by = policy(rule(Resource.MEMORY, **fields))
    book = UsageBook(snapshot([seen], [pod("p", on="n")], of_load), by, NOW)
    return classify(book, State())


def verdict(seen: Node, used: float) -> NodeVerdict:
    (found,) = judged(seen, load({"n": (0.1, used)}, {"p": (0.1, 0.5)})).verdicts
    return found


def test_a_node_that_keeps_most_memory_for_huge_pages_is_not_overloaded() -> None:
    found = verdict(of_fleet(**KEPT), ALL_USED)
    assert found.node_class is NodeClass.BALANCED
    (memory,) = found.pressures
    assert memory.lowest_ratio == pytest.approx(5.5 / 8)


def test_it_is_overloaded_by_what_is_used_of_the_rest() -> None:
    assert verdict(of_fleet(**KEPT), 63 / 64).node_class is NodeClass.OVERLOADED
    assert verdict(of_fleet(), ALL_USED).node_class is NodeClass.OVERLOADED


@pytest.mark.parametrize(
    ("used", "expected"),
    [(56 / 64, 0.0), (60 / 64, 0.5), (1.0, 1.0), (4 / 64, 0.5)],  # the last without huge pages
)
def test_a_figure_may_lack_the_huge_pages(used: float, expected: float) -> None:
    assert ordinary_ratio(of_fleet(**KEPT), used) == pytest.approx(expected)


def test_impossible_sizes_of_huge_pages_do_not_count() -> None:
    assert ordinary_ratio(of_fleet(**{"hugepages-1Gi": 64 * GIB}), 0.5) == 0.5


def test_sizes_of_huge_pages_add_up() -> None:
    both = {"hugepages-1Gi": 16 * GIB, "hugepages-2Mi": 16 * GIB}
    assert ordinary_ratio(of_fleet(**both), 48 / 64) == pytest.approx(0.5)


def test_destination_windows_and_the_kubelets_figures_are_of_the_rest_too() -> None:
    measured = Measured((Level(300, ALL_USED),), (ALL_USED,), 61 / 64)
    of_load = msgspec.structs.replace(
        load({"n": (0.1, measured)}, {"p": (0.1, 0.5)}),
        destination_ratios={"n": {Resource.MEMORY: (63 / 64,)}},
    )
    window = DestinationWindow(3600, 1.0)
    (memory,) = (
        judged(of_fleet(**KEPT), of_load, destination_windows=(window,)).verdicts[0].pressures
    )
    assert memory.highest_ratio == pytest.approx(7 / 8)
    assert not judged(of_fleet(**KEPT), of_load).waiting


def test_the_past_of_a_node_swings_as_the_rest_does() -> None:
    of_load = msgspec.structs.replace(
        load({"n": (0.1, 62 / 64)}, {"p": (0.1, 0.5)}),
        history={"n": {Resource.MEMORY: LoadHistory(600, (58 / 64, 62 / 64))}},
    )
    past = judged(of_fleet(**KEPT), of_load).outlook.past_of("n")[:, 0]
    assert list(past) == pytest.approx([2 / 8, 6 / 8])
