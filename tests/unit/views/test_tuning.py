"""What people see of a search that recommends a policy, and the file that it writes."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import yaml

from desched.policy.difference import policy_differences
from desched.policy.loading import PolicyText, parse_policy
from desched.views.pages.tuning_page import tuning_page
from desched.views.rendering import rendered
from desched.views.tuned_policy import policy_text
from desched.views.tuning import print_tuning, tuning_view
from desched.whatif.past.backtest import backtest
from desched.whatif.tuning.figures import Tuned, tuning_of
from desched.whatif.tuning.replays import share_past
from desched.whatif.tuning.sampler import OptunaSampler
from desched.whatif.tuning.search import Recommendation, Search, spans_of
from desched.whatif.tuning.space import Space
from tests.unit.whatif.tuning.hot_hours import SPAN, TODAY, hot_hours

SPACE = Space(TODAY, ["sustainedFor=5m,30m"])
Found = tuple[Tuned, Recommendation]


@cache
def tuned() -> Found:
    """A search that recommends a policy."""
    past, spans = hot_hours(), spans_of(SPAN)
    share_past(past)
    with ThreadPoolExecutor(1) as executor:
        search = Search(SPACE, spans, executor, lambda: False)
        assert search.begin()
        search.run(OptunaSampler(SPACE.dimensions, SPACE.today_values, 0, 0), 2)
        best = search.recommend()
    assert best is not None
    policies = [SPACE.today, best.candidate.policy]
    judged = backtest(past, policies, spans.judged, by_first_lines=True)
    return tuning_of(search, best, judged, interrupted=False), best


@pytest.fixture
def found() -> Found:
    return tuned()


def test_the_recommendation_has_figures_of_both_times_and_of_each_change(found: Found) -> None:
    shown, best = found
    text = rendered(shown, print_tuning, "table")
    assert "Recommended: 1 change to today.yaml." in text
    assert "sustainedFor: 30m → 5m" in text
    before, after = shown.today.node_minutes, best.candidate.played.score.node_minutes
    assert f"In the search: {before:.0f} → {after:.0f} overloaded node-minutes" in text
    assert f"without it, {before - after:.0f} more overloaded node-minutes" in text
    assert "What the history cannot show:" in text


def test_both_policies_are_judged_by_the_targets_of_today(found: Found) -> None:
    shown, best = found
    today, recommended = shown.judged.policies
    assert today.without == recommended.without
    assert shown.recommended is not None
    assert recommended.with_policy.node_minutes == best.judged.node_minutes
    assert shown.today_judged.node_minutes == today.with_policy.node_minutes


def test_the_file_is_the_recommended_policy_with_its_reasons(found: Found) -> None:
    shown, best = found
    text = policy_text(SPACE, best.candidate.values, shown)
    written = parse_policy(text, "better.yaml").policy
    assert policy_differences(written, best.candidate.policy) == ()
    assert "# sustainedFor: 30m → 5m; without it," in text
    assert text.startswith("# Made from today.yaml by desched tune")
    assert text.endswith(TODAY.text.replace("30m", "5m"))


def test_the_file_of_a_policy_in_a_config_map_is_the_policy_alone(found: Found) -> None:
    shown, best = found
    data = {"policy.yaml": TODAY.text}
    text = yaml.safe_dump({"kind": "ConfigMap", "apiVersion": "v1", "data": data})
    space = Space(PolicyText(text, "today.yaml"), ["sustainedFor=5m,30m"])
    text = policy_text(space, best.candidate.values, shown)
    assert "could not be edited in place" in text
    written = parse_policy(text, "better.yaml").policy
    assert policy_differences(written, best.candidate.policy) == ()


def test_the_page_has_the_changes_the_front_and_the_later_days(found: Found) -> None:
    shown, _ = found
    page = tuning_page(tuning_view(shown))
    for part in ('id="changes"', 'id="front"', 'id="figures"', "today.yaml, tuned"):
        assert part in page
