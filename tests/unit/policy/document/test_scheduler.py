import pytest

from desched.policy.policy import (
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
    ScoreWeights,
    ScoringStrategy,
    VolcanoWeights,
)
from tests.unit.policy.published import published, refusal, resolved


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
        ("volcano", {"profile": "Volcano", "arguments": {"binpack.wait": 1}}, "binpack.weight"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused_with_its_place(name, other, why):
    found = refusal(published(**others(**{name: other})))
    assert "others" in found
    assert why in found
