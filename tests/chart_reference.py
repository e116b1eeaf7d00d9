"""What documents have of the chart, its values and its alerts: `python -m tests.chart_reference`.

People write the prose. The comment above a key in values.yaml is its meaning; the annotations of an
alert are its section in the operations reference.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from tests.repository import ROOT

CHART = ROOT / "deploy" / "chart"
PAGE = CHART / "README.md"
VALUES = CHART / "values.yaml"
LONGEST_DEFAULT = 60
ALERTS = ROOT / "deploy" / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "operations-reference.md"
_COLUMNS = 120
_BLOCK = re.compile(r"(<!-- (?:values|alerts) -->\n).*?(?=<!-- end -->)", re.DOTALL)
_REFERENCE = re.compile(r'docs/([\w/-]+\.md), "([^"]+)"')


class Value(NamedTuple):
    """A value of the chart by its path, such as `image.tag`, with its default as YAML."""

    path: str
    default: str
    meaning: str


def documented_values() -> list[Value]:
    """Each key of values.yaml with a comment, or without keys below it."""
    text = VALUES.read_text()
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    return list(_values(root, text.splitlines(), ""))


def _values(node: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        meaning = _comment_above(key.start_mark.line, lines)
        if not meaning and isinstance(value, yaml.MappingNode):
            yield from _values(value, lines, f"{path}.")
        else:
            yield Value(path, _flow(value), meaning)


def _comment_above(line: int, lines: list[str]) -> str:
    comment: list[str] = []
    while line and (text := lines[line - 1].strip()).startswith("#"):
        comment.insert(0, text.removeprefix("#").strip())
        line -= 1
    return " ".join(comment)


def _flow(node: yaml.Node) -> str:
    """A default on one line; a long one is left to values.yaml."""
    value = yaml.safe_load(yaml.serialize(node))
    if isinstance(value, str):
        text = value or '""'
    else:
        text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
        text = text.removesuffix("...\n").strip()
    return text if "\n" not in text and len(text) <= LONGEST_DEFAULT else ""


def with_table(text: str) -> str:
    """The page with the values that the chart has now."""
    rows = ["", "| value | default | meaning |", "|---|---|---|", *map(_row, documented_values())]
    return _BLOCK.sub(lambda found: found[1] + "\n".join(rows) + "\n\n", text)


def _row(value: Value) -> str:
    default = f"`{value.default}`" if value.default else "see [values.yaml](values.yaml)"
    return " | ".join((f"| `{value.path}`", default, f"{value.meaning} |"))


def with_alerts(text: str) -> str:
    """The page with a section for each alert that the chart has now."""
    rules = yaml.safe_load(ALERTS.read_text())["spec"]["groups"][0]["rules"]
    sections = "".join(map(_section, rules))
    return _BLOCK.sub(lambda found: f"{found[1]}\n{sections}", text)


def _section(rule: dict[str, Any]) -> str:
    notes = rule["annotations"]
    text = _REFERENCE.sub(_link, f"{notes['summary']} {notes['action']}")
    lines = textwrap.wrap(text, _COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f"### {rule['alert']}", "", *lines, "", ""])


def _link(found: re.Match[str]) -> str:
    page = "" if found[1] == RUNBOOKS.name else found[1]
    anchor = re.sub(r"[^\w -]", "", found[2].lower()).replace(" ", "-")
    return f"[{found[2]}]({page}#{anchor})"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
    RUNBOOKS.write_text(with_alerts(RUNBOOKS.read_text()))
