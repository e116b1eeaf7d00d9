"""What a plan may still take."""

import msgspec
import pytest

from desched.model.cluster import ClusterState, Pod
from desched.model.plan import Finding, RefusalReason
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.selection.limits import EvictionQuota
from desched.policy.policy import EvictionLimits
from desched.policy.share import Share
from tests.builders import (
    budget,
    context_of,
    no_limits_but,
    pod,
    policy,
    workload,
)

OPEN = no_limits_but(node=None)
WEB = [pod("a", on="n1"), pod("b", on="n1"), pod("c", on="n2")]


def quota_of(cluster: ClusterState, limits: EvictionLimits) -> EvictionQuota:
    return EvictionQuota(Eligibility(context_of(cluster, policy(limits=limits))))


def quota(
    limits: EvictionLimits = OPEN, allowed: int | None = None, ready: int = 9
) -> EvictionQuota:
    budgets = () if allowed is None else (budget("pdb", allowed, app="web"),)
    owners = {("apps", "uid-web"): workload("web", ready_replicas=ready)}
    return quota_of(ClusterState((), tuple(WEB), owners, budgets=budgets), limits)


def reason(of: EvictionQuota, one: Pod) -> RefusalReason | None:
    found = of.why_refused(one)
    return found.reason if found else None


@pytest.mark.parametrize(
    ("of", "refused"),
    [
        (quota(no_limits_but(total=1, node=None)), "limit_total"),
        (quota(no_limits_but(total=9, node=1)), "limit_node"),
        (quota(no_limits_but(total=9, node=None, workload=1)), "limit_workload"),
        (quota(no_limits_but(total=9, namespace=1)), "limit_namespace"),
        (quota(allowed=1), "budget_exhausted"),
        (quota(ready=2), "limit_workload"),
    ],
)
def test_what_has_been_taken_is_refused_to_the_next(of: EvictionQuota, refused: str) -> None:
    trial = of.copy()
    assert reason(trial, WEB[1]) is None
    trial.take(WEB[0])
    assert reason(trial, WEB[1]) == refused
    assert reason(of, WEB[1]) is None


@pytest.mark.parametrize(
    ("limits", "detail"),
    [
        (EvictionLimits(), "5 per cycle, slow start; up to 20"),
        (EvictionLimits(total=5), "5 per cycle"),
        (EvictionLimits(slow_start=False), "20 per cycle"),
    ],
)
def test_an_exhausted_limit_says_its_figure_and_what_it_grows_to(
    limits: EvictionLimits, detail: str
) -> None:
    pods = [pod(f"web-{number}", on="hot") for number in range(21)]
    cluster = ClusterState((), tuple(pods))
    within = quota_of(cluster, msgspec.structs.replace(limits, node=None, workload=None))
    for one in pods[: int(detail.split(maxsplit=1)[0])]:
        assert within.exhausted is None
        within.take(one)

    assert within.exhausted == Finding(RefusalReason.LIMIT_TOTAL, detail)
    assert within.why_refused(pods[-1]) == within.exhausted


def allowed(quota: EvictionQuota, one: Pod) -> int:
    """How often the pod may be taken before it is refused."""
    trial, count = quota.copy(), 0
    while trial.why_refused(one) is None:
        trial.take(one)
        count += 1
    return count


def test_a_share_of_a_workload_is_of_its_desired_replicas() -> None:
    loaded = ClusterState(
        (), tuple(WEB), {("apps", "uid-web"): workload("web", replicas=20, ready_replicas=20)}
    )
    tenth = quota_of(loaded, no_limits_but(node=None, workload=Share(0.1)))
    assert allowed(tenth, WEB[0]) == 2
    assert allowed(tenth, pod("bare", on="n1", of=None)) == 1


def test_a_share_of_a_namespace_is_of_its_pods_that_have_not_finished() -> None:
    elsewhere = pod("d", namespace="other")
    pods = (*WEB, pod("e"), pod("f"), pod("done", phase="Succeeded"), elsewhere)
    limits = no_limits_but(node=None, workload=None, namespace=Share(0.5))
    half = quota_of(ClusterState((), pods), limits)
    assert allowed(half, WEB[0]) == 2
    assert allowed(half, elsewhere) == 1
