"""Placeholders of templates that nothing filled in, such as `${PROMETHEUS}`."""

import re
from collections.abc import Iterator

from desched.policy.reading.findings import KeyPath

_PLACEHOLDER = re.compile(r"\$\{[^}]*\}|\$\([A-Za-z_][A-Za-z0-9_]*\)|\{\{.*?\}\}")


def placeholders(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """The path of each text that holds a placeholder, and its first placeholder."""
    if isinstance(value, str):
        if found := _PLACEHOLDER.search(value):
            yield path, found[0]
    elif isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield from placeholders(below, (*path, key))
