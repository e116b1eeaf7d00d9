"""Whatever a file holds, the answer is a policy or a ConfigurationError with a line."""

import copy
import json
import re
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from desched.errors import ConfigurationError
from desched.policy.loading import parse_policy
from tests.unit.policy.published import PUBLISHED, PUBLISHED_TEXT

SHORT = settings(max_examples=150, deadline=None)
YAML_PIECES = [
    "a",
    ":",
    " ",
    "\n",
    "-",
    "[",
    "]",
    "{",
    "}",
    "&x",
    "*x",
    "!",
    "|",
    ">",
    '"',
    "'",
    "\\",
    "#",
    "---",
    "...",
    "%",
    "<<",
    "? ",
    "1",
    ".nan",
    "0x",
    "0b_",
    "1:30",
    "~",
    "\t",
    ",",
]
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["5m", "LoadAware", "prometheus", "a=b", "PodsWithPVC", "80"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def answer(text: str) -> None:
    try:
        loaded = parse_policy(text, "f")
    except ConfigurationError as error:
        for line in str(error).splitlines():
            assert re.match(r"f:\d+: .*[.?]$|… and \d+ more problems\.$", line), line
    else:
        assert loaded.policy.rules


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value inside a document."""
    found: list[tuple[str | int, ...]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        found.append((*path, key))
        if isinstance(below, dict | list):
            found += places(below, (*path, key))
    return found


@SHORT
@given(st.text(max_size=200) | st.lists(st.sampled_from(YAML_PIECES)).map("".join))
def test_any_text_gives_a_policy_or_a_configuration_error(text):
    answer(text)


@SHORT
@given(st.text(max_size=8), st.integers(0, len(PUBLISHED_TEXT)), st.integers(0, 20))
def test_any_damage_to_the_published_text_gives_a_policy_or_a_configuration_error(
    inserted, position, removed
):
    answer(PUBLISHED_TEXT[:position] + inserted + PUBLISHED_TEXT[position + removed :])


@SHORT
@given(
    st.sampled_from(places(PUBLISHED)),
    st.sampled_from(["drop", "rename", "retype"]),
    JSON_VALUES,
    st.text(max_size=12),
    st.booleans(),
)
def test_any_change_of_the_published_document_gives_a_policy_or_a_configuration_error(
    path, change, value, name, as_yaml
):
    document = copy.deepcopy(PUBLISHED)
    parent: Any = document
    for part in path[:-1]:
        parent = parent[part]
    if change == "retype":
        parent[path[-1]] = value
    else:
        old = parent.pop(path[-1])
        if change == "rename" and isinstance(parent, dict):
            parent[name] = old
    answer(yaml.safe_dump(document) if as_yaml else json.dumps(document))
