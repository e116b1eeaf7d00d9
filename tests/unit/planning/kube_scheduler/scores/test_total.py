"""Each score has the weight that the policy sets for the cluster's scheduler."""

import numpy as np
import pytest
from msgspec.structs import replace

from desched.model.cluster import Effect, PodAffinityTerm, Taint
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.kube_scheduler.scores.total import plugin_scores
from desched.policy.schedulers import SchedulerRules, ScoreWeights
from tests.unit.planning.landing_cluster import by_label, cluster, having, node, pod

HOSTNAME = "kubernetes.io/hostname"
SSD = NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),))
OF_CACHE = PodAffinityTerm(HOSTNAME, by_label("app", "cache"), weight=50)
PARTICULAR = having(
    preferred_node_affinity=((10, SSD),), preferred_pod_affinity=(OF_CACHE,), images=("web:1",)
)
STATE = cluster(
    [
        node("a", disk="ssd"),
        node("b", cores=8, taints=[Taint("batch", Effect.PREFER_NO_SCHEDULE)]),
        node("c", images={"web:1": 900 * 2**20}),
    ],
    [
        pod("web-1", "a", scheduling=PARTICULAR),
        pod("web-2", "b", scheduling=PARTICULAR),
        pod("cache-1", "c", app="cache"),
    ],
)
PLUGINS = {
    "taint_toleration": "TaintToleration",
    "node_affinity": "NodeAffinity",
    "pod_topology_spread": "PodTopologySpread",
    "inter_pod_affinity": "InterPodAffinity",
    "node_resources_fit": "NodeResourcesFit",
    "node_resources_balanced_allocation": "NodeResourcesBalancedAllocation",
    "image_locality": "ImageLocality",
}


def scores(**weights: int) -> dict[str, list[int]]:
    view = SchedulerView(STATE, SchedulerRules(weights=ScoreWeights(**weights)))
    leaving = LeavingPod(STATE.pods[0], source=0, gone=False)
    found = plugin_scores(leaving, view, np.ones(3, dtype=bool))
    return {plugin: np.asarray(row).reshape(-1).tolist() for plugin, row in found.items()}


def test_there_is_a_weight_for_each_score() -> None:
    assert set(scores()) == set(PLUGINS.values())
    assert set(PLUGINS) == set(ScoreWeights.__struct_fields__)


@pytest.mark.parametrize(("weight", "plugin"), PLUGINS.items())
def test_a_weight_counts_for_its_own_score_only(weight: str, plugin: str) -> None:
    usual = getattr(ScoreWeights(), weight)
    before, after = scores(), scores(**{weight: 10 * usual})
    assert max(before[plugin]) > 0
    assert after == before | {plugin: [10 * score for score in before[plugin]]}


def test_where_the_policy_names_default_constraints_those_of_the_system_do_not_count() -> None:
    state = cluster([node("a"), node("b")], [pod("web-1", "a"), pod("web-2", "b")])
    leaving = LeavingPod(state.pods[0], source=0, gone=False)
    feasible = np.ones(2, dtype=bool)
    by_default = plugin_scores(leaving, SchedulerView(state, SchedulerRules()), feasible)
    rules = SchedulerRules(default_spread=())
    named = plugin_scores(leaving, SchedulerView(state, rules), feasible)
    assert ("PodTopologySpread" in by_default, "PodTopologySpread" in named) == (True, False)


def test_a_negative_namespace_selector_of_a_preference_means_all_namespaces() -> None:
    not_red = LabelSelector((Requirement("team", Operator.NOT_IN, ("red",)),))
    term = replace(OF_CACHE, namespace_selector=not_red)
    scheduling = having(preferred_pod_affinity=(term,))
    cache = replace(pod("cache-1", "b", app="cache"), namespace="red")
    state = replace(
        cluster([node("a"), node("b")], [pod("web-1", "a", scheduling=scheduling), cache]),
        namespaces={"red": {"team": "red"}},
    )
    leaving = LeavingPod(state.pods[0], source=0, gone=False)
    found = plugin_scores(leaving, SchedulerView(state, SchedulerRules()), np.ones(2, dtype=bool))
    assert np.ravel(found["InterPodAffinity"]).tolist() == [0, 200]
