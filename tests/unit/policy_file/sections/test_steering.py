import pytest

from desched.policy.compatibility import SteeringMode
from desched.policy.policy import SteeringRules
from desched.policy.share import Share
from tests.unit.policy_file.published import published, refusal, resolved


def test_without_keys_it_steers_when_needed():
    assert resolved().steering == SteeringRules(SteeringMode.WHEN_NEEDED, Share(0.7))
    assert resolved(load_aware={"steering": None}).steering == SteeringRules()


@pytest.mark.parametrize("word", ["Off", "WhenNeeded", "Always"])
def test_each_word_is_a_mode(word):
    assert resolved(load_aware={"steering": word}).steering.mode == word


def test_off_without_quotes_which_yaml_reads_as_false_is_off():
    assert resolved(load_aware={"steering": False}).steering.mode is SteeringMode.OFF


@pytest.mark.parametrize(("written", "read"), [(4, 4), ("10%", Share(0.1)), (0, 0)])
def test_the_most_nodes_are_a_number_or_a_share(written, read):
    keys = {"steering": "Always", "steeringMaxNodes": written}
    assert resolved(load_aware=keys).steering == SteeringRules(SteeringMode.ALWAYS, read)


@pytest.mark.parametrize(
    "load_aware",
    [
        {"steering": "whenNeeded"},
        {"steering": True},
        {"steeringMaxNodes": "0%"},
        {"steeringMaxNodes": 0.3},
        {"steeringMaxNodes": -1},
    ],
)
def test_other_values_are_refused_with_their_place(load_aware):
    assert next(iter(load_aware)) in refusal(published(load_aware=load_aware))
