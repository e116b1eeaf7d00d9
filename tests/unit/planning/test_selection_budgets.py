"""What a plan may still take."""

import pytest

from desched.model.cluster import ClusterState, Pod
from desched.model.plan import RefusalReason
from desched.planning.budgets import Allowance, Quota
from desched.policy.policy import EvictionLimits
from tests.builders import budget, pod, workload

OPEN = EvictionLimits(total=100, node=None, workload=None)
WEB = [pod("a", on="n1"), pod("b", on="n1"), pod("c", on="n2")]


def allowance(
    limits: EvictionLimits = OPEN, allowed: int | None = None, spare: int | None = None
) -> Allowance:
    budgets = () if allowed is None else (budget("pdb", allowed, app="web"),)
    state = ClusterState((), tuple(WEB), {"uid-web": workload("web")}, budgets=budgets)
    return Allowance(limits, 3, state, lambda _: spare)


def reason(of: Allowance, one: Pod) -> RefusalReason | None:
    found = of.refuse(one)
    return found[0] if found else None


@pytest.mark.parametrize(
    ("of", "refused"),
    [
        (allowance(EvictionLimits(total=1, node=None, workload=None)), "limit_total"),
        (allowance(EvictionLimits(total=9, node=1, workload=None)), "limit_node"),
        (allowance(EvictionLimits(total=9, node=None, workload=1)), "limit_workload"),
        (allowance(EvictionLimits(total=9, namespace=1, workload=None)), "limit_namespace"),
        (allowance(allowed=1), "budget_exhausted"),
        (allowance(spare=1), "limit_workload"),
    ],
)
def test_what_has_been_taken_is_refused_to_the_next(of: Allowance, refused: str) -> None:
    trial = of.copy()
    assert reason(trial, WEB[1]) is None
    trial.take(WEB[0])
    assert reason(trial, WEB[1]) == refused
    assert reason(of, WEB[1]) is None


def test_only_limits_that_not_all_would_keep_are_quotas() -> None:
    both = allowance(EvictionLimits(total=3, node=1, workload=None), allowed=2)
    assert both.quotas(WEB) == [Quota(1, (0, 1)), Quota(2, (0, 1, 2))]
    both.take(WEB[2])
    assert both.quotas(WEB[:2]) == [Quota(1, (0, 1)), Quota(1, (0, 1))]
    assert allowance().quotas(WEB) == []


def test_what_is_left_is_counted_by_limit_and_budget() -> None:
    one = allowance(EvictionLimits(total=5, node=2, workload=None), allowed=1)
    one.take(WEB[0])
    assert one.left(WEB[1]) == {
        ("total", ""): 4,
        ("node", "n1"): 1,
        ("budget", "apps/pdb"): 0,
    }
