"""A policy with other values in its author's own text, whose comments and order stay."""

from collections.abc import Iterable
from typing import Any

import yaml

from desched.policy.conversion.yaml_text import flow_text
from desched.policy.loading import PolicyText
from desched.policy.reading.envelope import find_policy
from desched.policy.reading.findings import InvalidPolicy, KeyPath

Edit = tuple[KeyPath, object]
"""A key and its new value; None takes the key away."""


def edited_text(policy: PolicyText, edits: Iterable[Edit], document: object) -> str | None:
    """The text with these edits; None unless it then is exactly this document, and for JSON."""
    text = policy.text
    if text.lstrip().startswith("{"):  # has no comments, and the new text is for people
        return None
    try:
        for path, value in edits:
            text = _edited(text, path, value)
        found, _ = find_policy(text, policy.source)
    except (_NoPlace, yaml.YAMLError, InvalidPolicy):
        return None
    return text if found.value == document and not found.findings else None


class _NoPlace(Exception):  # noqa: N818  (named for what is so)
    """The text has no place for the edit."""


def _edited(text: str, path: KeyPath, value: object) -> str:
    node, pairs = yaml.compose(text, Loader=yaml.SafeLoader), list[tuple[Any, Any]]()
    for depth, part in enumerate(path):
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
        elif isinstance(node, yaml.MappingNode) and node.value:
            pairs = [(key, below) for key, below in node.value if key.value == part]
            if not pairs:
                return _added(text, node, str(part), _nested(path[depth + 1 :], value))
            node = pairs[0][1]
        elif pairs and value is not None:  # the key above is empty
            return _replaced(text, *pairs[0], _nested(path[depth:], value))
        else:
            raise _NoPlace
    key, below = pairs[0]
    if value is not None:
        return _replaced(text, key, below, value)
    begin, end = text.rfind("\n", 0, key.start_mark.index) + 1, _line_end(text, _end(below))
    if text[begin : key.start_mark.index].strip():  # something else is in its line
        raise _NoPlace
    return text[:begin] + text[end + 1 :]


def _nested(path: KeyPath, value: object) -> object:
    for part in reversed(path):
        value = {part: value}
    return value


def _added(text: str, mapping: yaml.MappingNode, key: str, value: object) -> str:
    pair = f"{key}: {flow_text(value)}"
    begin = mapping.value[0][0].start_mark
    if mapping.flow_style:
        return f"{text[: begin.index]}{pair}, {text[begin.index :]}"
    end = _line_end(text, _end(mapping))
    return f"{text[:end]}\n{' ' * begin.column}{pair}{text[end:]}"


def _replaced(text: str, key: yaml.Node, below: yaml.Node, value: object) -> str:
    return f"{text[: key.end_mark.index]}: {flow_text(value)}{text[_end(below) :]}"


def _end(node: yaml.Node) -> int:
    """Where the last value ends; the mark of a block is at what comes after it."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    return int(node.end_mark.index)


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end
