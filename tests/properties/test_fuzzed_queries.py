"""No label value, whatever it holds, is more than the value of its one matcher in PromQL."""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from desched.adapters.prometheus.queries import check_matchers, own_query
from desched.errors import ConfigurationError
from tests.properties.mutations import HARMFUL_TEXTS
from tests.properties.promql import Literal, literals
from tests.unit.adapters.prometheus.test_queries import every_query

MARKER = "a value that stands in no query"
ADVERSARIAL_VALUES = (
    *HARMFUL_TEXTS,
    '"} or vector(1) #',
    '\\"} or vector(1) #',
    "a\\",
    "\\",
    "\n",
    "'`{}[]()$",
    ".*|^$(?i)+",
    "{window}",
    "\\U0010ffff",
)
label_values = st.text() | st.sampled_from(ADVERSARIAL_VALUES)
PLAIN = [literals(query) for query in every_query({"cluster": MARKER})]


@settings(deadline=None)
@given(label_values)
@example("".join(map(chr, range(1, 0x300))))
@example("\ufffd\ufffe\uffff\U0010ffff")
def test_a_value_is_matched_exactly_and_changes_nothing_else(value: str) -> None:
    for query, (skeleton, plain) in zip(every_query({"cluster": value}), PLAIN, strict=True):
        found_skeleton, found = literals(query)
        assert found_skeleton == skeleton
        expected = [
            Literal(value, each.operator) if each.text == MARKER else each for each in plain
        ]
        assert found == expected
        assert {each.operator for each in plain if each.text == MARKER} == {"="}


@given(st.text(max_size=20) | st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]*\Z"))
@example("a\n")
@example('a="b",c')
def test_a_name_is_refused_or_one_that_prometheus_takes_as_it_is(name: str) -> None:
    try:
        check_matchers({name: "x"})
    except ConfigurationError:
        return
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name, re.ASCII)


@given(st.text(max_size=40), st.text(max_size=40), st.integers(1, 10**6))
def test_an_own_query_is_taken_as_it_is_but_for_the_window(
    before: str, after: str, seconds: int
) -> None:
    text = f"{before}{{window}}{after}"
    assert own_query(text, seconds) == f"{seconds}s".join(text.split("{window}"))
