import copy

import msgspec
import pytest

from tests.unit.policy_file.published import PUBLISHED, load


def published_with(plugins):
    document = copy.deepcopy(PUBLISHED)
    document["profiles"][0]["plugins"] = plugins
    return document


@pytest.mark.parametrize(
    "plugins",
    [
        {"balance": {"enabled": [{"name": "LoadAware"}]}},
        {"balance": {"enabled": ["LoadAware"]}, "filter": {"enabled": ["DefaultEvictor"]}},
        {"balance": {"enabled": ["LoadAware"]}, "preEvictionFilter": {"enabled": ["LoadAware"]}},
        {"balance": {"enabled": ["LoadAware"]}, "preevictionfilter": {"enabled": []}},
        {"balance": {"enabled": ["LoadAware"], "disabled": ["*"]}, "presort": None, "sort": {}},
    ],
)
def test_every_spelling_of_the_plugin_lists_is_accepted(plugins):
    assert load(published_with(plugins)).policy.rules == load(PUBLISHED).policy.rules


def test_disabling_default_evictor_does_not_lift_its_protections():
    plugins = {
        "balance": {"enabled": ["LoadAware"]},
        "filter": {"disabled": [{"name": "DefaultEvictor"}]},
    }
    loaded = load(published_with(plugins))
    assert loaded.policy.protections == load(PUBLISHED).policy.protections
    assert "filter.disabled[0]: DefaultEvictor's protections hold" in loaded.warnings[0]


def test_without_a_configuration_default_evictor_has_its_defaults():
    document = copy.deepcopy(PUBLISHED)
    del document["profiles"][0]["pluginConfig"][0]
    protections = load(document).policy.protections
    assert protections.local_storage
    assert protections.system_critical
    assert not protections.pvc_pods


def test_an_idle_configuration_of_a_plugin_of_others_is_ignored_with_a_warning():
    document = copy.deepcopy(PUBLISHED)
    document["profiles"][0]["pluginConfig"].append(
        {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 86400}}
    )
    (warning,) = load(document).warnings
    assert "pluginConfig[2]: PodLifeTime is a plugin of kubernetes-sigs/descheduler" in warning


def test_a_profile_without_plugins_beside_the_one_with_load_aware_changes_nothing():
    document = copy.deepcopy(PUBLISHED)
    document["profiles"].insert(0, {"name": "empty"})
    found, expected = load(document).policy, load(PUBLISHED).policy
    assert msgspec.structs.replace(found, digest=expected.digest) == expected


def test_null_means_that_an_optional_key_is_not_set():
    document = copy.deepcopy(PUBLISHED)
    document.update(nodeSelector=None, maxNoOfPodsToEvictTotal=None)
    for config in document["profiles"][0]["pluginConfig"]:
        config["args"].update(nodeSelector=None, labelSelector=None, nodeFit=None, kind=None)
    assert load(document).policy.rules == load(PUBLISHED).policy.rules
    assert load(document).policy.node_selector == load(PUBLISHED).policy.node_selector
