"""What is wrong with the keys and values of a policy: sentences, each about a key."""

import math
import re
from collections.abc import Iterator

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from desched.policy.wording import close_word, did_you_mean, quoted
from desched.policy_file.upstream_plugins import UPSTREAM_KEYS
from desched.policy_keys.findings import KeyPath
from desched.policy_keys.notes import Problem
from desched.policy_keys.section import (
    API_VERSION,
    KIND,
    REFUSAL,
    Section,
    keys,
    places_of,
    sections_at,
)

FEW_KEYS = 8


def schema_problems(
    error: ValidationError, value: object, root: type[Section]
) -> tuple[Problem, ...]:
    """The problems that pydantic found in the value of a root section, in our words."""
    problems = [(details, *_sentence(details, root)) for details in error.errors(include_url=False)]
    meant = {
        (*details["loc"][:-1], instead)
        for details, _, instead in problems
        if details["type"] == "extra_forbidden"
    }
    return tuple(
        Problem(_path_in(value, details["loc"]), text, instead)
        for details, text, instead in problems
        if not (details["type"] == "missing" and details["loc"] in meant)  # it is only misspelt
    )


def _path_in(value: object, location: KeyPath) -> KeyPath:
    """The location without the steps that are in no document: which alternative was chosen."""
    path: list[str | int] = []
    for position, part in enumerate(location, start=1):
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif isinstance(value, dict) and (part in value or position == len(location)):
            value = value.get(part)  # only the last step can be a key that is missing
        else:
            continue
        path.append(part)
    return tuple(path)


def _sentence(details: ErrorDetails, root: type[Section]) -> tuple[str, str]:
    """What is wrong, and the text to write instead if a single one is known."""
    kind, written, location = details["type"], details["input"], details["loc"]
    context = details.get("ctx", {})
    if kind == REFUSAL:
        text = details["msg"] if details["msg"].endswith(("?", ".")) else f"{details['msg']}."
        return text, context["instead"]
    if kind == "extra_forbidden":
        return _unknown_key(location, root)
    if kind == "missing":
        return _missing(location, root), ""
    if kind in {"enum", "literal_error"}:
        return _not_one_of(written, str(context.get("expected", "")))
    return _not_allowed(kind, written, details, root)


def _not_allowed(
    kind: str, written: object, details: ErrorDetails, root: type[Section]
) -> tuple[str, str]:
    if kind not in _ALLOWED:
        return f"found {quoted(written)}: {details['msg']}.", ""
    allowed = _ALLOWED[kind].format(**details.get("ctx", {}))
    text = f"found {quoted(written)}, allowed is {allowed}"
    if kind in {"float_type", "int_type"} and isinstance(written, str) and _is_number(written):
        return f"{text}; write the number without quotes.", written.strip()
    example = _example(details["loc"], root) if kind in _OF_SEVERAL else ""
    return f"{text}{example}.", ""


_ALLOWED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a text; quote it if it looks like a number or a yes",
    "string_too_short": "a text that is not empty",
    "tuple_type": "a list",
    "too_short": "a list of at least one",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "greater_than_equal": "{ge:.0f} or more",
    "less_than_equal": "at most {le:.0f}",
}


_OF_SEVERAL = frozenset({"tuple_type", "too_short", "dict_type", "model_type"})
"""What is wrong with the form of a list or a mapping."""


def _example(location: KeyPath, root: type[Section]) -> str:
    """The end of a sentence with an example of the key, empty if it has none."""
    while location and isinstance(location[-1], int):
        location = location[:-1]
    *above, key = location or ("",)
    fields = (keys(section).get(str(key)) for section in sections_at(tuple(above), root))
    for field in fields:
        if field and field.examples:
            flow = yaml.safe_dump(
                field.examples[0], default_flow_style=True, sort_keys=False, width=math.inf
            )
            return f', for example "{key}: {flow.strip()}"'
    return ""


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").replace(".", "", 1).isdigit()


def _not_one_of(written: object, expected: str) -> tuple[str, str]:
    options = [option.strip("' ") for option in expected.replace("' or '", "', '").split(",")]
    text = f"found {quoted(written)}, allowed is {', '.join(options)}"
    return f"{text}{did_you_mean(written, options) or '.'}", close_word(written, options)


def _unknown_key(location: KeyPath, root: type[Section]) -> tuple[str, str]:
    key = str(location[-1])
    named = key.rpartition("/")[2]  # nvidia.com/gpu is gpu here
    sections = sections_at(location[:-1], root)
    allowed_keys = [name for section in sections for name in keys(section)]
    nouns = {section.key_noun for section in sections} or {"key"}
    if key in UPSTREAM_KEYS:
        return f"{UPSTREAM_KEYS[key]}.", ""
    for section in sections:
        if key in section.absent:
            return section.absent[key], ""
    homes = places_of(key, root)
    if homes:
        return f"does not belong here; it is a key of {' and of '.join(homes)}.", ""
    word = close_word(named, allowed_keys)
    short = word and len(allowed_keys) > FEW_KEYS  # a close guess is worth more than a long list
    allowed = "" if short else f", allowed are {', '.join(allowed_keys)}"
    return f"unknown {min(nouns)}{allowed}{did_you_mean(named, allowed_keys) or '.'}", word


_TO_WRITE = {
    "apiVersion": f'"apiVersion: {API_VERSION}"',
    "kind": f'"kind: {KIND}"',
    "type": '"type: prometheus"',
    "metrics": '"metrics: {type: prometheus, address: URL}"',
    "thresholds": 'for example "thresholds: {cpu: 30, memory: 30}"',
    "targetThresholds": 'for example "targetThresholds: {cpu: 80, memory: 85}"',
    "args": '"args:" with the thresholds and metrics of LoadAware',
    "profiles": '"profiles:" with one that enables LoadAware, as policies/cautious.yaml does',
}


def _missing(location: KeyPath, root: type[Section]) -> str:
    key = str(location[-1])
    if key in _TO_WRITE:
        return f"is missing; write {_TO_WRITE[key]}."
    fields = [keys(section).get(key) for section in sections_at(location[:-1], root)]
    text = " ".join(next((field.description or "" for field in fields if field), "").split())
    return f"is missing: {text[:1].lower()}{text[1:]}" if text else "is missing."


_PLACEHOLDER = re.compile(r"\$\{[^}]*\}|\$\([A-Za-z_][A-Za-z0-9_]*\)|\{\{.*?\}\}")


def unfilled(value: object, path: KeyPath = ()) -> Iterator[Problem]:
    """The texts that hold a placeholder of a template."""
    if isinstance(value, str):
        if placeholder := _PLACEHOLDER.search(value):
            text = "which nothing has filled in; write the value itself."
            yield Problem(path, f"holds {quoted(placeholder[0])}, {text}")
    elif isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from unfilled(below, (*path, key))
