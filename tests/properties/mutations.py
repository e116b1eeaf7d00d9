"""Documents with something wrong in them, as a hostile or broken server could send them."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]

STEERING_TEXTS = (
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31m",
    "\u202egnp.exe\u2066",
    "a\nb\r\x00\x7f\x85\u2028c",
    "\ufffd\U000e0041\U0001f47e",
)
"""What a terminal would obey, or a reader would take for something else."""

HARMFUL_TEXTS = (
    *STEERING_TEXTS,
    "",
    " ",
    "<script>alert(1)</script>",
    '"} or vector(1) #',
    ".*|\\",
    "{0}{x}%s$(id)`id`",
    "../../..",
    "x" * 300,
    "ReplicaSet",
    "Node",
    "te1",
    "web-5d4",
    "uid-web-5d4",
    "Exists",
    "true",
    "False",
)
QUANTITIES = (
    *("0", "-1", "-0", "1e18", "1e400", "-1e400", "1e999999", "1e9999999", "1e-9999", "1e999999Ei"),
    *("0x10", "nan", "-inf", "1_0", "1.5.2", "9" * 40, "9" * 5000, "100n", "1Ki", "8Ei"),
)
TIMES = (
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"),
    *("9999-12-31T23:59:59-14:00", "2026-05-01T12:00:00", "0000-01-01T00:00:00Z", "2026-02-30"),
    *("12:00", "+10000-01-01T00:00:00Z", "2026-05-01T11:59:59.999999999Z"),
)
NUMBERS = (0, -1, 1, 2, 7, 2**31 - 1, 2**31, -(2**31), 10**18, 2**63 - 1, 2**63, -(2**63), 10**30)

texts = st.sampled_from(HARMFUL_TEXTS + QUANTITIES + TIMES) | st.text(max_size=8)
numbers = st.sampled_from(NUMBERS) | st.integers(-3, 9)
floats = st.sampled_from([-0.0, 0.5, 1e-320, 1e308, -1e308])
json_values = st.recursive(
    st.none() | st.booleans() | numbers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)


def paths(tree: Any, here: Path = ()) -> Iterator[Path]:
    """Where there is something in a document, from the outside in."""
    if here:
        yield here
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from paths(value, (*here, key))


def at(tree: Any, path: Path) -> Any:
    """What stands there."""
    for step in path:
        tree = tree[step]
    return tree


@st.composite
def mutated(draw: st.DrawFn, document: Any, most: int = 3) -> Any:
    """The document with a few changes: a value replaced, dropped, added or doubled.

    Most replacements are of the same type, so that they get past the decoder.
    """
    found = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, most))):
        destinations = list(paths(found))
        if destinations:
            _change(draw, found, draw(st.sampled_from(destinations)))
    return found


def _change(draw: st.DrawFn, document: Any, path: Path) -> None:
    parent, key = at(document, path[:-1]), path[-1]
    change = draw(st.sampled_from(["alike"] * 6 + ["any", "drop", "add", "swap"]))
    if change == "alike":
        parent[key] = draw(_alike(parent[key]))
    elif change == "any":
        parent[key] = draw(json_values)
    elif change == "drop":
        parent.pop(key)
    elif change == "swap":
        other = draw(st.sampled_from(list(paths(document))))
        parent[key] = json.loads(json.dumps(at(document, other)))
    elif isinstance(parent, dict):
        parent[draw(texts)] = draw(json_values)
    else:
        parent.insert(int(key), parent[int(key)])


def _alike(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, str):
        return _alike_text(value)
    if isinstance(value, list):
        return st.lists(st.sampled_from(value), max_size=3) if value else st.just([None])
    return _ALIKE[type(value)]


def _alike_text(value: str) -> st.SearchStrategy[str]:
    if "T" in value and value.endswith("Z"):
        return st.sampled_from(TIMES)
    return st.sampled_from(QUANTITIES) if value[:1].isdigit() else texts


_ALIKE: dict[type[Any], st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    type(None): st.booleans(),
    int: numbers,
    float: floats,
    dict: st.dictionaries(texts, texts, max_size=3),
}
