import pytest

from desched.model.volcano_scheduler import VolcanoConfiguration
from desched.policy.schedulers import (
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
    ScoreWeights,
    ScoringStrategy,
    VolcanoWeights,
)
from tests.unit.policy_file.published import published, refusal, resolved


def test_without_keys_the_scheduler_is_as_it_comes_and_the_risk_is_15_percent():
    policy = resolved()
    assert policy.scheduler == SchedulerRules()
    assert policy.max_landing_risk == 0.15


def test_a_strategy_and_a_weight_change_nothing_else():
    scheduler = {"strategy": "MostAllocated", "weights": {"ImageLocality": 0, "NodeAffinity": None}}
    found = resolved(load_aware={"scheduler": scheduler}).scheduler
    assert found.strategy is ScoringStrategy.MOST_ALLOCATED
    assert found.weights == ScoreWeights(image_locality=0)


@pytest.mark.parametrize("risk", [0, 0.3, 1])
def test_the_risk_is_a_probability(risk):
    assert resolved(load_aware={"maxLandingRisk": risk}).max_landing_risk == risk


@pytest.mark.parametrize(
    "load_aware",
    [
        {"maxLandingRisk": 15},
        {"maxLandingRisk": -0.1},
        {"scheduler": {"strategy": "RequestedToCapacityRatio"}},
        {"scheduler": {"weights": {"ImageLocality": 101}}},
        {"scheduler": {"weights": {"imageLocality": 1}}},
    ],
)
def test_what_the_scheduler_does_not_have_is_refused_with_its_place(load_aware):
    assert next(iter(load_aware)) in refusal(published(load_aware=load_aware))


def others(**named):
    return {"load_aware": {"scheduler": {"others": named}}}


def test_other_schedulers_have_a_profile_and_what_differs_from_it():
    found = resolved(
        **others(
            volcano={"profile": "Volcano"},
            batch={
                "profile": "Volcano",
                "arguments": {"binpack.weight": 0, "tainttoleration.weight": 5},
                "furtherPoints": 100,
            },
            packing={"profile": "KubeScheduler", "strategy": "MostAllocated"},
            aware={"profile": "Volcano", "networkTopologyAware": True},
        )
    ).scheduler.others
    assert found["volcano"] == OtherScheduler(SchedulerProfile.VOLCANO)
    assert found["batch"].volcano == VolcanoWeights(binpack=0, taint_toleration=5)
    assert found["batch"].further_points == 100
    assert found["aware"].network_topology_aware
    assert found["aware"].further_points == 100
    assert found["packing"].strategy is ScoringStrategy.MOST_ALLOCATED


@pytest.mark.parametrize(
    ("name", "other", "why"),
    [
        ("volcano", {}, "profile"),
        ("volcano", {"profile": "YuniKorn"}, "Volcano"),
        ("Volcano!", {"profile": "Volcano"}, "schedulerName"),
        ("default-scheduler", {"profile": "KubeScheduler"}, "is kube-scheduler itself"),
        ("volcano", {"profile": "Volcano", "strategy": "MostAllocated"}, "for profile: Kube"),
        ("kai-scheduler", {"profile": "KAI", "arguments": {}}, "for profile: Volcano"),
        ("kai-scheduler", {"profile": "KAI", "configMap": "a/b"}, "for profile: Volcano"),
        ("volcano", {"profile": "Volcano", "arguments": {"binpack.wait": 1}}, "binpack.weight"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused_with_its_place(name, other, why):
    found = refusal(published(**others(**{name: other})))
    assert "others" in found
    assert why in found


PLACE = "volcano-system/volcano-scheduler-configmap"
WEIGHTS = dict(VolcanoWeights().arguments)


def by_config_map(found=None, **keys):
    """Volcano as in the policy and in its configuration."""
    named = {"volcano": {"profile": "Volcano", "configMap": PLACE, **keys}}
    rules = resolved(**others(**named)).scheduler
    assert rules.volcano_configurations == (PLACE,)
    return rules.by({} if found is None else {PLACE: found})


def test_a_scheduler_has_the_weights_of_its_configuration():
    stated = VolcanoConfiguration(WEIGHTS | {"binpack.weight": 0, "tainttoleration.weight": 7})
    found = by_config_map(stated).known("volcano")
    assert found.volcano == VolcanoWeights(binpack=0, taint_toleration=7)
    assert found.differing == ""


def test_what_the_policy_writes_counts_before_it_and_the_difference_is_named():
    stated = VolcanoConfiguration(WEIGHTS | {"binpack.weight": 0, "nodeaffinity.weight": 9})
    arguments = {"binpack.weight": 5, "nodeaffinity.weight": 9}
    found = by_config_map(stated, arguments=arguments).known("volcano")
    assert found.volcano == VolcanoWeights(binpack=5, node_affinity=9)
    assert found.differing == f"binpack.weight is 5 in the policy and 0 in ConfigMap {PLACE}"


def test_nothing_is_known_of_a_scheduler_whose_configuration_is_not_clear():
    unreadable = VolcanoConfiguration(unclear="it is no YAML")
    for found, why in (None, "it was not read"), (unreadable, "it is no YAML"):
        rules = by_config_map(found, arguments={"binpack.weight": 5})
        assert rules.known("volcano") is None
        assert rules.unclear("volcano") == f"ConfigMap {PLACE}: {why}"
    assert rules.unclear("kai-scheduler") == ""


def test_plugins_that_may_give_points_require_a_number_of_them():
    stated = VolcanoConfiguration(WEIGHTS, further=("usage",))
    assert "it has usage, and the policy has no furtherPoints" in by_config_map(stated).unclear(
        "volcano"
    )
    assert by_config_map(stated, furtherPoints=500).known("volcano").further_points == 500


def test_a_plugin_that_the_policy_names_has_to_be_in_the_configuration():
    """R2.4: without it, Volcano keeps no gang in a HyperNode."""
    keys = {"networkTopologyAware": True, "furtherPoints": 100}
    without = by_config_map(VolcanoConfiguration(WEIGHTS), **keys).known("volcano")
    assert not without.network_topology_aware
    assert "the plugin network-topology-aware is not in" in without.differing
    further = VolcanoConfiguration(WEIGHTS, further=("network-topology-aware", "usage"))
    assert "no furtherPoints" in by_config_map(further, networkTopologyAware=True).unclear(
        "volcano"
    )
    stated = VolcanoConfiguration(WEIGHTS, further=("network-topology-aware",))
    assert by_config_map(stated, **keys).known("volcano").network_topology_aware


@pytest.mark.parametrize("place", ["volcano", "a/b/c", "A/b", "a/"])
def test_a_config_map_has_a_namespace_and_a_name(place):
    named = {"volcano": {"profile": "Volcano", "configMap": place}}
    assert "with a slash between them" in refusal(published(**others(**named)))
