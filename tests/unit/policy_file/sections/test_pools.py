import pytest

from desched.model.resources import Resource
from tests.unit.policy_file.published import PUBLISHED, load, published, refusal, resolved

BATCH = {"name": "batch", "nodeSelector": "pool=batch"}


def pools(*sections, **load_aware):
    return {"nodePools": list(sections), **load_aware}


def lines(rules):
    return {
        r.resource: (r.low_ratio, r.target_ratio, r.stop_margin_ratio, r.ceiling_margin_ratio)
        for r in rules
    }


def test_the_first_pool_that_selects_a_node_has_it_and_other_nodes_are_outside():
    policy = resolved(load_aware=pools(BATCH, {"name": "all", "nodeSelector": "pool"}))
    assert policy.pool_of({"pool": "batch"}).name == "batch"
    assert policy.pool_of({"pool": "web"}).name == "all"
    outside = policy.pool_of({})
    assert (outside.name, outside.rules) == ("", policy.rules)


def load_aware_entry(selector, cpu, name="LoadAware", **args):
    base = PUBLISHED["profiles"][0]["pluginConfig"][1]["args"]
    own = {"targetThresholds": {"cpu": cpu, "memory": 85}}
    own |= {"nodeSelector": selector} if selector else {}
    return {"name": name, "args": {**base, **own, **args}}


def with_entries(*entries):
    """The published profile with these configurations of LoadAware in place of its own."""
    profile = PUBLISHED["profiles"][0]
    return published(profiles=[{**profile, "pluginConfig": [profile["pluginConfig"][0], *entries]}])


def with_profiles(*entries):
    """A profile as the published one for each configuration of LoadAware."""
    return published(profiles=[with_entries(entry)["profiles"][0] for entry in entries])


@pytest.mark.parametrize("document", [with_entries, with_profiles])
def test_several_load_aware_entries_are_pools_and_nodes_outside_are_not_looked_at(document):
    entries = load_aware_entry("pool=batch", 95), load_aware_entry("pool=web", 70)
    policy = load(document(*entries)).policy
    assert [(p.name, lines(p.rules)[Resource.CPU][1]) for p in policy.pools] == [
        ("kube-system", 0.95),
        ("kube-system-2", 0.7),
    ]
    assert policy.pool_of({"pool": "web"}).name == "kube-system-2"
    assert policy.looks_at({"pool": "batch"})
    assert not policy.looks_at({"pool": "other"})


def test_the_last_of_several_entries_may_be_for_all_other_nodes():
    entries = load_aware_entry("pool=batch", 95), load_aware_entry("", 70)
    policy = load(with_entries(*entries)).policy
    assert policy.looks_at({"pool": "other"})
    assert policy.pool_of({"pool": "other"}).name == "kube-system-2"


def test_several_profiles_must_protect_the_same_pods():
    first, second = with_profiles(load_aware_entry("a", 80), load_aware_entry("b", 80))["profiles"]
    second["pluginConfig"][0] = {"name": "DefaultEvictor", "args": {"minReplicas": 2}}
    assert "profiles[1].pluginConfig[0].args: differs from that of the first" in refusal(
        published(profiles=[first, second])
    )
