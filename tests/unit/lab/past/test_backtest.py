"""A node that was overloaded for hours, and what a policy would have done about it."""

import math
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from desched.lab.figures import PolicyFigures
from desched.lab.past.backtest import backtest, covered_share, lead_seconds
from desched.lab.past.run import Span
from desched.lab.recorded_past import Caveat, Doubt, Past
from desched.model.plan import HoldReason, NodeReason, RefusalReason
from desched.model.report import NotActing
from desched.model.resources import Resource
from desched.policy.acting_window import ActingWindow
from desched.policy.cron import cron_fields
from desched.policy.policy import Policy
from tests.builders import policy, rule, selector
from tests.unit.lab.past.pasts import Life, a_past, at

STEPS = 60
LEAD = 12
HOT = [0.8] * STEPS
"""Four such pods and half a core of the host use 92.5 % of a node."""


def hot_past(**changes: Any) -> Past:
    """Four pods of two workloads are on a; b and c have one calm pod each."""
    lives = [
        *(Life(f"web-{i}", "a", HOT) for i in range(2)),
        *(Life(f"db-{i}", "a", HOT, of="db") for i in range(2)),
        Life("web-8", "b", [0.2] * STEPS),
        Life("db-9", "c", [0.2] * STEPS, of="db"),
    ]
    return a_past(lives, steps=STEPS, **changes)


def a_policy(name: str = "policy.yaml", **changes: object) -> Policy:
    return replace(policy(rule()), source=name, **changes)


def span(past: Past) -> Span:
    return Span(at(LEAD), at(past.steps))


def figures(past: Past, by: Policy | None = None) -> PolicyFigures:
    return backtest(past, [by or a_policy()], span(past)).policies[0]


def test_a_policy_relieves_a_node_that_was_really_overloaded_all_the_time() -> None:
    found = figures(hot_past())
    hours = (STEPS - LEAD) * 5 / 60
    assert found.without.node_minutes == found.without.longest_episode_minutes == hours * 60
    assert (found.without.nodes, found.with_policy.nodes) == (1, 1)
    assert found.with_policy.node_minutes <= 20
    assert found.avoided_share == pytest.approx(1 - found.with_policy.node_minutes / (hours * 60))
    assert found.evictions == 1
    assert found.evictions_per_day == pytest.approx(24 / hours)
    assert (found.replicas_moved_again, found.came_back, found.landed_overloaded) == (0, 0, 0)
    assert found.hours.evicting == 1
    assert found.hours.quiet == 3


def test_each_eviction_has_its_time_and_its_landing() -> None:
    past = hot_past()
    found = figures(past)
    (eviction,) = found.after.evictions
    assert at(LEAD) < eviction.at <= at(LEAD + 3)
    assert (eviction.node, eviction.pod.namespace) == ("a", "apps")
    assert eviction.landed_on in {"b", "c"}
    assert eviction.landed_at is not None
    assert eviction.landed_at >= eviction.at
    assert eviction.result is not None
    assert eviction.workload.startswith("Deployment apps/")
    (workload,) = found.workloads
    assert (workload.workload, workload.evictions, workload.replicas) == (eviction.workload, 1, 3)


def test_nodes_are_compared_before_and_after() -> None:
    by_name = {each.node: each for each in figures(hot_past()).nodes}
    a = by_name["a"]
    assert (a.overloaded_minutes_before, a.evictions) == ((STEPS - LEAD) * 5, 1)
    assert a.overloaded_minutes_after < a.overloaded_minutes_before
    assert a.peak_before == pytest.approx(3.7 / 4 / 0.8, abs=1e-4)
    assert sum(each.landings for each in by_name.values()) == 1
    assert by_name["b"].overloaded_minutes_before == 0


def test_timelines_have_the_load_with_the_lines() -> None:
    found = figures(hot_past())
    assert found.before.step_seconds == found.after.step_seconds == 300
    (cpu,) = (each for each in found.before.loads if each.resource is Resource.CPU)
    assert [len(row) for row in cpu.ratios] == [STEPS - LEAD] * 3
    assert cpu.ratios[0][5] == pytest.approx(0.925, abs=1e-4)
    assert cpu.lines[0] is not None
    assert cpu.lines[0].target_ratio == 0.8
    assert found.before.overload.node_minutes == found.without.node_minutes
    assert found.after.overload.longest_episode_minutes == found.with_policy.longest_episode_minutes
    assert found.after.nodes == ("a", "b", "c")
    assert (found.before.name, found.after.name) == ("what happened", "policy.yaml")
    assert (found.before.evictions, found.before.refusals) == ((), ())


def test_two_policies_are_compared_with_the_same_past() -> None:
    calm = a_policy("calm.yaml", rules=(rule(target_ratio=0.95),))
    past = hot_past()
    one, two = backtest(past, [a_policy(), calm], span(past)).policies
    assert (one.policy, two.policy) == ("policy.yaml", "calm.yaml")
    assert (one.evictions, two.evictions) == (1, 0)
    assert two.without.node_minutes == two.with_policy.node_minutes == 0
    assert two.avoided_share is None
    assert two.hours.quiet == 4
    assert one == figures(past)


def test_nothing_is_decided_while_the_load_of_most_nodes_is_unknown() -> None:
    gap = [(name, step) for name in "abc" for step in range(LEAD - 2, STEPS)]
    found = figures(hot_past(unknown=gap))
    assert found.evictions == 0
    assert found.without.node_minutes == 0
    assert [(e.reason, e.hours) for e in found.hours.idle] == [
        (HoldReason.TOO_MANY_UNKNOWN_NODES, 4)
    ]
    assert set(found.before.loads[0].ratios[0]) == {None}


