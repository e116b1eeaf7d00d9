"""All that is wrong with a file is found at once, each thing at its place."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from desched.errors import ConfigurationError
from desched.policy_file.loading import load_policy, parse_policy, read_policy, validate_policy
from desched.policy_keys.findings import FindingRule, InvalidPolicy, PolicyFinding, Severity
from tests.unit.policy_file.published import PUBLISHED_TEXT, published

MISTAKES = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: first
  pluginConfig:
  - name: LoadAware
    args:
      metrics:
        type: prometheus
        address: http://${PROMETHEUS}:9090
      targetThresholds: {cpu: 0.8, memory: 85%}
      thresholds: {cpu: 30, memory: 90}
      duration: 25h
      duration: 7m
      evictionPrice: 5min
      evictLocalStorage: true
      windows:
        cpu: 7d
      nodeSelector: pool=web
  plugins:
    balance:
      enabled:
      - LoadAwar
"""
ARGS = "profiles[0].pluginConfig[0].args"
FOUND = [
    (10, 9, f"{ARGS}.metrics.address", "holds"),
    (11, 26, f"{ARGS}.targetThresholds.cpu", "found 0.8"),
    (12, 29, f"{ARGS}.thresholds.memory", "found 90, which is above"),
    (14, 7, f"{ARGS}.duration", "is repeated"),
    (15, 7, f"{ARGS}.evictionPrice", '"5min" is not a duration; write "5m".'),
    (16, 7, f"{ARGS}.evictLocalStorage", "unknown key"),
    (18, 9, f"{ARGS}.windows.cpu", 'found a window of "168h"'),
    (19, 7, f"{ARGS}.nodeSelector", "limits only destinations in Volcano's"),
    (20, 3, "profiles[0].plugins", "LoadAware is configured but not enabled"),
    (23, 9, "profiles[0].plugins.balance.enabled[0]", 'found "LoadAwar"'),
]


def findings(text: str) -> tuple[PolicyFinding, ...]:
    return validate_policy(text, "f").findings


def located(found: PolicyFinding) -> tuple[int, int, str]:
    assert found.place
    return (*found.place, found.key)


@pytest.mark.parametrize("indent", [0, 2, 7])
def test_every_mistake_of_a_file_is_found_at_once_also_inside_a_config_map(indent: int) -> None:
    text, above = MISTAKES, 0
    if indent:
        head = "kind: ConfigMap\ndata:\n  policy.yaml: |  # the policy\n\n"
        text, above = head + textwrap.indent(text, " " * (indent + 2)), head.count("\n")
        indent += 2
    found = findings(text)
    assert [located(each) for each in found] == [
        (line + above, column + indent, key) for line, column, key, _ in FOUND
    ]
    for each, (*_, words) in zip(found, FOUND, strict=True):
        assert each.text.startswith(words)
    assert [each.severity for each in found].count(Severity.WARNING) == 1


def test_a_refused_policy_lists_errors_only_and_a_valid_one_has_its_warnings() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        parse_policy(MISTAKES, "f")
    assert len(str(caught.value).splitlines()) == len(FOUND) - 1
    valid = PUBLISHED_TEXT.replace("nodeFit: true", "nodeFit: false")
    policy, (warning,) = validate_policy(valid, "f")
    assert policy is not None
    assert (warning.severity, warning.rule) == (Severity.WARNING, FindingRule.MEANING)
    assert parse_policy(valid, "f").warnings == (warning.line,)


def test_what_one_mistake_causes_is_not_reported_again() -> None:
    args: dict[str, Any] = {"targetThresholds": {"cpu": "eighty", "memory": 85}, "stopMargin": 90}
    (target, margin) = findings(json.dumps(published(load_aware=args)))
    assert target.key.endswith("targetThresholds.cpu")
    assert margin.text.startswith("found 90, which is more than targetThresholds.memory")


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        ({"targetThresholds": {"cpu": 0.8, "memory": 85}}, "80"),
        ({"targetThresholds": {"cpu": "80", "memory": 85}}, "80"),
        ({"evictionLimits": {"total": 0.05}}, '"5%"'),
        ({"evictionLimits": {"total": "3"}}, "3"),
        ({"maxLandingRisk": 20}, "0.2"),
        ({"numberOfNode": 3}, "numberOfNodes"),
        ({"steering": "never"}, ""),
        ({"compatibility": "strict"}, "Strict"),
    ],
)
def test_what_to_write_instead_is_there_where_only_one_text_is_meant(
    found: dict[str, Any], instead: str
) -> None:
    (finding,) = findings(json.dumps(published(load_aware=found)))
    assert finding.instead == instead


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        ("targetThresholds", {"cpu": "85%", "memory": "90.5%"}, {"cpu": 85, "memory": 90.5}),
        ("stopMargin", "4%", 4),
        ("maxLandingRisk", "20%", 0.2),
        ("evictionPrice", "0d", "0s"),
    ],
)
def test_a_percentage_and_days_may_be_written_as_people_do(
    key: str, value: object, same: object
) -> None:
    texts = (json.dumps(published(load_aware={key: each})) for each in (value, same))
    written, plain = (parse_policy(text, "f").policy for text in texts)
    assert written.rules == plain.rules
    assert written.max_landing_risk == plain.max_landing_risk
    assert written.eviction_price_minutes == plain.eviction_price_minutes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb:\n\t- c\n", "f:3: a tab is used for indentation, which YAML forbids; write"),
        ("a: {{ x }\n", "if it is a template, render it first."),
        ("a: {{ x }}\n", "f:1: a: a key must be a text, not a list or a mapping; if this is a"),
    ],
)
def test_what_is_no_yaml_for_a_usual_reason_gets_that_reason(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_policy(text, "f")
    assert sentence in str(caught.value)


def test_a_target_that_nearly_every_node_exceeds_gets_a_warning() -> None:
    args = {"targetThresholds": {"cpu": 5, "memory": 85}, "thresholds": {"cpu": 2, "memory": 30}}
    (warning,) = findings(json.dumps(published(load_aware=args)))
    assert warning.severity is Severity.WARNING
    assert "nearly every node" in warning.text


def test_a_file_that_cannot_be_read_has_no_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        read_policy(tmp_path / "none.yaml")
    (finding,) = caught.value.findings
    assert finding.place is None
    assert finding.rule is FindingRule.FILE


def test_a_file_as_powershell_writes_it_is_named_so(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(PUBLISHED_TEXT.encode("utf-16"))
    with pytest.raises(ConfigurationError, match="UTF-16 text, as PowerShell writes it"):
        load_policy(file)
