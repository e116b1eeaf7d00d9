"""What may vary of a policy, and the policies that it makes."""

import pytest

from desched.errors import ConfigurationError
from desched.policy.difference import policy_differences
from desched.policy.loading import PolicyText, read_policy
from desched.policy.reading.findings import InvalidPolicy
from desched.whatif.tuning.space import VARIABLE, Dimension, Space, value_text
from tests.repository import ROOT
from tests.unit.whatif.tuning.hot_hours import POLICY, TODAY

PLAIN = PolicyText(POLICY.replace("      sustainedFor: 30m\n", ""), "plain.yaml")


def dimension(text: str, policy: PolicyText = PLAIN) -> Dimension:
    (found,) = Space(policy, [text]).dimensions
    return found


def test_targets_windows_times_margins_limits_and_steering_vary_around_those_of_today() -> None:
    space = Space(PLAIN)
    assert {each.key for each in space.dimensions} == {
        "targetThresholds.cpu",
        "windows.cpu",
        "sustainedFor",
        "sustainedForAtLeast",
        "stopMargin",
        "ceilingMargin",
        "evictionLimits.node",
        "evictionLimits.total",
        "evictionLimits.slowStart",
        "steering",
    }
    assert space.today_values.keys() == {each.key for each in space.dimensions}
    assert policy_differences(space.today, space.policy(space.today_values)) == ()


@pytest.mark.parametrize("name", ["cautious", "node-pools"])
def test_a_policy_keeps_the_comments_of_its_author(name: str) -> None:
    space = Space(read_policy(ROOT / "policies" / f"{name}.yaml"))
    written = (ROOT / "policies" / f"{name}.yaml").read_text()
    comments = [line.partition("#")[2] for line in written.splitlines() if "#" in line]
    for each in space.dimensions:
        for value in each.values:
            text = space.text({each.key: value})
            assert text is not None
            assert all(comment in text for comment in comments)


def test_the_limit_of_today_is_one_of_those_that_are_tried() -> None:
    limit = "      evictionLimits: {total: 15}\n  plugins"
    space = Space(PolicyText(PLAIN.text.replace("  plugins", limit), "f"))
    (total,) = (each for each in space.dimensions if each.key == "evictionLimits.total")
    assert total.values == (15, None, "2%", "5%", "10%")
    assert space.today_values[total.key] == 15


def test_who_waits_exactly_so_long_goes_on_to_do_so() -> None:
    assert "sustainedForAtLeast" not in {each.key for each in Space(TODAY).dimensions}
    assert not Space(TODAY).policy({"sustainedFor": "5m"}).waits_by_swing


def test_who_waits_by_the_swing_goes_on_to_do_so() -> None:
    found = Space(PLAIN).policy({"sustainedFor": "20m"})
    assert (found.sustained_seconds, found.least_sustained_seconds) == (1200, 120)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("targetThresholds.cpu=70..73", (70, 71, 72, 73)),
        ("evictionLimits.total=2%..4%", ("2%", "3%", "4%")),
        ("sustainedFor=4m..12m", ("4m", "5m", "10m", "12m")),
        ("windows.cpu=5m,5m+15m", ("5m", ("5m", "15m"))),
        ("steering=Off,default", ("Off", None)),
        ("maxLandingRisk=0.1..0.2", tuple(round(0.1 + i / 100, 2) for i in range(11))),
    ],
)
def test_values_are_ranges_or_lists(text, values) -> None:
    found = dimension(text)
    assert found.values == values
    assert found.text == text


def test_a_wide_range_has_few_values_and_both_ends() -> None:
    values = dimension("evictionLimits.perMinute=1..1000").values
    assert len(values) <= 21
    assert (values[0], values[-1]) == (1, 1000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("targetThresholds.cpu=90..70", "the lower bound comes first; write 70..90"),
        ("targetThresholds.cpu=80..80", "is one value"),
        ("targetThresholds.cpu=80", "is one value"),
        ("targetThresholds.cpu=a..b", "is not a range"),
        ("targetThresholds.cpu=20..90", "--vary targetThresholds.cpu=20: "),
        ("targetThresholds.cpu=80,120", "--vary targetThresholds.cpu=120: "),
        ("targetThresholds.memory=70..90", "plain.yaml has no target for memory"),
        ("stopMargin", "has no values"),
        ("stopMargin=1..200", "--vary stopMargin="),
        ("evictSystemCriticalPods=true,false", "protections, budgets and what load is trusted"),
        ("evictionLimits.workload=1,5", "protections, budgets and what load is trusted"),
        ("evictableNamespaces.include=a,b", "protections, budgets and what load is trusted"),
        ("metrics.address=a,b", "protections, budgets and what load is trusted"),
        ("targetThreshold=1..2", '"targetThreshold" is not a key of LoadAware that can vary'),
    ],
)
def test_what_cannot_vary_is_refused_with_a_sentence(text, said) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Space(PLAIN, [text])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_varies_once() -> None:
    with pytest.raises(ConfigurationError, match="twice"):
        Space(PLAIN, ["stopMargin=1..2", "stopMargin=2..3"])


def test_no_key_that_protects_pods_or_data_can_vary() -> None:
    """Whatever varies, the rest of the policy is the same."""
    space = Space(PLAIN)
    allowed = tuple(key.partition(".")[0] for key in VARIABLE)
    for policy in space.extremes:
        for change in policy_differences(space.today, policy):
            assert change.key.startswith(allowed)
        assert policy.protections == space.today.protections
        assert policy.metrics == space.today.metrics
        assert policy.limits.workload == space.today.limits.workload
        assert policy.limits.workload_hourly == space.today.limits.workload_hourly
        assert policy.limits.namespace == space.today.limits.namespace


def test_the_extremes_have_the_longest_windows() -> None:
    space = Space(PLAIN, ["windows.cpu=5m,1h", "sustainedFor=5m..2h"])
    found = list(space.extremes)
    assert max(each.longest_window_seconds for each in found) == 3600
    assert max(each.sustained_seconds for each in found) == 7200


def test_a_policy_in_a_config_map_varies_too() -> None:
    indented = "".join(f"    {line}\n" for line in PLAIN.text.strip().splitlines())
    text = f"kind: ConfigMap\ndata:\n  policy.yaml: |\n{indented}"
    found = Space(PolicyText(text, "map.yaml"), ["stopMargin=4,5"]).policy({"stopMargin": 4})
    assert found.rules[0].stop_margin_ratio == pytest.approx(0.04)


def test_what_evicts_nothing_on_purpose_goes_on_to_do_so() -> None:
    text = PLAIN.text.replace("thresholds: {", "evictionLimits: {total: 0}\n      thresholds: {")
    assert "evictionLimits.total" not in {e.key for e in Space(PolicyText(text, "x")).dimensions}


def test_a_text_that_is_no_policy_is_refused() -> None:
    with pytest.raises(InvalidPolicy):
        Space(PolicyText("kind: Pod", "x.yaml"))


def test_values_are_shown_as_they_are_given() -> None:
    assert [value_text(v) for v in (None, True, 0.5, 7, ("5m", "15m"))] == [
        "default",
        "true",
        "0.5",
        "7",
        "5m+15m",
    ]
