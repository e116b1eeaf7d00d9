import msgspec
import pytest

from desched.model.resources import Resource
from tests.unit.policy_file.published import PUBLISHED, load, published, refusal, resolved, warnings

PATH = "profiles[0].pluginConfig[1].args"
BATCH = {"name": "batch", "nodeSelector": "pool=batch"}


def pools(*sections, **load_aware):
    return {"nodePools": list(sections), **load_aware}


def lines(rules):
    return {
        r.resource: (r.low_ratio, r.target_ratio, r.stop_margin_ratio, r.ceiling_margin_ratio)
        for r in rules
    }


def test_a_pool_has_what_it_does_not_set_from_load_aware():
    policy = resolved(load_aware=pools({**BATCH, "targetThresholds": {"cpu": 95}, "stopMargin": 8}))
    (batch,) = policy.pools
    assert batch.name == "batch"
    assert batch.selector.matches({"pool": "batch"})
    assert lines(batch.rules) == {
        Resource.MEMORY: (0.3, 0.85, 0.08, 0.1),
        Resource.CPU: (0.3, 0.95, 0.08, 0.1),
    }
    assert lines(policy.rules)[Resource.CPU] == (0.3, 0.8, 0.05, 0.1)


def test_the_first_pool_that_selects_a_node_has_it_and_other_nodes_are_outside():
    policy = resolved(load_aware=pools(BATCH, {"name": "all", "nodeSelector": "pool"}))
    assert policy.pool_of({"pool": "batch"}).name == "batch"
    assert policy.pool_of({"pool": "web"}).name == "all"
    outside = policy.pool_of({})
    assert (outside.name, outside.rules) == ("", policy.rules)


def test_a_pool_has_the_windows_of_load_aware():
    policy = resolved(load_aware=pools(BATCH, windows={"cpu": ["5m", "1h"]}))
    assert policy.pools[0].rules[1].windows_seconds == (300, 3600)
    assert policy.pools[0].rules[1].windows_seconds == policy.rules[1].windows_seconds


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        (
            [{**BATCH, "targetThresholds": {"pods": 90}}],
            (
                f"{PATH}.nodePools[0].targetThresholds.pods: has no effect, because LoadAware's "
                "own targetThresholds has no pods; add it there, because a pool only changes "
                "numbers."
            ),
        ),
        (
            [{**BATCH, "thresholds": {"cpu": 90}}],
            (
                f"{PATH}.nodePools[0].thresholds.cpu: found 90, which is above "
                "targetThresholds.cpu (80)"
            ),
        ),
        (
            [{**BATCH, "targetThresholds": {"cpu": 0}}],
            f"{PATH}.nodePools[0].targetThresholds.cpu: found 0, which makes every node overloaded",
        ),
        (
            [BATCH, {**BATCH, "nodeSelector": "other"}],
            f"{PATH}.nodePools[1].name: is the name of an earlier pool; give each its own.",
        ),
        ([{"name": "batch"}], f"{PATH}.nodePools[0].nodeSelector"),
        ([{**BATCH, "windows": {}}], f"{PATH}.nodePools[0].windows: "),
    ],
)
def test_a_mistake_in_a_pool_gets_its_own_sentence(sections, sentence):
    assert sentence in refusal(published(load_aware=pools(*sections)))


@pytest.mark.parametrize(
    ("given", "minutes"),
    [
        ({}, 5),
        ({"evictionPrice": "0s"}, 0),
        ({"evictionPrice": "90s"}, 1.5),
        ({"evictionPrice": "2h"}, 120),
        ({"metrics": {"type": "metrics-server"}}, 5),
        ({"compatibility": "Strict"}, 0),
        ({"compatibility": "Strict", "evictionPrice": "10m"}, 10),
    ],
)
def test_a_move_has_a_price_in_minutes_of_expected_overload(given, minutes):
    assert resolved(load_aware=given).eviction_price_minutes == minutes


def test_a_price_that_no_move_can_save_is_refused():
    found = refusal(published(load_aware={"evictionPrice": "121m"}))
    assert 'evictionPrice: found "2h1m", allowed is at most "120m"' in found


