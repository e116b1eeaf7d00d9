import pytest

from desched.policy.policy import SchedulerRules, ScoreWeights, ScoringStrategy
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
