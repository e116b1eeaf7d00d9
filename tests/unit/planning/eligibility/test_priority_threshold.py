import pytest

from desched.errors import ConfigurationError
from desched.planning.eligibility.priority_threshold import resolve_threshold
from desched.policy_file.loading import parse_policy
from tests.unit.policy_file.published import PUBLISHED_TEXT, resolved

CLASSES = {"low-priority": 1_000, "high-priority": 100_000, "system-node-critical": 2_000_001_000}


def policy(threshold):
    return resolved(evictor={"priorityThreshold": threshold})


@pytest.mark.parametrize(
    ("threshold", "priority"),
    [(None, None), ({"value": 10}, 10), ({"name": "high-priority"}, 100_000)],
)
def test_a_threshold_is_a_value_or_that_of_its_priority_class(threshold, priority):
    assert resolve_threshold(policy(threshold), CLASSES) == priority


def test_an_unknown_priority_class_is_refused_with_a_suggestion():
    with pytest.raises(ConfigurationError) as caught:
        resolve_threshold(policy({"name": "high-prio"}), CLASSES)
    assert 'there is no PriorityClass "high-prio" in the cluster' in str(caught.value)
    assert str(caught.value).endswith('did you mean "high-priority"?')


def test_an_unknown_priority_class_is_shown_where_the_policy_names_it():
    text = PUBLISHED_TEXT.replace("value: 10000", "name: gold")
    line = text.splitlines().index("            name: gold") + 1
    with pytest.raises(ConfigurationError) as caught:
        resolve_threshold(parse_policy(text, "policy.yaml").policy, CLASSES)
    assert str(caught.value).startswith(
        f"policy.yaml:{line}: profiles[0].pluginConfig[0].args.priorityThreshold.name: there is no"
    )


def test_an_unknown_priority_class_like_none_there_is_says_what_to_do():
    with pytest.raises(ConfigurationError, match="create it or name another"):
        resolve_threshold(policy({"name": "gold"}), {})


def test_a_priority_class_above_the_highest_threshold_is_refused():
    with pytest.raises(ConfigurationError, match="allowed is at most 2000000000"):
        resolve_threshold(policy({"name": "system-node-critical"}), CLASSES)
