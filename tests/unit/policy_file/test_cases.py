"""Policies that differ from the published one: what each means, warns of, or is refused for.

Each file of `cases/`, and `policies.yaml` beside the tests of a plugin, has sentences, and below
each the changes that show it. What comes of them is in the text beside it, which `WRITE_TABLES=1`
writes.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from desched.errors import ConfigurationError
from desched.planning.plugins import Plugin
from desched.policy.policy import Policy
from desched.policy_file.loading import parse_policy
from tests.repository import ROOT
from tests.stored_text import check_stored, sections
from tests.unit.policy_file.published import PUBLISHED, REMOVED, published

CASES = Path(__file__).parent / "cases"
OF_PLUGINS = (ROOT / "tests" / "unit" / "plugins").glob("*/policies.yaml")
FILES = {file.stem: file for file in sorted(CASES.glob("*.yaml"))} | {
    file.parent.name: file for file in sorted(OF_PLUGINS)
}
NOT_SHOWN = {"digest", "source"}
"""What is made of the text of a file, and its name."""


def document(case: dict[str, Any]) -> str:
    """The published policy with the changes of a case, of which `(removed)` removes a key."""
    if "text" in case:
        return str(case["text"])
    changes = {key: _marked(case.get(key, {})) for key in ("loadAware", "defaultEvictor", "root")}
    found = published(
        load_aware=changes["loadAware"], evictor=changes["defaultEvictor"], **changes["root"]
    )
    for profile in found["profiles"][:1] if "profiles" in found else ():
        profile.update(case.get("profile", {}))
        if "moreConfig" in case:
            profile["pluginConfig"] += case["moreConfig"]
    return json.dumps(found)


def _marked(changes: dict[str, Any]) -> dict[str, Any]:
    return {key: REMOVED if value == "(removed)" else value for key, value in changes.items()}


def outcome(text: str) -> str:
    """The refusal; else the warnings, and each value that the published policy has not."""
    try:
        loaded = parse_policy(text, "policy.yaml")
    except ConfigurationError as refused:
        return f"refused: {refused}"
    return "\n".join(["accepted", *loaded.warnings, *_differences(loaded.policy)])


def _differences(policy: Policy) -> Iterator[str]:
    before, after = (dict(_values(each)) for each in (PUBLISHED_POLICY, policy))
    for place in sorted(before.keys() | after.keys()):
        if before.get(place) != after.get(place):
            yield f"{place} = {after.get(place, 'nothing')}"


def _values(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Each value in another one, by where it is."""
    match value:
        case msgspec.Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            for name in fields.keys() - NOT_SHOWN:
                yield from _values(fields[name], f"{place}.{name}".lstrip("."))
        case dict() if value:
            for key, each in value.items():
                yield from _values(each, f"{place}[{key}]")
        case tuple() if value:
            for number, each in enumerate(value):
                at = type(each).__name__ if isinstance(each, Plugin) else number
                yield from _values(each, f"{place}[{at}]")
        case frozenset():
            yield place, str(sorted(value))
        case _:
            yield place, str(value)


PUBLISHED_POLICY = parse_policy(json.dumps(PUBLISHED), "policy.yaml").policy


def test_every_value_of_the_published_policy_is_held() -> None:
    values = sorted(f"{place} = {value}" for place, value in _values(PUBLISHED_POLICY))
    check_stored(CASES / "published.txt", "\n".join(values) + "\n")


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_each_case_has_its_outcome(file: Path) -> None:
    found = {}
    for sentence, cases in yaml.safe_load(file.read_text()).items():
        lines = (f"{json.dumps(case)}\n{outcome(document(case))}\n" for case in cases)
        found[sentence] = "\n".join(lines)
    check_stored(file.with_suffix(".txt"), sections(found))
