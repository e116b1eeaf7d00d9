"""Landings of pods that Volcano, KAI or a second kube-scheduler places, by what is known of them.

None of them can run here. Each test names the lines of their sources that it stands for:
`nodeorder.go`, `binpack.go` and `scheduler_helper.go` are of volcano-sh/volcano@ed72c7c8,
`pack.go`, `scores.go` and `predicates.go` of NVIDIA/KAI-Scheduler@72de64fc.
"""

import numpy as np
import pytest
from msgspec.structs import replace

from desched.model.cluster import Effect, PodAffinityTerm, Taint
from desched.model.resources import Amounts
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.kube_scheduler.scores.node_sampling import shares_by_bounds
from desched.policy.schedulers import (
    OtherScheduler,
    SchedulerProfile,
    SchedulerRules,
    ScoringStrategy,
    VolcanoWeights,
)
from tests.unit.planning.landing_cluster import (
    GI,
    by_label,
    chances,
    cluster,
    forecast_of,
    having,
    node,
    pod,
)

SOFT = Taint("desched.io/overloaded", Effect.PREFER_NO_SCHEDULE)


def using(cpu_millicores, gib):
    """The scheduling of a pod with these requests."""
    memory = gib * GI
    return having(
        requests=Amounts(cpu_millicores, memory, 0, 1),
        scored_cpu_millicores=cpu_millicores,
        scored_memory_bytes=memory,
    )


BIG = using(3000, 12)
HOSTNAME = "kubernetes.io/hostname"


def by(profile: SchedulerProfile, **fields) -> SchedulerRules:
    return SchedulerRules(others={"other": OtherScheduler(profile, **fields)})


def volcano(further_points=0, **weights) -> SchedulerRules:
    return by(
        SchedulerProfile.VOLCANO, volcano=VolcanoWeights(**weights), further_points=further_points
    )


def landing(nodes, *further, rules, **fields):
    """Where a pod of node `a` may land; it is the only one of its workload."""
    fields = {"owner": None, "scheduler": "other", **fields}
    return forecast_of(cluster(nodes, [pod("web-1", "a", **fields), *further]), "web-1", rules)


def found(nodes, *further, rules, **fields):
    return chances(landing(nodes, *further, rules=rules, **fields))


def test_volcano_avoids_a_soft_taint():
    """nodeorder.go:312-318, 142-151: TaintToleration of kube-scheduler, with the weight 3."""
    nodes = [node("a", taints=[SOFT]), node("b", taints=[SOFT]), node("c")]
    assert found(nodes, rules=volcano()) == {"c": 1.0}
    ignoring = volcano(taint_toleration=0)
    assert found(nodes, rules=ignoring) == {"a": 0.333, "b": 0.333, "c": 0.333}


def test_a_soft_taint_outweighs_a_node_that_is_otherwise_the_best():
    """nodeorder.go:142-151: 300 points are as many as leastrequested, balance and binpack have."""
    nodes = [node("a", taints=[SOFT]), node("b", cores=64, taints=[SOFT]), node("c")]
    full = pod("db", "c", app="db", scheduling=BIG)
    assert found(nodes, full, rules=volcano()) == {"c": 1.0}


def test_a_soft_taint_does_not_outweigh_all_scores_together():
    """nodeorder.go:142-151, 245-252: preferred node affinity is not normalized, with weight 2."""
    nodes = [node("a", taints=[SOFT]), node("b", taints=[SOFT], disk="ssd"), node("c")]
    term = NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),))
    weak, strong = (having(preferred_node_affinity=((weight, term),)) for weight in (100, 200))
    assert found(nodes, rules=volcano(), scheduling=weak) == {"c": 1.0}
    assert found(nodes, rules=volcano(), scheduling=strong) == {"b": 1.0}


def test_by_the_chart_of_volcano_free_and_full_nodes_are_equally_likely():
    """volcano-scheduler.conf:14-15, binpack.go:112-155: leastrequested and binpack cancel out."""
    nodes = [node("a"), node("b", cores=16), node("c", cores=4)]
    beside = pod("db", "c", app="db", scheduling=using(1500, 6))
    assert found(nodes, beside, rules=volcano()) == {"a": 0.333, "b": 0.333, "c": 0.333}