def test_hours_in_which_it_would_have_done_nothing_have_the_reason() -> None:
    lives = [Life(f"bare-{i}", "a", HOT, of=None) for i in range(4)]
    found = figures(a_past(lives, steps=STEPS))
    assert found.evictions == 0
    assert [each.reason for each in found.hours.idle] == [NodeReason.EXCESS_NOT_MOVABLE]
    assert sum(each.hours for each in found.hours.idle) + found.hours.quiet == 4
    (refusal, *_) = found.after.refusals
    assert (refusal.reason, refusal.pods) == (RefusalReason.BARE_POD, 4)
    assert found.without == found.with_policy
    assert found.avoided_share == 0


def test_a_pod_of_unknown_usage_is_not_moved() -> None:
    lives = [Life(f"web-{i}", "a", [math.nan] * STEPS) for i in range(3)]
    found = figures(a_past(lives, steps=STEPS))
    assert found.without.node_minutes > 0
    assert found.evictions == 0
    assert found.after.refusals[0].reason is RefusalReason.USAGE_UNKNOWN


def test_large_timelines_have_longer_steps_and_the_same_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = figures(hot_past())
    monkeypatch.setattr("desched.lab.policy_run.MOST_POINTS", 48)
    found = figures(hot_past())
    assert found.before.step_seconds == 1800
    assert (found.without, found.with_policy) == (exact.without, exact.with_policy)


def test_progress_ends_with_the_whole() -> None:
    seen: list[float] = []
    past = hot_past()
    backtest(past, [a_policy(), a_policy()], span(past), seen.append)
    assert seen == sorted(seen)
    assert (seen[0] > 0, seen[-1]) == (True, 1)


def test_the_past_begins_early_enough_for_every_window() -> None:
    long = rule(windows_seconds=(300, 3600))
    past = a_policy().history.seconds
    assert lead_seconds([a_policy()]) == past + 300
    assert lead_seconds([a_policy(), a_policy(rules=(long,))]) == past + 3600


def test_coverage_is_that_of_nodes_while_they_were_there() -> None:
    past = hot_past(unknown=[("a", 20), ("b", 21)], c={"ended": at(24)})
    known = (2 * 48 + 12 - 2) / (2 * 48 + 12)
    assert covered_share(past, span(past)) == pytest.approx(known)


def test_coverage_counts_nothing_outside_of_the_span() -> None:
    """What was known before its begin and after its end would hide what was not."""
    past = hot_past(unknown=[("a", 20), ("b", 10), ("c", 50)], c={"ended": at(54)})
    assert covered_share(past, Span(at(15), at(25))) == pytest.approx(29 / 30)
    left = hot_past(unknown=[("a", 20)], c={"began": at(22), "ended": at(24)})
    assert covered_share(left, Span(at(15), at(25))) == pytest.approx(21 / 22)


def test_lines_around_a_mean_are_averaged_over_the_time() -> None:
    past = hot_past()
    around = a_policy(deviation=True, rules=(rule(target_ratio=0.2, low_ratio=0.2),))
    found = backtest(past, [around], span(past))
    lines = found.policies[0].before.loads[0].lines
    mean = (3.7 + 0.7 + 0.7) / 12
    targets = [line.target_ratio for line in lines if line]
    assert targets == pytest.approx([mean + 0.2] * 3, abs=0.01)  # lower while a pod leaves
    assert found.policies[0].without.nodes == 1
    assert Doubt(Caveat.LINES_AVERAGED) in found.assumed


def test_a_target_for_gpus_has_a_caveat() -> None:
    past, of_gpus = hot_past(), a_policy(rules=(rule(), rule(Resource.GPU)))
    assert Doubt(Caveat.GPUS_UNKNOWN) in backtest(past, [a_policy(), of_gpus], span(past)).unknown
    assert Doubt(Caveat.GPUS_UNKNOWN) not in backtest(past, [a_policy()], span(past)).unknown


def test_nodes_that_the_policy_does_not_look_at_have_no_lines_and_no_overload() -> None:
    others = a_policy(node_selector=selector(pool="batch"))
    found = figures(hot_past(), others)
    assert found.before.loads[0].lines == (None, None, None)
    assert found.without.node_minutes == 0
    assert [each.reason for each in found.hours.idle] == [HoldReason.NO_NODE_IN_SCOPE]


def test_evictions_outside_of_the_windows_of_the_policy_are_only_planned() -> None:
    closed = ActingWindow(cron_fields("0 0 1 1 *"), 3600)
    found = figures(hot_past(), a_policy(maintenance_windows=(closed,)))
    assert found.evictions == 0
    assert next(each.reason for each in found.hours.idle) is NotActing.OUTSIDE_WINDOW


def test_what_could_not_be_known_is_said() -> None:
    past = replace(hot_past(), doubts=(Doubt(Caveat.PODS_NOT_MEASURED, "3 pods"),))
    found = backtest(past, [a_policy()], span(past))
    assert Doubt(Caveat.PODS_NOT_MEASURED, "3 pods") in found.unknown
    assert Doubt(Caveat.LOAD_IN_STEPS, "300 s") in found.assumed
    assert Doubt(Caveat.LATER_PODS_AS_RECORDED) in found.assumed
    assert (found.nodes, found.pods, found.workloads) == (3, 6, 2)
    assert found.ended_at - found.started_at == timedelta(hours=4)
