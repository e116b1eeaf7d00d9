"""Reads a page as a browser would: its elements, tables, scripts and data."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

VOID = frozenset({"meta", "br", "rect", "line", "polyline", "input"})


@dataclass
class Cell:
    """A cell of a table; `sort` is what it is sorted by, if that is not its text."""

    text: str = ""
    sort: str | None = None


@dataclass
class Page(HTMLParser):
    """A page; the rows of a table are those of its body."""

    source: str
    elements: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    tables: dict[str, list[list[Cell]]] = field(default_factory=dict)
    contents: dict[str, list[str]] = field(default_factory=dict)
    text: str = ""
    _open: list[str] = field(default_factory=list)
    _table: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.source)
        self.close()
        assert not self._open, "elements are not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.elements.append(tag)
        self.attributes += [(tag, name, value) for name, value in values.items()]
        if tag not in VOID:
            self._open.append(tag)
        elif tag == "br":
            self.handle_data(" ")
        if tag == "table":
            self._table = values["id"]
            self.tables[self._table] = []
        elif tag in {"script", "style"}:
            key = values.get("id") or tag
            self.contents.setdefault(key, []).append("")
            self._key = key
        elif "tbody" in self._open and tag == "tr":
            self.tables[self._table].append([])
        elif "tbody" in self._open and tag in {"td", "th"}:
            self.tables[self._table][-1].append(Cell(sort=values.get("data-sort")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "elements are not nested"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in {"script", "style"}:
            self.contents[self._key][-1] += data
            return
        self.text += data
        if "tbody" in self._open and {"td", "th"} & set(self._open):
            self.tables[self._table][-1][-1].text += data

    def rows(self, table: str) -> list[list[str]]:
        """The texts of a table's cells, with single blanks."""
        return [[" ".join(cell.text.split()) for cell in row] for row in self.tables[table]]

    @property
    def security_policy(self) -> Mapping[str, str]:
        """The directives of the Content-Security-Policy."""
        (policy,) = (
            v for _, name, v in self.attributes if name == "content" and "default-src" in v
        )
        return dict(each.partition(" ")[::2] for each in policy.split("; "))

    def data(self, key: str) -> Any:
        """The JSON in the element with this id."""
        return json.loads(self.contents[key][0])


def source_of(content: str) -> str:
    """How a security policy names a script or a style."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def loads_nothing(page: Page) -> None:
    """A page needs no network: it only links to its own server, and its policy forbids all."""
    assert not [a for a in page.attributes if a[1] in {"src", "srcset", "action", "style"}]
    links = [a for a in page.attributes if a[1] == "href"]
    assert all(tag == "a" and re.fullmatch(r"/\w+", value) for tag, _, value in links)
    assert not [a for a in page.attributes if a[1].startswith("on")]
    assert not re.search(r"@import|url\(", "".join(page.contents["style"]))
    assert page.security_policy["default-src"] == "'none'"
    assert "unsafe-eval" not in str(page.security_policy)
    scripts = page.contents.get("script", [])
    assert page.security_policy["script-src"] == " ".join(map(source_of, scripts))
