"""What is wrong with a policy: one line for each problem, with file, line and key."""

import re
from collections.abc import Iterable

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from desched.errors import ConfigurationError
from desched.model.text import on_one_line
from desched.policy.document.sections import keys, places_of, sections_at
from desched.policy.document.upstream_plugins import UPSTREAM_KEYS
from desched.policy.document.values import REFUSAL
from desched.policy.reading.yaml_source import KeyPath, YamlDocument
from desched.policy.wording import did_you_mean, quoted

MOST_SHOWN = 30
FEW_KEYS = 8
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_/-]+")


class Problem(msgspec.Struct, frozen=True):
    """What is wrong, or worth knowing, at a key."""

    path: KeyPath
    text: str


def key_path(path: KeyPath) -> str:
    """A path as people write it: `profiles[0].pluginConfig[1].args.duration`."""
    words = (
        f"[{part}]"
        if isinstance(part, int)
        else f".{part if _PLAIN_KEY.fullmatch(part) else quoted(part)}"
        for part in path
    )
    return "".join(words).removeprefix(".")


class Notes(msgspec.Struct, frozen=True):
    """Collects what is wrong and what is worth knowing of the keys below `path`.

    The policy begins at `base` in its document.
    """

    document: YamlDocument
    base: KeyPath = ()
    path: KeyPath = ()
    problems: list[Problem] = []
    warnings: list[Problem] = []

    def below(self, *keys: str | int) -> "Notes":
        """The same notes, for what is at these keys below the path."""
        return msgspec.structs.replace(self, path=(*self.path, *keys))

    def refuse(self, text: str, *keys: str | int) -> None:
        """Note a problem at these keys; the policy is refused when all have been collected."""
        self.problems.append(Problem((*self.path, *keys), text))

    def warn(self, text: str, *keys: str | int) -> None:
        """Note something that the policy's author may not expect."""
        self.warnings.append(Problem((*self.path, *keys), text))

    def place(self, *keys: str | int) -> str:
        """The place of a key, as `FILE:LINE: key.path`."""
        path = (*self.path, *keys)
        return f"{self.document.source}:{self._line(path)}: {key_path(path)}"

    def lines(self, problems: Iterable[Problem]) -> tuple[str, ...]:
        """The problems as lines, in the order of the file, none of them twice."""
        placed = sorted((self._line(p.path), key_path(p.path), p.text) for p in problems)
        return tuple(
            f"{self.document.source}:{line}: {on_one_line(f'{path}: {text}' if path else text)}"
            for line, path, text in dict.fromkeys(placed)
        )

    def _line(self, path: KeyPath) -> int:
        return self.document.line_of((*self.base, *path))

    def error(self) -> ConfigurationError:
        """The error that lists the problems."""
        lines = self.lines(self.problems)
        more = len(lines) - MOST_SHOWN
        rest = (f"… and {more} more problems.",) if more > 0 else ()
        return ConfigurationError("\n".join((*lines[:MOST_SHOWN], *rest)))


def schema_problems(error: ValidationError, value: object) -> tuple[Problem, ...]:
    """The problems that pydantic found in the value, in our words."""
    found = [(details, _sentence(details)) for details in error.errors(include_url=False)]
    misspelt = [(d["loc"][:-1], text) for d, text in found if d["type"] == "extra_forbidden"]
    return tuple(
        Problem(_path_in(value, details["loc"]), text)
        for details, text in found
        if not (details["type"] == "missing" and _is_meant(details["loc"], misspelt))
    )


def _is_meant(missing: KeyPath, misspelt: Iterable[tuple[KeyPath, str]]) -> bool:
    """Whether a key is missing only because it is misspelt, which is reported already."""
    section, ending = missing[:-1], did_you_mean(missing[-1], [str(missing[-1])])
    return any(where == section and text.endswith(ending) for where, text in misspelt)


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


def _sentence(details: ErrorDetails) -> str:
    kind, found, location = details["type"], details["input"], details["loc"]
    if kind == REFUSAL:
        return details["msg"] if details["msg"].endswith(("?", ".")) else f"{details['msg']}."
    if kind == "extra_forbidden":
        return _unknown_key(location)
    if kind == "missing":
        return _missing(location)
    if kind in {"enum", "literal_error"}:
        return _not_one_of(found, str(details.get("ctx", {}).get("expected", "")))
    if kind not in _ALLOWED:
        return f"found {quoted(found)}: {details['msg']}."
    text = f"found {quoted(found)}, allowed is {_ALLOWED[kind].format(**details.get('ctx', {}))}"
    if kind in {"float_type", "int_type"} and isinstance(found, str) and _is_number(found):
        text += "; write the number without quotes"
    return f"{text}."


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


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").replace(".", "", 1).isdigit()


def _not_one_of(found: object, expected: str) -> str:
    options = [option.strip("' ") for option in expected.replace("' or '", "', '").split(",")]
    allowed = ", ".join(options)
    return f"found {quoted(found)}, allowed is {allowed}{did_you_mean(found, options) or '.'}"


def _unknown_key(location: KeyPath) -> str:
    key = str(location[-1])
    sections = sections_at(location[:-1])
    known = [name for section in sections for name in keys(section)]
    nouns = {section.key_noun for section in sections} or {"key"}
    suggestion = did_you_mean(key, known)
    if key in UPSTREAM_KEYS:
        return f"{UPSTREAM_KEYS[key]}."
    homes = places_of(key)
    if homes:
        return f"does not belong here; it is a key of {' and of '.join(homes)}."
    short = suggestion and len(known) > FEW_KEYS  # a close guess is worth more than a long list
    allowed = "" if short else f", allowed are {', '.join(known)}"
    return f"unknown {min(nouns)}{allowed}{suggestion or '.'}"


_TO_WRITE = {
    "type": '"type: prometheus"',
    "metrics": '"metrics: {type: prometheus, address: URL}"',
    "thresholds": 'for example "thresholds: {cpu: 30, memory: 30}"',
    "targetThresholds": 'for example "targetThresholds: {cpu: 80, memory: 85}"',
    "args": '"args:" with the thresholds and metrics of LoadAware',
    "profiles": '"profiles:" with one that enables LoadAware, as policies/cautious.yaml does',
}


def _missing(location: KeyPath) -> str:
    key = str(location[-1])
    if key in _TO_WRITE:
        return f"is missing; write {_TO_WRITE[key]}."
    fields = [keys(section).get(key) for section in sections_at(location[:-1])]
    text = " ".join(next((field.description or "" for field in fields if field), "").split())
    return f"is missing: {text[:1].lower()}{text[1:]}" if text else "is missing."
