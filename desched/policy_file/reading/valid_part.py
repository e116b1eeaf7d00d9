"""What remains of a policy without its problems, so that those of the rest are found at once."""

import copy
from collections.abc import Iterable
from typing import Any

from desched.policy_keys.findings import KeyPath
from desched.policy_keys.section import API_VERSION, KIND

_STAND_INS: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metrics": {"type": "prometheus"},
    "type": "prometheus",
}
"""In place of required keys that are missing or wrong."""
_EXTREMES = {"thresholds": 0, "targetThresholds": 100}
"""In place of percentages that are wrong: all other keys go with them."""
_RESOURCES = ("cpu", "memory")


def valid_part(value: object, problems: Iterable[KeyPath]) -> object:
    """The policy without the keys of these problems."""
    remains = copy.deepcopy(value)
    for path in problems:
        _leave_out(remains, path)
    return remains


def _leave_out(document: Any, path: KeyPath) -> None:
    while path and isinstance(path[-1], int):  # a shorter list would shift the indices of others
        path = path[:-1]
    section = document
    for part in path[:-1]:
        try:
            section = section[part]
        except (LookupError, TypeError):  # it went with another problem
            return
    if not path or not isinstance(section, dict):
        return
    key = str(path[-1])
    section.pop(key, None)
    extreme = _EXTREMES.get(str(path[-2])) if len(path) > 1 else None
    if extreme is not None and key in _RESOURCES:
        section[key] = extreme
    elif key in _EXTREMES:
        (other,) = _EXTREMES.keys() - {key}
        resources = section.get(other) or _RESOURCES
        section[key] = dict.fromkeys(resources, _EXTREMES[key]) if _is_keys(resources) else None
    elif key in _STAND_INS:
        section[key] = copy.deepcopy(_STAND_INS[key])


def _is_keys(value: object) -> bool:
    return isinstance(value, dict | tuple)
