"""A look-up by labels or by selectors finds what a comparison of each with each would find."""

from hypothesis import given
from hypothesis import strategies as st

from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.planning.kube_scheduler.label_index import LabelIndex, SelectorIndex

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


@given(st.lists(LABELS, max_size=6) | MANY_LABELS, SELECTORS)
def test_labels_that_a_selector_selects_are_found_once(
    entries: list[dict[str, str]], selector: LabelSelector
) -> None:
    found: LabelIndex[int] = LabelIndex()
    for i, labels in enumerate(entries):
        found = found.having(labels, i)
    exact = sorted(i for i in found.selected(selector) if selector.matches(entries[i]))
    assert exact == [i for i, labels in enumerate(entries) if selector.matches(labels)]


@given(st.lists(SELECTORS, max_size=6), LABELS)
def test_selectors_that_select_labels_are_found_once(
    selectors: list[LabelSelector], labels: dict[str, str]
) -> None:
    found: SelectorIndex[int] = SelectorIndex()
    for i, selector in enumerate(selectors):
        found.add(selector, i)
    exact = sorted(i for i in found.about(labels) if selectors[i].matches(labels))
    assert exact == [i for i, selector in enumerate(selectors) if selector.matches(labels)]


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