def test_without_binpack_volcano_prefers_free_nodes_and_with_more_of_it_full_ones():
    """util.go:38-51: the compiled configuration has no binpack. nodeorder.go:143: weight 1."""
    nodes = [node("a", cores=4), node("b", cores=64), node("c", cores=4)]
    others = [pod(f"db-{n}", n, app="db", scheduling=BIG) for n in "ac"]
    assert found(nodes, *others, rules=volcano(binpack=0)) == {"b": 1.0}
    packed = found(nodes, *others, rules=volcano(binpack=5))
    assert "b" not in packed


def test_only_requested_resources_are_packed():
    """binpack.go:212-224: resources without a request, and those without a weight, do not count."""
    nodes = [node("a"), node("b"), node("c")]
    full = pod("db", "b", app="db", scheduling=using(0, 15))
    only_cpu = having(requests=Amounts(100, 0, 0, 1))
    rules = volcano(binpack=2, least_requested=0, balanced_resource=0)
    assert found(nodes, full, rules=rules, scheduling=only_cpu).keys() == {"a", "b", "c"}
    assert found(nodes, full, rules=rules) == {"b": 1.0}
    by_cpu = volcano(binpack=2, binpack_memory=0, least_requested=0, balanced_resource=0)
    assert found(nodes, full, rules=by_cpu).keys() == {"a", "b", "c"}


def test_a_pod_that_requests_what_else_binpack_counts_may_land_anywhere():
    """binpack.go:112-155: binpack.resources; which of them is not kept."""
    nics = {"extended": (("example.com/nic", 8),)}
    nodes = [
        replace(each, capacity=more, allocatable=more)
        for each in (node("a"), node("b"))
        for more in [replace(each.allocatable, **nics)]
    ]
    full = pod("db", "b", app="db", scheduling=BIG)
    rules = volcano(binpack=2, least_requested=0, balanced_resource=0)
    others = {"other": replace(rules.others["other"], packs_others=True)}
    packs_others = replace(rules, others=others)
    requests = Amounts(100, GI, 0, 1, extended=(("example.com/nic", 1),))
    with_nic = having(requests=requests, scored_cpu_millicores=100, scored_memory_bytes=GI)
    assert found(nodes, full, rules=rules, scheduling=with_nic) == {"b": 1.0}
    assert found(nodes, full, rules=packs_others, scheduling=with_nic) == {"a": 0.5, "b": 0.5}
    assert found(nodes, full, rules=packs_others) == {"b": 1.0}


def test_points_of_plugins_that_are_not_known_widen_the_forecast():
    """network_topology_aware.go:559-589: 100 points, which may go to any node."""
    nodes = [node("a"), node("b"), node("c")]
    full = pod("db", "b", app="db", scheduling=using(2000, 8))
    assert found(nodes, full, rules=volcano(binpack=0)).keys() == {"a", "c"}
    wide = found(nodes, full, rules=volcano(binpack=0, further_points=100))
    assert wide.keys() == {"a", "b", "c"}


def test_volcano_sends_a_pod_back_to_its_node_if_no_other_has_room():
    """allocate.go:882-948, 970-974: idle nodes first, then what a leaving pod frees."""
    nodes = [node("a"), node("b"), node("c")]
    others = [pod(f"db-{n}", n, app="db", scheduling=BIG) for n in "bc"]
    back = landing(nodes, *others, rules=volcano(), scheduling=BIG)
    assert chances(back) == {"a": 1.0}
    assert back.risk(np.zeros(3, dtype=bool)) == 1.0


def test_in_large_clusters_volcano_may_not_look_at_the_best_node():
    """scheduler_helper.go:56-75: above 100 nodes the search ends at max(100, 50-N/125 %)."""
    nodes = [node(f"n{i:03}", taints=[SOFT]) for i in range(199)]
    loaded = [*nodes, node("z")]
    (pods,) = [[pod("web-1", "n000", owner=None, scheduler="other")]]
    shares = chances(forecast_of(cluster(loaded, pods), "web-1", volcano()))
    assert shares["z"] == pytest.approx(0.5, abs=0.01)
    few = cluster([*nodes[:99], node("z")], pods)
    assert chances(forecast_of(few, "web-1", volcano())) == {"z": 1.0}


