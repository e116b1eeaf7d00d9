import json
import subprocess
import sys
from functools import cache

import jsonschema
import pytest

from desched.policy_file.sections.pools import NodePoolSection
from desched.policy_file.sections.root import DeschedulerPolicy
from desched.policy_keys.section import Section, all_sections, keys
from tests.policy_reference import json_schema, reference
from tests.repository import ROOT
from tests.unit.policy_file.published import POLICIES

OF_THE_FIELD = {
    *("apiVersion", "kind", "name", "args", "profiles", "pluginConfig", "plugins"),
    *("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal"),
    *("useDeviationThresholds", "thresholds", "targetThresholds", "numberOfNodes", "nodeFit"),
    *("nodeSelector", "labelSelector", "namespaceLabelSelector", "priorityThreshold"),
    *("evictLocalStoragePods", "evictSystemCriticalPods", "evictFailedBarePods"),
    *("evictDaemonSetPods", "ignorePvcPods", "ignorePodsWithoutPDB", "evictableNamespaces"),
    *(
        "metrics",
        "type",
        "duration",
        "minReplicas",
        "minPodAge",
        "noEvictionPolicy",
        "podProtections",
    ),
}
"""Keys that Volcano and kubernetes-sigs have, too, and document with examples."""

SECTIONS_OF_THE_FIELD = {
    "EvictableNamespaces",
    "LabelSelectorSection",
    "MatchExpression",
    "PVCProtection",
    "PluginSet",
    "Plugins",
    "PodProtections",
    "PriorityThresholdSection",
    "ProtectionConfig",
    "ResourcePercentages",
}
NEEDED = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [{"name": "load"}],
    "type": "prometheus",
    "metrics": {"type": "prometheus"},
    "thresholds": {"cpu": 30},
    "targetThresholds": {"cpu": 80},
}
GENERATED = {
    ROOT / "docs" / "policy-reference.md": [],
    POLICIES / "desched-policy.schema.json": ["--schema"],
}


@pytest.mark.parametrize("file", GENERATED, ids=lambda file: file.name)
def test_the_committed_file_is_what_the_command_prints(file):
    command = [sys.executable, "-m", "tests.policy_reference", *GENERATED[file]]
    printed = subprocess.run(  # noqa: S603 (our own module)
        command, capture_output=True, check=True, cwd=ROOT, encoding="utf-8"
    ).stdout
    assert file.read_text() == printed, f"run: python {' '.join(command[1:])} > {file}"


def test_the_json_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema()))


def test_every_key_of_every_section_is_described_in_the_reference():
    text = reference()
    described: set[type[Section]] = set()
    for _place, section in all_sections(DeschedulerPolicy):
        described.add(section)
        for key, field in keys(section).items():
            assert field.description
            assert f"| `{key}` |" in text
    assert len(described) == text.count("\n## ")


def own_keys():
    """Each key that only desched has, with its section."""
    for section in dict.fromkeys(section for _place, section in all_sections(DeschedulerPolicy)):
        if section.__name__ not in SECTIONS_OF_THE_FIELD:
            of_pool = section is NodePoolSection  # its thresholds are as nobody else has them
            yield from (
                (section, key) for key in keys(section) if of_pool or key not in OF_THE_FIELD
            )


@cache
def schema_of(section):
    return section.model_json_schema()


def test_each_key_of_our_own_has_an_example_that_can_be_written():
    text = reference()
    for section, key in own_keys():
        schema = schema_of(section)
        properties = schema["properties"]
        (example,) = properties[key].get("examples") or pytest.fail(f"{section.__name__}.{key}")
        needed = {
            name: NEEDED.get(name) or properties[name]["examples"][0]
            for name in schema.get("required", ())
        }
        section.model_validate_json(json.dumps({**needed, key: example}))
        own = {**properties[key], "$defs": schema.get("$defs", {})}
        jsonschema.Draft202012Validator(own).validate(example)
        assert f"Example: `{json.dumps(example, ensure_ascii=False)}`" in text
    assert len(list(own_keys())) > 50
