"""Reads the string literals of PromQL by its grammar, apart from the code that writes them.

Source: lexString and lexEscape in github.com/prometheus/prometheus/promql/parser, at v3.
"""

import re
from typing import NamedTuple

_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"])|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_NAMED = dict(zip('abfnrtv\\"', '\a\b\f\n\r\t\v\\"', strict=True))


class Literal(NamedTuple):
    """A string with what stands before it: a matcher's operator, or nothing."""

    text: str
    operator: str


def literals(promql: str) -> tuple[str, list[Literal]]:
    """The expression without what its strings hold, and the strings.

    Raises:
        AssertionError: Prometheus would refuse a string.
    """
    skeleton, found, position = "", [], 0
    while (begin := promql.find('"', position)) >= 0:
        skeleton += promql[position:begin] + '""'
        operator = re.search(r"[=!~]*$", promql[:begin])
        text, position = _string(promql, begin + 1)
        found.append(Literal(text, operator[0] if operator else ""))
    return skeleton + promql[position:], found


def _string(promql: str, position: int) -> tuple[str, int]:
    text = ""
    while promql[position] != '"':
        assert promql[position] not in "\n\ufffd", "a character that ends the string as an error"
        escape = _ESCAPE.match(promql, position)
        if escape is None:
            assert promql[position] != "\\", "an escape that is not known"
            text += promql[position]
            position += 1
            continue
        named, short, long = escape.groups()
        text += _NAMED[named] if named else chr(int(short or long, 16))
        position = escape.end()
    return text, position + 1