def test_kai_ignores_soft_taints_and_fills_the_fullest_node():
    """predicates.go:86-94: taints only filter. pack.go:45-63: the least free CPU gets 9 points."""
    nodes = [node("a"), node("b", taints=[SOFT]), node("c")]
    full = pod("db", "b", app="db", scheduling=using(2000, 8))
    assert found(nodes, full, rules=by(SchedulerProfile.KAI)) == {"b": 1.0}


def test_kai_brings_a_pod_back_to_the_node_that_it_left_if_that_is_the_fullest():
    """pack.go:45-63: the source is often the fullest node where the pod fits."""
    nodes = [node("a"), node("b"), node("c")]
    full = pod("db", "a", app="db", scheduling=using(2000, 8))
    assert found(nodes, full, rules=by(SchedulerProfile.KAI)) == {"a": 1.0}


def test_kai_prefers_nodes_without_gpus_for_pods_without_one():
    """scores.go:6-14, nodeplacement.go:75-80: 10 points for such a node."""
    gpus = Amounts(4000, 16 * GI, 0, 110, (("nvidia.com/gpu", 8),))
    with_gpus = having_node(node("b"), allocatable=gpus)
    full = pod("db", "b", app="db", scheduling=using(2000, 8))
    nodes = [having_node(node("a"), allocatable=gpus), with_gpus, node("c")]
    assert found(nodes, full, rules=by(SchedulerProfile.KAI)) == {"c": 1.0}


def having_node(one, **changes):
    return type(one)(**{name: getattr(one, name) for name in one.__struct_fields__} | changes)


def test_affinity_between_pods_may_outweigh_what_kai_packs():
    """scores.go:6-14: 100000 points for affinity between pods; it is not evaluated."""
    nodes = [node("a"), node("b"), node("c")]
    full = pod("db", "b", app="db", scheduling=using(2000, 8))
    liking = having(preferred_pod_affinity=(PodAffinityTerm(HOSTNAME, by_label("app", "x")),))
    kai = by(SchedulerProfile.KAI)
    assert found(nodes, full, rules=kai, scheduling=liking).keys() == {"a", "b", "c"}


def test_a_second_kube_scheduler_has_a_strategy_of_its_own():
    nodes = [node("a"), node("b"), node("c")]
    full = pod("db", "b", app="db", scheduling=using(2000, 8))
    packing = by(SchedulerProfile.KUBE_SCHEDULER, strategy=ScoringStrategy.MOST_ALLOCATED)
    spreading = by(SchedulerProfile.KUBE_SCHEDULER)
    assert found(nodes, full, rules=packing) == {"b": 1.0}
    assert "b" not in found(nodes, full, rules=spreading)
    assert found(nodes, full, rules=packing, scheduler="default-scheduler").keys() == {"c"}


@pytest.mark.parametrize("known", [{}, {"elsewhere": OtherScheduler(SchedulerProfile.VOLCANO)}])
def test_a_scheduler_that_the_policy_does_not_name_may_choose_any_node(known):
    nodes = [node("a"), node("b", cores=64), node("c", taints=[SOFT])]
    unknown = landing(nodes, rules=SchedulerRules(others=known))
    assert unknown.any_fit
    assert chances(unknown) == {"a": 0.333, "b": 0.333, "c": 0.333}


def test_of_bounds_that_overlap_each_node_may_win():
    least, most = np.array([5.0, 3.0, 0.0, 9.0]), np.array([6.0, 5.0, 4.0, 9.0])
    feasible = np.array([True, True, True, False])
    assert shares_by_bounds(least, most, feasible, 4).tolist() == [0.5, 0.5, 0.0, 0.0]
    assert not shares_by_bounds(least, most, np.zeros(4, dtype=bool), 4).any()
