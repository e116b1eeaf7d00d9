"""Writes a policy as YAML in which keys have comments."""

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping

import yaml

from desched.policy_keys.findings import KeyPath

_WIDTH = 100


def yaml_text(
    value: object, comments: Mapping[KeyPath, Iterable[str]], header: Iterable[str]
) -> str:
    """The value as YAML, each key with its comments above it, after the lines of a header."""
    lines = (*_comment(header, ""), *_lines(value, comments, (), ""))
    return "".join(f"{line}\n" for line in lines)


def _lines(
    value: object, comments: Mapping[KeyPath, Iterable[str]], path: KeyPath, indent: str
) -> Iterator[str]:
    if isinstance(value, dict):
        for key, below in value.items():
            at = (*path, key)
            yield from _comment(comments.get(at, ()), indent)
            if isinstance(below, dict | list) and below:
                yield f"{indent}{_scalar(key)}:"
                inner = indent if isinstance(below, list) else f"{indent}  "
                yield from _lines(below, comments, at, inner)
            else:
                yield f"{indent}{_scalar(key)}: {_scalar(below)}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            at = (*path, index)
            yield from _comment(comments.get(at, ()), indent)
            yield from _item(item, comments, at, indent)


def _item(
    item: object, comments: Mapping[KeyPath, Iterable[str]], path: KeyPath, indent: str
) -> Iterator[str]:
    if not (isinstance(item, dict | list) and item):
        yield f"{indent}- {_scalar(item)}"
        return
    dash = f"{indent}- "
    for line in _lines(item, comments, path, f"{indent}  "):
        is_comment = line.lstrip().startswith("#")
        yield dash + line[len(dash) :] if dash.strip() and not is_comment else line
        dash = dash if is_comment else ""


def _scalar(value: object) -> str:
    if isinstance(value, str) and not value.isprintable():
        return json.dumps(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.partition("\n")[0]


def _comment(sentences: Iterable[str], indent: str) -> Iterator[str]:
    start = f"{indent}# "
    for sentence in sentences:
        yield from textwrap.wrap(
            sentence,
            _WIDTH,
            initial_indent=start,
            subsequent_indent=f"{start}  ",
            break_on_hyphens=False,
        ) or [start.rstrip()]
