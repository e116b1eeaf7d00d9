"""R0.2, X4: pods of Volcano are steered as its configuration says, if that is clear."""

import pytest

from desched.model.plan import Plan
from desched.model.volcano_scheduler import VolcanoConfiguration
from desched.planning.plugins import Plugin
from desched.plugins import HOUSE
from desched.plugins.schedulers.plugin import Schedulers
from desched.policy.schedulers import (
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
    VolcanoWeights,
)
from desched.views.cycle import EvictionView
from tests.builders import amounts, load, node, planned, pod, snapshot
from tests.unit.plugins.networks.test_domains import GROUP, moving

PLACE = "volcano-system/volcano-scheduler-configmap"
WEIGHTS = dict(VolcanoWeights().arguments)
OUTSIDE = "volcano may place it elsewhere; "


def plan_of(
    configuration: VolcanoConfiguration | None,
    plugins: tuple[Plugin, ...] = HOUSE,
    /,
    **written: int,
) -> Plan:
    """A pod of Volcano may only leave for another node of its placement group."""
    other = OtherScheduler(SchedulerProfile.VOLCANO, config_map=PLACE, written=written)
    rules = SchedulerRules(others={"volcano": other})
    by = moving(scheduler=rules, max_landing_risk=0.15, plugins=plugins)
    groups = {"hot": "pg1", "near": "pg1", "far": "pg2"}
    nodes = [node(name, labels={GROUP: group}) for name, group in groups.items()]
    one = pod("a", on="hot", scheduler="volcano", request=amounts(1, 1))
    used = load({"hot": (0.9, 0.1), "near": (0.1, 0.1), "far": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    found = {PLACE: configuration} if configuration else {}
    return planned(snapshot(nodes, [one], used, volcano_configurations=found), by)


def test_soft_taints_steer_a_pod_if_the_configuration_has_a_weight_for_them() -> None:
    (move,) = plan_of(VolcanoConfiguration(WEIGHTS)).evictions
    assert (move.expected_node, move.scheduler_profile) == ("near", "Volcano")
    assert "far" in move.steered
    assert move.scheduler_note == ""


@pytest.mark.parametrize(
    ("configuration", "why"),
    [
        (VolcanoConfiguration(WEIGHTS | {"tainttoleration.weight": 0}), "ignores soft taints"),
        (VolcanoConfiguration(unclear="no YAML"), f"{OUTSIDE}ConfigMap {PLACE}: no YAML"),
        (
            VolcanoConfiguration(WEIGHTS, further=("usage",)),
            f"{OUTSIDE}ConfigMap {PLACE}: it has",
        ),
        (None, f"{OUTSIDE}ConfigMap {PLACE}: it was not read"),
    ],
)
def test_otherwise_the_pod_stays_and_the_refusal_says_why(
    configuration: VolcanoConfiguration | None, why: str
) -> None:
    (refusal,) = plan_of(configuration).refusals
    assert why in refusal.detail


def test_without_the_plugin_the_choice_of_volcano_is_not_known() -> None:
    others = tuple(each for each in HOUSE if not isinstance(each, Schedulers))
    (refusal,) = plan_of(VolcanoConfiguration(WEIGHTS), others).refusals
    assert f"{OUTSIDE}no plugin knows the scores of Volcano" in refusal.detail


def test_a_plan_says_where_the_policy_contradicts_the_configuration() -> None:
    (move,) = plan_of(VolcanoConfiguration(WEIGHTS), **{"binpack.weight": 0}).evictions
    (note,) = [each for each in EvictionView(1, move, None).notes if "placed by volcano" in each]
    assert note.endswith(f"(binpack.weight is 0 in the policy and 1 in ConfigMap {PLACE})")


@pytest.mark.parametrize(
    ("further", "unclear", "keeps"),
    [(("network-topology-aware",), "", True), ((), "", False), ((), "no YAML", False)],
)
def test_volcano_keeps_hard_topologies_only_if_its_configuration_has_the_plugin(
    further: tuple[str, ...], unclear: str, *, keeps: bool
) -> None:
    named = OtherScheduler(
        SchedulerProfile.VOLCANO,
        further_points=100,
        network_topology_aware=True,
        config_map=PLACE,
    )
    read = named.by({PLACE: VolcanoConfiguration(WEIGHTS, further=further, unclear=unclear)})
    assert read.network_topology_aware is keeps
    assert ("networkTopologyAware" in read.differing) is not (keeps or bool(unclear))
