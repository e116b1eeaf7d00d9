import json

import jsonschema
import pytest
import yaml

from desched.model.resources import Resource
from desched.plugins import HOUSE
from desched.policy.policy import (
    MetricsSource,
    Policy,
    PriorityThreshold,
    Protections,
    ResourceRule,
)
from desched.policy_file.loading import load_policy, parse_policy
from tests.unit.policy_file.published import POLICIES, PUBLISHED, PUBLISHED_TEXT

FILES = sorted(POLICIES.glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((POLICIES / "desched-policy.schema.json").read_text())
)


def test_the_published_config_map_means_what_its_users_expect():
    loaded = load_policy(POLICIES / "volcano-published.yaml")
    expected = Policy(
        source=str(POLICIES / "volcano-published.yaml"),
        digest=loaded.policy.digest,
        rules=(
            ResourceRule(Resource.MEMORY, 0.3, 0.85, 0.05, 0.1, (300,)),
            ResourceRule(Resource.CPU, 0.3, 0.8, 0.05, 0.1, (300,)),
        ),
        metrics=MetricsSource("http://prometheus-server.kube-system.svc.cluster.local:80"),
        protections=Protections(
            priority_threshold=PriorityThreshold(value=10_000),
            pvc_pods=True,
            excluded_namespaces=("default",),
        ),
        eviction_price_minutes=5,
        plugins=HOUSE,
        deviation_floor_ratio=0.5,
    )
    assert loaded.policy == expected
    (warning,) = loaded.warnings
    assert "evictableNamespaces.exclude: names default, where kubectl creates objects" in warning


def test_the_shipped_config_map_is_refused_as_long_as_its_metrics_are_null():
    text = (POLICIES / "volcano-shipped.yaml").read_text()
    as_shipped = text.replace("type: prometheus", "type: null")
    assert parse_policy(text, "p").policy.protections.excluded_namespaces == ("kube-system",)
    with pytest.raises(Exception, match=r"^p:\d+: .*metrics\.type: is null") as caught:
        parse_policy(as_shipped, "p")
    line = int(str(caught.value).split(":")[1])
    assert as_shipped.splitlines()[line - 1].strip() == "type: null"


def test_the_pools_of_the_example_have_the_lines_that_its_comments_tell():
    policy = load_policy(POLICIES / "node-pools.yaml").policy
    gpu, general = (
        policy.pool_of(labels) for labels in ({"nvidia.com/gpu.present": "true"}, {"other": ""})
    )
    assert (gpu.name, general.name) == ("gpu", "general")
    cpu = next(rule for rule in gpu.rules if rule.resource is Resource.CPU)
    assert cpu.target_ratio - cpu.stop_margin_ratio == pytest.approx(0.55)
    assert cpu.target_ratio - cpu.ceiling_margin_ratio == pytest.approx(0.5)
    assert general.rules == policy.rules


def test_the_document_inside_the_config_map_means_the_same_by_itself():
    inner = yaml.safe_load(PUBLISHED_TEXT)["data"]["policy.yaml"]
    assert parse_policy(inner, "p").policy == parse_policy(PUBLISHED_TEXT, "p").policy


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_policy_of_our_own_loads_without_a_warning(file):
    warnings = load_policy(file).warnings
    assert warnings == () or file.name == "volcano-published.yaml"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_policy_in_the_repository_satisfies_the_json_schema(file):
    document = yaml.safe_load(file.read_text())
    if document["kind"] == "ConfigMap":
        document = yaml.safe_load(document["data"]["policy.yaml"])
    VALIDATOR.validate(document)


@pytest.mark.parametrize(
    "broken",
    [
        {**PUBLISHED, "profile": []},
        {**PUBLISHED, "profiles": [{"plugins": {"balance": {"enabled": ["LowNodeLoad"]}}}]},
        {**PUBLISHED, "profiles": [{"pluginConfig": [{"name": "LoadAware", "args": {}}]}]},
    ],
    ids=["unknown key", "plugin of others", "no thresholds"],
)
def test_the_json_schema_refuses_what_loading_refuses(broken):
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(broken)


def test_two_policies_differ_in_their_digest_and_comments_do_not_matter():
    digest = parse_policy(PUBLISHED_TEXT, "a").policy.digest
    commented = PUBLISHED_TEXT.replace("    profiles:", "    # why\n    profiles:")
    changed = PUBLISHED_TEXT.replace("cpu: 80", "cpu: 81")
    assert parse_policy(commented, "b").policy.digest == digest
    assert parse_policy(changed, "a").policy.digest != digest
