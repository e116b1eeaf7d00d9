"""What `compatibility: Strict` turns off, and what it does not."""

import msgspec
import pytest

from desched.network.plugin import domains_of
from desched.planning.selection.slow_start import FIRST_CYCLES
from desched.plugins import HOUSE
from desched.plugins.caches.keys import CacheAffinity
from desched.plugins.caches.plugin import Caches
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.networks.plugin import Networks
from desched.policy.compatibility import EXTENDED, STRICT, UNLIMITED
from desched.policy.policy import EvictionLimits, MetricsSource, Policy
from desched.policy.share import count_of
from desched.policy_file.sections.limits import EvictionLimitsSection, InFlightSection
from tests.builders import (
    evicted,
    load,
    node,
    planned,
    pod,
    snapshot,
    workload,
)
from tests.policy_reference import reference
from tests.unit.policy_file.published import load as loaded
from tests.unit.policy_file.published import published, refusal, resolved, warnings


def strict(**load_aware):
    return resolved(load_aware={"compatibility": "Strict", **load_aware})


def differing(one, other):
    """The fields in which two values of the same kind differ."""
    return {f for f in one.__struct_fields__ if getattr(one, f) != getattr(other, f)}


def test_nothing_else_than_what_the_reference_lists_changes():
    plain, found = resolved(), strict()
    assert differing(plain, found) == {
        "digest",
        "rules",
        "limits",
        "protections",
        "eviction_price_minutes",
        "deviation_floor_ratio",
        "dead_band_ratio",
        "max_landing_risk",
        "steering",
        "relieves_staying_excess",
        "plugins",
    }
    switched = {Caches(CacheAffinity.IGNORE), Gpus().strict(), Networks().strict()}
    assert set(found.plugins) - set(plain.plugins) == switched
    limits = {
        "total",
        "node",
        "workload",
        "workload_hourly",
        "in_flight_workload",
        "slow_start",
    }
    assert differing(plain.limits, found.limits) == limits
    assert differing(plain.protections, found.protections) == {
        "single_replicas",
        "max_grace_period_seconds",
    }
    for before, after in zip(plain.rules, found.rules, strict=True):
        assert differing(before, after) == {"stop_margin_ratio", "ceiling_margin_ratio"}


def test_what_is_turned_off_is_off():
    policy = strict()
    assert (policy.eviction_price_minutes, policy.max_landing_risk) == (0, 1.0)
    assert (policy.deviation_floor_ratio, policy.dead_band_ratio) == (0.0, 0.0)
    assert [(r.stop_margin_ratio, r.ceiling_margin_ratio) for r in policy.rules] == [(0, 0)] * 2
    assert count_of(policy.limits.total, 10) == UNLIMITED
    assert not policy.limits.slow_start
    assert policy.limits.workload_hourly is None
    assert (policy.limits.node, policy.limits.namespace, policy.limits.workload) == (None,) * 3
    assert not policy.protections.single_replicas
    assert not domains_of(policy).keys
    assert policy.protections.max_grace_period_seconds > 365 * 24 * 3600


WRITTEN = {
    "evictionPrice": "5m",
    "stopMargin": 5,
    "ceilingMargin": 10,
    "maxLandingRisk": 0.15,
    "maxGracePeriod": "10m",
    "steering": "WhenNeeded",
    "evictSingleReplica": False,
    "gpuPods": "Protect",
    "relieveStayingExcess": False,
    "placementDomains": {"mode": "Require"},
    "cacheAffinity": "Require",
    "evictionLimits": {
        "total": 3,
        "slowStart": False,
        "node": 2,
        "workload": 1,
        "workloadHourly": 2,
    },
}


def test_what_is_written_holds():
    assert differing(strict(**WRITTEN), resolved(load_aware=WRITTEN)) == {
        "digest",
        "deviation_floor_ratio",
        "dead_band_ratio",
    }
    deviating = {"useDeviationThresholds": True, "deviationFloor": 40}
    assert strict(**deviating).deviation_floor_ratio == 0.4


