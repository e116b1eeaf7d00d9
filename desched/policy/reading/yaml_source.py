"""YAML text as plain values, with the line of every key: what error messages point to.

Only what JSON can express is understood: no tags, no merge keys, no dates. Keys are texts as
written.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec
import yaml

from desched.errors import ConfigurationError
from desched.model.text import on_one_line
from desched.policy.wording import quoted

LARGEST_TEXT = 1024 * 1024
"""Bytes; a ConfigMap holds no more."""
DEEPEST_NESTING = 32
MOST_VALUES = 20_000
"""Values in one file, those that aliases repeat counted each time."""

type_tag = "tag:yaml.org,2002:{}".format
_LONGEST_NUMBER = 40
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOO_MUCH = f"holds more than {MOST_VALUES} values or {DEEPEST_NESTING} levels"

KeyPath = tuple[str | int, ...]


def complaint(source: str, line: int, text: str) -> ConfigurationError:
    """An error with its place in the file, on one line."""
    return ConfigurationError(f"{source}:{line}: {on_one_line(text)}")


class YamlDocument(msgspec.Struct, frozen=True):
    """One document of a file.

    `lines` has the line, counted from 1, of every key and list item. `texts` has for every text
    that is a block (`|`) the line on which its content begins.
    """

    source: str
    value: object
    lines: Mapping[KeyPath, int]
    texts: Mapping[KeyPath, int]

    def line_of(self, path: KeyPath) -> int:
        """The line of the key, or of its closest parent that is in the document."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def complaint(self, path: KeyPath, text: str) -> ConfigurationError:
        """An error with the place of the key."""
        return complaint(self.source, self.line_of(path), text)


def read_documents(
    text: str, source: str, *, first_line: int = 1, keeps_lines: bool = True
) -> tuple[YamlDocument, ...]:
    """The documents in a text that are not empty.

    Args:
        text: the YAML.
        source: the name of the file that holds it.
        first_line: where the text begins in that file.
        keeps_lines: whether a line of the text is one of the file; not so in a quoted text.

    Raises:
        ConfigurationError: it is too large, not YAML, or more than JSON could express.
    """
    if len(text.encode(errors="replace")) > LARGEST_TEXT:
        raise complaint(
            source,
            first_line,
            "the file is larger than 1 MiB, which no policy needs; check that it is the right one.",
        )
    try:
        documents = [
            _Reader(source, first_line, keeps_lines=keeps_lines).document(root)
            for root in yaml.compose_all(text, Loader=_BoundedLoader)
        ]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + (mark.line if mark and keeps_lines else 0)
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise complaint(source, line, f"this is not valid YAML: {problem}.") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = getattr(error, "reason", None) or str(error).splitlines()[0]
        raise complaint(source, first_line, f"this is not valid YAML: {reason}.") from error
    return tuple(document for document in documents if document.value is not None)


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

    def __init__(self, source: str, first_line: int, *, keeps_lines: bool) -> None:
        self._source = source
        self._keeps_lines = keeps_lines
        self._first_line = first_line
        self._lines: dict[KeyPath, int] = {}
        self._texts: dict[KeyPath, int] = {}
        self._values = 0

    def document(self, root: yaml.Node) -> YamlDocument:
        value = self._read(root, ())
        return YamlDocument(self._source, value, self._lines, self._texts)

    def _line(self, node: yaml.Node) -> int:
        return self._first_line + (int(node.start_mark.line) if self._keeps_lines else 0)

    def _refuse(self, node: yaml.Node, problem: str) -> ConfigurationError:
        return complaint(self._source, self._line(node), problem)

    def _read(self, node: yaml.Node, path: KeyPath) -> object:
        self._values += 1
        self._lines.setdefault(path, self._line(node))  # that of a key is known before its value
        if self._values > MOST_VALUES or len(path) > DEEPEST_NESTING:
            advice = "counting what its aliases repeat; write it without aliases."
            raise self._refuse(node, f"the document {_TOO_MUCH}, {advice}")
        if isinstance(node, yaml.ScalarNode):
            if node.style == "|":
                self._texts[path] = self._line(node) + 1
            return self._scalar(node)
        if node.tag != type_tag("map" if isinstance(node, yaml.MappingNode) else "seq"):
            raise self._refuse(node, f"the tag {quoted(node.tag)} is not supported; remove it.")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return [self._read(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, below in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key, "a key must be a text, not a list or a mapping.")
            if key.tag == type_tag("merge"):
                raise self._refuse(key, 'merge keys ("<<") are not supported; write the keys out.')
            name, child = self._text(key), (*path, key.value)
            if name in found:
                raise self._refuse(
                    key,
                    f'the key "{name}" is repeated, the first is in line {self._lines[child]}; '
                    "remove one of them.",
                )
            self._lines[child] = self._line(key)
            found[name] = self._read(below, child)
        return found

    def _scalar(self, node: yaml.ScalarNode) -> object:
        text = self._text(node)
        name = str(node.tag).removeprefix(type_tag(""))
        if name in {"str", "timestamp", "value"}:
            return text
        if name not in _SCALARS or len(text) > _LONGEST_NUMBER:
            raise self._refuse(
                node, f"the value {quoted(text)} cannot have the tag {quoted(node.tag)}; quote it."
            )
        if ":" not in text:  # YAML 1.1 reads 1:30 as ninety
            with suppress(ValueError, LookupError):
                return _SCALARS[name](node)
        raise self._refuse(node, f'"{text}" cannot be read as {name}; quote it.')

    def _text(self, node: yaml.ScalarNode) -> str:
        text = str(node.value)
        if _SURROGATE.search(text):
            raise self._refuse(node, "a text holds half of a surrogate pair.")
        return text


_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: Mapping[str, Callable[[yaml.ScalarNode], object]] = {
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
    "null": _CONSTRUCTOR.construct_yaml_null,
}
