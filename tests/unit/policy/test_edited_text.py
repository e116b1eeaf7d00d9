"""Values are changed in a policy's own text; all else stays as its author wrote it."""

from typing import Any

import pytest

from desched.policy.edited_text import Edit, edited_text
from desched.policy.loading import PolicyText
from desched.policy.reading.envelope import find_policy
from desched.policy.reading.findings import KeyPath

ARGS: KeyPath = ("profiles", 0, "pluginConfig", 0, "args")
TEXT = """# ours
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: a   # the only one
  pluginConfig:
  - name: LoadAware
    args:
      # as agreed in May
      targetThresholds: {cpu: 80, memory: 85}   # of a node
      windows:
        cpu:
        - 5m
        - 15m   # long
      sustainedFor: "10m"   # patient
      evictionLimits:
        # a few
        total: 5%   # of all
      inFlight: {}
      empty:
      stopMargin: 5   # last
      # the end
  plugins: {balance: {enabled: [LoadAware]}}
"""


def edited(text: str, *edits: tuple[str, object]) -> str | None:
    """The text with values of LoadAware, and the document that it should be."""
    document: Any = find_policy(text, "f")[0].value
    paths: list[Edit] = [((*ARGS, *key.split(".")), value) for key, value in edits]
    for path, value in paths:
        inner = document
        for part in path[:-1]:
            if isinstance(inner, dict) and not inner.get(part):
                inner[part] = {}
            inner = inner[part]
        if value is None:
            inner.pop(path[-1])
        else:
            inner[path[-1]] = value
    return edited_text(PolicyText(text, "f"), paths, document)


@pytest.mark.parametrize(
    ("key", "value", "before", "after"),
    [
        ("sustainedFor", "5m", 'sustainedFor: "10m"   #', "sustainedFor: 5m   #"),
        ("targetThresholds.cpu", 75, "{cpu: 80, memory", "{cpu: 75, memory"),
        ("targetThresholds.gpu", 75, "{cpu: 80, memory", "{gpu: 75, cpu: 80, memory"),
        ("windows.cpu", ["10m"], "cpu:\n        - 5m\n        - 15m   #", "cpu: [10m]   #"),
        ("windows.memory", ["9m"], "15m   # long", "15m   # long\n        memory: [9m]"),
        ("evictionLimits.node", 2, "5%   # of all", "5%   # of all\n        node: 2"),
        ("steering", "Off", "5   # last", "5   # last\n      steering: 'Off'"),
        ("limits.a.b", 1, "5   # last", "5   # last\n      limits: {a: {b: 1}}"),
        ("inFlight.total", 3, "inFlight: {}", "inFlight: {total: 3}"),
        ("empty.total", 3, "empty:", "empty: {total: 3}"),
    ],
)
def test_only_the_value_changes(key: str, value: object, before: str, after: str) -> None:
    assert before in TEXT
    assert edited(TEXT, (key, value)) == TEXT.replace(before, after)


def test_a_key_is_taken_away_with_its_line() -> None:
    text = TEXT.replace("of all\n", "of all\n        node: 1\n")
    found = edited(text, ("evictionLimits.total", None))
    assert found == text.replace("        total: 5%   # of all\n", "")


def test_several_values_change() -> None:
    found = edited(TEXT, ("evictionLimits.node", 2), ("limits.a", 1), ("limits.b", 2))
    assert found is not None
    assert [line for line in found.splitlines() if line not in TEXT.splitlines()] == [
        "        node: 2",
        "      limits: {b: 2, a: 1}",
    ]


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace('"10m"', "&it 10m").replace("stopMargin: 5", "other: *it"),
        TEXT.replace("sustainedFor:", "? sustainedFor\n      :"),
        '{"profiles": [{"pluginConfig": [{"args": {"sustainedFor": "10m"}}]}]}',
    ],
)
def test_a_text_that_cannot_be_edited_safely_is_left(text: str) -> None:
    assert edited(text, ("sustainedFor", "5m")) is None


def test_a_mapping_does_not_lose_its_only_key() -> None:
    assert edited(TEXT, ("evictionLimits.total", None)) is None
