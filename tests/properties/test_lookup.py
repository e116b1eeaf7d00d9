"""A look-up by labels or by selectors finds what a comparison of each with each would find."""

from hypothesis import given
from hypothesis import strategies as st

from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.planning.kube_scheduler.label_index import LabelIndex, SelectorIndex
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.kube_scheduler.pod_index import PodMatch
from tests.builders import node

KEYS, VALUES = ["app", "tier"], ["web", "db", "cache"]

LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from(
        [Operator.IN, Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]
    ),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple),
)
MANY_LABELS = st.lists(LABELS, min_size=1, max_size=6).map(lambda some: some * 7)
"""Few of them are looked at one by one, and most are found in a table."""

SELECTORS = st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=3).map(tuple))

NAMESPACES = st.none() | st.frozensets(st.sampled_from("abcdefghijkl"), max_size=12)


@given(st.lists(LABELS, max_size=6) | MANY_LABELS, SELECTORS)
def test_labels_that_a_selector_selects_are_found_once(
    entries: list[dict[str, str]], selector: LabelSelector
) -> None:
    found: LabelIndex[int] = LabelIndex()
    for i, labels in enumerate(entries):
        found = found.having(labels, i)
    exact = sorted(i for i in found.selected(selector) if selector.matches(entries[i]))
    assert exact == [i for i, labels in enumerate(entries) if selector.matches(labels)]


@given(st.lists(st.builds(PodMatch, NAMESPACES, SELECTORS), max_size=6), LABELS)
def test_selectors_that_select_labels_are_found_once(
    wanted: list[PodMatch], labels: dict[str, str]
) -> None:
    found: SelectorIndex[int] = SelectorIndex()
    for i, each in enumerate(wanted):
        found.add(each.namespaces, each.selector, i)
    exact = sorted(i for i in found.about("a", labels) if wanted[i].selects("a", labels))
    assert exact == [i for i, each in enumerate(wanted) if each.selects("a", labels)]


NODE_LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2", "x"]))
NODE_REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from([*KEYS, "none"]),
    st.sampled_from(list(Operator)),
    st.lists(st.sampled_from(["1", "2", "x"]), max_size=2).map(tuple),
)
FIELDS = st.builds(
    Requirement,
    st.sampled_from(["metadata.name", "none"]),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(st.sampled_from(["n0", "n1"]), min_size=1, max_size=1).map(tuple),
)
TERMS = st.builds(
    NodeSelectorTerm,
    st.lists(NODE_REQUIREMENTS, max_size=3).map(tuple),
    st.lists(FIELDS, max_size=1).map(tuple),
)


@given(st.lists(NODE_LABELS, max_size=4), st.lists(TERMS, max_size=3))
def test_a_term_matches_the_nodes_that_it_matches_one_by_one(
    nodes: list[dict[str, str]], terms: list[NodeSelectorTerm]
) -> None:
    found = NodeArrays(node(f"n{i}", labels=labels) for i, labels in enumerate(nodes))
    for term in terms:
        matching = [term.matches(each.name, each.labels) for each in found.nodes]
        assert found.matching(term).tolist() == matching


@given(st.lists(LABELS, min_size=1, max_size=6) | MANY_LABELS)
def test_a_longer_value_leaves_the_shorter_one_as_it_was(entries: list[dict[str, str]]) -> None:
    shorter: LabelIndex[int] = LabelIndex()
    for i, labels in enumerate(entries[:-1]):
        shorter = shorter.having(labels, i)
    shorter.having(entries[-1], len(entries))
    everything = LabelSelector()
    assert list(shorter.selected(everything)) == list(range(len(entries) - 1))
    by_value = [LabelSelector((Requirement(k, Operator.IN, (v,)),)) for k in KEYS for v in VALUES]
    assert all(len(entries) not in shorter.selected(selector) for selector in by_value)