def test_the_limits_of_other_deschedulers_hold_as_well():
    document = published(
        load_aware={"compatibility": "Strict"},
        maxNoOfPodsToEvictTotal=4,
        maxNoOfPodsToEvictPerNode=3,
    )
    expected = EvictionLimits(
        total=4,
        node=3,
        workload=None,
        workload_hourly=None,
        in_flight_workload=None,
        slow_start=False,
    )
    assert loaded(document).policy.limits == expected


def test_one_margin_that_is_written_is_not_at_odds_with_one_that_is_not():
    def margins(**written):
        (rule, *_) = strict(**written).rules
        return rule.stop_margin_ratio, rule.ceiling_margin_ratio

    assert margins(stopMargin=5) == (0.05, 0.05)
    assert margins(ceilingMargin=10) == (0.0, 0.1)
    assert margins(stopMargin=0, ceilingMargin=0) == (0.0, 0.0)


def test_it_holds_in_pools_too():
    pool = {"name": "batch", "nodeSelector": "pool=batch"}
    (found,) = strict(nodePools=[pool]).pools
    assert found.rules == strict().rules


@pytest.mark.parametrize("value", ["Extended", None])
def test_extended_is_what_holds_if_nothing_is_said(value):
    given = resolved(load_aware={"compatibility": value})
    assert differing(given, resolved()) == {"digest"}
    assert warnings(load_aware={"compatibility": value}) == ""


def test_strict_gets_a_warning_with_its_place():
    (warning,) = warnings(load_aware={"compatibility": "Strict"}).splitlines()
    assert "profiles[0].pluginConfig[1].args.compatibility: is Strict: " in warning


def test_another_word_is_refused():
    found = refusal(published(load_aware={"compatibility": "strict"}))
    assert 'compatibility: found "strict", allowed is Extended, Strict' in found
    assert 'did you mean "Strict"?' in found


def test_a_policy_that_names_nothing_has_the_extended_defaults():
    policy = Policy("", "", (), MetricsSource(""))
    document = resolved()
    names = (
        "eviction_price_minutes",
        "deviation_floor_ratio",
        "dead_band_ratio",
        "max_landing_risk",
    )
    assert [getattr(policy, name) for name in names] == [5, 0.5, 0.05, 0.15]
    assert not differing(policy, document) & {
        *names,
        "limits",
        "follow_up",
        "scheduler",
        "steering",
    }


@pytest.mark.parametrize(
    ("section", "field", "share"),
    [
        (EvictionLimitsSection, "total", EvictionLimits().total),
        (EvictionLimitsSection, "slow_start", FIRST_CYCLES),
        (InFlightSection, "total", EvictionLimits().in_flight_total),
    ],
)
def test_the_description_of_a_limit_has_its_default(section, field, share):
    text = " ".join(str(section.model_fields[field].description).split())
    assert f"{share.at_least}, or {share.ratio * 100:g} % of the nodes" in text


def test_the_reference_names_each_default_that_differs():
    table = reference().partition("### What `compatibility: Strict`")[2].partition("\n## ")[0]
    # The floor and the dead band stand in one row.
    of_plugins = [plugin for plugin in HOUSE if plugin != plugin.strict()]
    assert table.count("\n| `") == len(differing(EXTENDED, STRICT)) - 1 + len(of_plugins)


# --- plans know nothing of a policy but these fields ---------------------------------------------

STRICT_POLICY = msgspec.structs.replace(strict(), rules=strict().rules[1:])  # CPU alone


def hot_beside(cool):
    """A hot node with one pod that may move, beside a node with this load."""
    loads = load({"hot": (0.95, 0.1), "cool": (cool, 0.1)}, {"web": (0.8, 0.1)})
    return snapshot(
        [node("hot"), node("cool")], [pod("web", on="hot")], loads, [workload("web", 20)]
    )


def test_a_pod_that_may_move_does():
    assert evicted(planned(hot_beside(0.05), STRICT_POLICY)) == ["web"]


def test_a_cluster_without_room_is_saturated():
    plan = planned(hot_beside(0.79), STRICT_POLICY)
    assert (evicted(plan), plan.hold) == ([], "cluster_saturated")