@pytest.mark.parametrize("key", ["sustainedFor", "sustainedForAtLeast", "chainedMoves"])
def test_a_key_of_an_earlier_version_has_no_effect_and_a_warning(key):
    value = True if key == "chainedMoves" else "10m"
    (warning,) = warnings(load_aware={key: value}).splitlines()
    assert f".{key}: has no effect" in warning
    changes = resolved(load_aware={key: value})
    assert msgspec.structs.replace(changes, digest="") == msgspec.structs.replace(
        resolved(), digest=""
    )


def test_the_floor_of_deviations_is_half_of_the_capacity_if_nothing_else_is_said():
    assert resolved().deviation_floor_ratio == 0.5
    deviating = {"useDeviationThresholds": True, "deviationFloor": 35}
    assert resolved(load_aware=deviating).deviation_floor_ratio == 0.35
    assert "deviationFloor: has no effect" in warnings(load_aware={"deviationFloor": 35})


def test_destination_windows_have_a_statistic_of_95_percent_if_nothing_else_is_said():
    given = [
        {"window": "1h"},
        {"window": "6h", "statistic": "max"},
        {"window": "1h", "statistic": "avg"},
        {"window": "1h", "statistic": "p5"},
    ]
    policy = resolved(load_aware={"destinationWindows": {"cpu": given}})
    found = [(w.window_seconds, w.quantile) for w in policy.destination_windows(Resource.CPU)]
    assert found == [(3600, 0.95), (21_600, 1.0), (3600, None), (3600, 0.05)]
    assert policy.destination_windows(Resource.MEMORY) == ()


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"window": "1h", "statistic": "p100"}, 'allowed are "max", "avg" and percentiles'),
        ({"window": "1h", "statistic": "MAX"}, 'found "MAX", allowed are "max", "avg" and'),
        ({"window": "1h", "statistic": 95}, 'allowed are "max", "avg" and percentiles'),
        ({"window": "0s"}, 'found a window of "0s", allowed is more than 0'),
        ({"window": "25h"}, 'found a window of "25h", allowed is more than 0'),
    ],
)
def test_a_mistake_in_a_destination_window_gets_its_own_sentence(section, sentence):
    load_aware = {"destinationWindows": {"cpu": [section]}}
    found = refusal(published(load_aware=load_aware))
    assert f"{PATH}.destinationWindows.cpu[0]" in found
    assert sentence in found


def test_a_destination_window_of_a_resource_without_thresholds_gets_a_warning():
    load_aware = {
        "thresholds": {"cpu": 30},
        "targetThresholds": {"cpu": 80},
        "destinationWindows": {"memory": [{"window": "1h"}]},
    }
    assert "destinationWindows.memory: has no effect" in warnings(load_aware=load_aware)


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


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        (
            [load_aware_entry("a", 80), load_aware_entry("b", 80, numberOfNodes=1)],
            (
                "pluginConfig[2].args.numberOfNodes: differs from that of the first LoadAware "
                "entry; one cycle serves all of them, so they may differ only in nodeSelector, "
                "thresholds, targetThresholds, stopMargin and ceilingMargin."
            ),
        ),
        (
            [load_aware_entry("a", 80), load_aware_entry("b", 80, nodePools=[BATCH])],
            "pluginConfig[2].args.nodePools: cannot be combined with a second LoadAware entry",
        ),
        (
            [
                load_aware_entry("a", 80),
                load_aware_entry("b", 80, thresholds={"cpu": 1}, targetThresholds={"cpu": 80}),
            ],
            "pluginConfig[2].args.targetThresholds: names other resources",
        ),
        (
            [load_aware_entry("", 80), load_aware_entry("b", 80)],
            "pluginConfig[1].args: has no nodeSelector, so the LoadAware entries after it",
        ),
    ],
)
def test_several_entries_may_only_differ_in_their_nodes_and_lines(entries, sentence):
    assert sentence in refusal(with_entries(*entries))


def test_several_profiles_must_protect_the_same_pods():
    first, second = with_profiles(load_aware_entry("a", 80), load_aware_entry("b", 80))["profiles"]
    second["pluginConfig"][0] = {"name": "DefaultEvictor", "args": {"minReplicas": 2}}
    assert "profiles[1].pluginConfig[0].args: differs from that of the first" in refusal(
        published(profiles=[first, second])
    )


@pytest.mark.parametrize("value", [True, False])
def test_a_key_that_has_no_effect_any_more_gets_a_warning(*, value):
    assert "chainedMoves: has no effect any more" in warnings(load_aware={"chainedMoves": value})
