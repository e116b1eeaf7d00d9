from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.policy.policy import DestinationWindow, NodePool
from desched.policy.windows_of_samples import first_decision_seconds, with_one_window
from tests.builders import policy, rule

LONG = rule(windows_seconds=(300, 900), destination_windows=(DestinationWindow(3600),))
PODS = rule(Resource.PODS, windows_seconds=())
POLICY = policy(LONG, PODS, pools=(NodePool("gpu", LabelSelector(), (LONG, PODS)),))


def test_one_window_takes_the_place_of_all_and_the_source_says_so() -> None:
    found = with_one_window(POLICY, 180)
    for rules in (found.rules, found.pools[0].rules):
        assert [(each.windows_seconds, each.destination_windows) for each in rules] == [
            ((180,), ()),
            ((), ()),
        ]
    assert found.source == f"{POLICY.source} (windows: 3m)"


def test_a_service_decides_once_its_samples_cover_the_longest_window() -> None:
    assert first_decision_seconds(POLICY) == 900
