"""YAML text as plain values, with the line of every key: what error messages point to.

Only what JSON can express is understood: no tags, no merge keys, no dates. Keys are texts as
written.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import yaml

from desched.policy.wording import quoted
from desched.policy_keys.document import BlockText, YamlDocument
from desched.policy_keys.findings import (
    FindingRule,
    KeyPath,
    Place,
    PolicyFinding,
    refused,
)

LARGEST_TEXT = 1024 * 1024
"""Bytes; a ConfigMap holds no more."""
DEEPEST_NESTING = 32
MOST_VALUES = 20_000
"""Values in one file, those that aliases repeat counted each time."""

_INDENT = re.compile(r"(?:[ \t\r]*\n)*( *)")
type_tag = "tag:yaml.org,2002:{}".format
_LONGEST_NUMBER = 40
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOO_MUCH = f"holds more than {MOST_VALUES} values or {DEEPEST_NESTING} levels"


class Frame(NamedTuple):
    """Where a text stands in its file.

    `begins` is where its first line does; every line is indented by `indent`. A quoted text has no
    lines of the file.
    """

    source: str
    begins: Place = Place()
    indent: int = 0
    keeps_lines: bool = True

    def place(self, mark: yaml.Mark | None) -> Place:
        """The place in the file."""
        if mark is None or not self.keeps_lines:
            return self.begins
        return Place(self.begins.line + mark.line, self.indent + mark.column + 1)


def read_documents(text: str, frame: Frame) -> tuple[YamlDocument, ...]:
    """The documents in a text that are not empty, with findings about their form.

    Raises:
        InvalidPolicy: it is too large or not YAML.
    """
    if len(text.encode(errors="replace")) > LARGEST_TEXT:
        problem = "the file is larger than 1 MiB, which no policy needs; check that it is the "
        raise refused(frame.source, frame.begins, f"{problem}right one.", FindingRule.FILE)
    try:
        documents = [
            _Reader(frame).document(root) for root in yaml.compose_all(text, Loader=_BoundedLoader)
        ]
    except yaml.MarkedYAMLError as error:
        place = frame.place(error.problem_mark or error.context_mark)
        raise refused(frame.source, place, _why_not_yaml(error)) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        text = f"this is not valid YAML: {reason}."
        raise refused(frame.source, frame.begins, text) from error
    return tuple(document for document in documents if document.value is not None)


def _why_not_yaml(error: yaml.MarkedYAMLError) -> str:
    problem = " ".join(filter(None, (error.context, error.problem)))
    if "'\\t'" in problem:
        return "a tab is used for indentation, which YAML forbids; write spaces instead."
    mark = error.problem_mark or error.context_mark
    template = mark and "{{" in (mark.buffer or "")
    advice = "; if it is a template, render it first" if template else ""
    return f"this is not valid YAML: {problem}{advice}."


class _BoundedLoader(yaml.SafeLoader):
    """A composer that ends at deep nesting, and at more than any policy holds."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        self._nodes += 1
        if self._depth > DEEPEST_NESTING or self._nodes > 2 * MOST_VALUES:  # a value may have a key
            raise yaml.composer.ComposerError(None, None, f"it {_TOO_MUCH}", self.get_mark())
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Reader:
    """Turns one composed document into plain values."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._places: dict[KeyPath, Place] = {}
        self._texts: dict[KeyPath, BlockText] = {}
        self._findings: list[PolicyFinding] = []
        self._values = 0

    def document(self, root: yaml.Node) -> YamlDocument:
        value = self._read(root, ())
        findings = tuple(self._findings)
        return YamlDocument(self._frame.source, value, self._places, self._texts, findings)

    def _place(self, node: yaml.Node) -> Place:
        return self._frame.place(node.start_mark)

    def _refuse(self, node: yaml.Node, path: KeyPath, problem: str) -> None:
        source, place = self._frame.source, self._place(node)
        self._findings.append(PolicyFinding(source, place, path, problem, FindingRule.YAML))

    def _read(self, node: yaml.Node, path: KeyPath) -> object:
        self._values += 1
        self._places.setdefault(path, self._place(node))  # that of a key is known before its value
        if self._values > MOST_VALUES or len(path) > DEEPEST_NESTING:
            advice = "counting what its aliases repeat; write it without aliases."
            text = f"the document {_TOO_MUCH}, {advice}"
            raise refused(self._frame.source, self._place(node), text)
        if isinstance(node, yaml.ScalarNode):
            if node.style == "|":
                self._texts[path] = _block_text(node, self._place(node).line)
            return self._scalar(node, path)
        if node.tag != type_tag("map" if isinstance(node, yaml.MappingNode) else "seq"):
            self._refuse(node, path, f"the tag {quoted(node.tag)} is not supported; remove it.")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return [self._read(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key, below in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key, path, _NO_KEY)
                continue
            name, child = self._text(key, path), (*path, str(key.value))
            if key.tag == type_tag("merge"):
                text = 'merge keys ("<<") are not supported; write the keys out.'
                self._refuse(key, path, text)
            elif name in mapping:
                first = self._places[child].line
                text = f"is repeated, the first is in line {first}; remove one of them."
                self._refuse(key, child, text)
            elif name is not None:
                self._places[child] = self._place(key)
                mapping[name] = self._read(below, child)
        return mapping

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> object:
        text = self._text(node, path)
        name = str(node.tag).removeprefix(type_tag(""))
        if text is None or name in {"str", "timestamp", "value"}:
            return text
        if name not in _SCALARS or len(text) > _LONGEST_NUMBER:
            tag = quoted(node.tag)
            problem = f"the value {quoted(text)} cannot have the tag {tag}; quote it."
            self._refuse(node, path, problem)
            return None
        if ":" not in text:  # YAML 1.1 reads 1:30 as ninety
            with suppress(ValueError, LookupError):
                return _SCALARS[name](node)
        self._refuse(node, path, f'"{text}" cannot be read as {name}; quote it.')
        return None

    def _text(self, node: yaml.ScalarNode, path: KeyPath) -> str | None:
        text = str(node.value)
        if not _SURROGATE.search(text):
            return text
        self._refuse(node, path, "a text holds half of a surrogate pair.")
        return None


_NO_KEY = (
    "a key must be a text, not a list or a mapping; if this is a template such as {{ … }}, render "
    "it first."
)


def _block_text(node: yaml.ScalarNode, line: int) -> BlockText:
    """Where the content of a block begins, by the first line of it that is not blank."""
    mark, end = node.start_mark, node.end_mark
    text = mark.buffer or ""  # only a stream has none
    written = text[mark.pointer : end.pointer].partition("\n")[2]
    indents = (_INDENT.match(each) for each in (written, str(node.value)))
    outer, inner = (len(indent[1]) if indent else 0 for indent in indents)
    return BlockText(line + 1, outer - inner)


_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: Mapping[str, Callable[[yaml.ScalarNode], object]] = {
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
    "null": _CONSTRUCTOR.construct_yaml_null,
}
