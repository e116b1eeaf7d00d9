import numpy as np
import pytest

from desched.model.cluster import Effect, Owner, PodAffinityTerm, Service, SpreadConstraint, Taint
from desched.model.resources import Amounts
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.planning.kube_scheduler.scores.cluster_view import LeavingPod, SchedulerView
from desched.planning.placement.landing_forecast import Landing, after, forecast
from desched.policy.schedulers import SchedulerRules, ScoreWeights, ScoringStrategy
from tests.builders import certain, free_capacity
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

SOFT = Taint("batch", Effect.PREFER_NO_SCHEDULE)
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
BIG = having(requests=Amounts(3000, 8 * GI, 0, 1), scored_cpu_millicores=3000)


def likeliest(landing):
    (chance,) = landing.chances(1.0, 1)
    return chance.node


def test_alike_nodes_are_equally_likely_and_the_source_that_still_holds_the_pod_is_not():
    loaded = cluster([node("a"), node("b"), node("c")], [pod("web-1", "a")])
    assert chances(forecast_of(loaded, "web-1")) == {"b": 0.5, "c": 0.5}


def test_a_pod_comes_straight_back_where_its_siblings_are_on_all_other_nodes():
    pods = [pod("web-1", "a"), pod("web-2", "b"), pod("web-3", "c")]
    landing = forecast_of(cluster([node("a"), node("b"), node("c")], pods), "web-1")
    assert chances(landing) == {"a": 1.0}
    assert landing.risk(np.zeros(3, dtype=bool)) == 1.0


def test_pods_of_other_workloads_do_not_count_as_siblings():
    pods = [pod("web-1", "a"), pod("db-1", "b", app="db"), pod("db-2", "b", app="db")]
    assert chances(forecast_of(cluster([node("a"), node("b")], pods), "web-1")) == {"a": 1.0}
    siblings = [pod("web-1", "a"), pod("web-2", "a"), pod("db-1", "b", app="db")]
    assert chances(forecast_of(cluster([node("a"), node("b")], siblings), "web-1")) == {"b": 1.0}


def test_a_service_narrows_what_counts_as_a_sibling():
    twin = {"labels": {"app": "web", "track": "canary"}}
    pods = [pod("web-1", "a", labels={"app": "web", "track": "stable"}), pod("web-2", "b", **twin)]
    nodes = [node("a", cores=4), node("b", cores=8)]
    service = Service("shop", "web", {"track": "stable"})
    assert likeliest(forecast_of(cluster(nodes, pods), "web-1")) == "a"
    narrowed = cluster(nodes, pods, services=(service,))
    assert likeliest(forecast_of(narrowed, "web-1")) == "b"


def test_a_soft_taint_outweighs_free_room():
    loaded = cluster(
        [node("a"), node("b", cores=64, taints=[SOFT]), node("c")], [pod("web-1", "a")]
    )
    assert chances(forecast_of(loaded, "web-1")) == {"c": 1.0}


def test_preferred_node_affinity_draws_and_required_affinity_decides():
    ssd = NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),))
    nodes = [node("a"), node("b", cores=8), node("c", disk="ssd")]
    drawn = cluster(
        nodes, [pod("web-1", "a", scheduling=having(preferred_node_affinity=((10, ssd),)))]
    )
    assert chances(forecast_of(drawn, "web-1")) == {"c": 1.0}
    only = cluster(nodes, [pod("web-1", "a", scheduling=having(required_node_affinity=(ssd,)))])
    assert chances(forecast_of(only, "web-1")) == {"c": 1.0}


@pytest.mark.parametrize(("weight", "expected"), [(50, "c"), (-50, "b")])
def test_preferred_pod_affinity_works_from_either_side(weight, expected):
    nodes = [node("a", cores=1), node("b"), node("c")]
    of_cache = PodAffinityTerm(HOSTNAME, by_label("app", "cache"), weight=weight)
    of_web = PodAffinityTerm(HOSTNAME, by_label("app", "web"), weight=weight)
    own = [
        pod("web-1", "a", scheduling=having(preferred_pod_affinity=(of_cache,))),
        pod("cache-1", "c", app="cache"),
    ]
    theirs = [
        pod("web-1", "a"),
        pod("cache-1", "c", app="cache", scheduling=having(preferred_pod_affinity=(of_web,))),
    ]
    assert likeliest(forecast_of(cluster(nodes, own), "web-1")) == expected
    assert likeliest(forecast_of(cluster(nodes, theirs), "web-1")) == expected


def test_a_pod_that_has_moved_draws_others_as_often_as_it_carries_a_term():
    of_web = PodAffinityTerm(HOSTNAME, by_label("app", "web"), weight=50)
    drawing = having(preferred_pod_affinity=(of_web, of_web))
    pods = [
        pod("web-1", "a"),
        pod("cache-1", "b", app="cache", kind="StatefulSet", scheduling=drawing),
        pod("cache-2", "b", app="cache", kind="StatefulSet", scheduling=having(drawing)),
    ]
    loaded = cluster([node("a"), node("b"), node("c")], pods)
    view = SchedulerView(loaded, SchedulerRules())
    moving = LeavingPod(pods[1], source=1, gone=True)
    moved = view.moved(moving, np.array([0.0, 0.0, 1.0]))
    weights = moved.attraction(LeavingPod(pods[0], source=0, gone=False))
    assert weights[HOSTNAME][0].tolist() == [0, 100, 100]


def test_an_own_spread_constraint_replaces_the_defaults_and_ignores_nodes_without_its_label():
    constraint = SpreadConstraint(ZONE, 1, hard=False, selector=by_label("app", "web"))
    nodes = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y"), node("d", cores=64)]
    pods = [
        pod("web-1", "a", scheduling=having(spread=(constraint,))),
        pod("web-2", "b", scheduling=having(spread=(constraint,))),
    ]
    assert chances(forecast_of(cluster(nodes, pods), "web-1")) == {"c": 1.0}


def test_an_image_that_is_there_decides_between_alike_nodes():
    nodes = [node("a", cores=1), node("b"), node("c", images={"web:1": 900 * 2**20})]
    loaded = cluster(nodes, [pod("web-1", "a", scheduling=having(images=("web:1",)))])
    assert chances(forecast_of(loaded, "web-1")) == {"c": 1.0}


def test_most_allocated_prefers_the_full_node():
    pods = [pod("web-1", "a"), pod("db-1", "c", app="db")]
    nodes = [node("a", cores=64), node("b"), node("c")]
    loaded = cluster(nodes, pods)
    least = SchedulerRules(weights=ScoreWeights(node_resources_balanced_allocation=0))
    most = SchedulerRules(ScoringStrategy.MOST_ALLOCATED, least.weights)
    assert likeliest(forecast_of(loaded, "web-1", least)) == "a"
    assert likeliest(forecast_of(loaded, "web-1", most)) == "c"


def test_the_old_pod_holds_its_requests_until_it_is_gone():
    nodes = [node("a"), node("b", cores=2)]
    loaded = cluster(nodes, [pod("web-1", "a", scheduling=BIG)])
    landing = forecast_of(loaded, "web-1")
    assert chances(landing) == {"a": 1.0}  # nothing fits beside it, so the replacement waits
    assert landing.departure.gone


@pytest.mark.parametrize(
    "owner",
    [
        Owner("StatefulSet", "web", "uid-web", "apps/v1"),
        # volcano pkg/controllers/job/job_controller_actions.go:472-488
        Owner("Job", "web", "uid-web", "batch.volcano.sh/v1alpha1"),
    ],
)
def test_a_replacement_of_the_same_name_comes_only_when_the_pod_is_gone(owner):
    loaded = cluster([node("a"), node("b")], [pod("web-0", "a", owner=owner)])
    landing = forecast_of(loaded, "web-0")
    assert chances(landing) == {"a": 0.5, "b": 0.5}
    assert landing.departure.gone


def test_a_pod_without_a_grace_period_is_gone_before_its_replacement_is_placed():
    loaded = cluster([node("a"), node("b")], [pod("web-1", "a", grace_period_seconds=0)])
    landing = forecast_of(loaded, "web-1")
    assert chances(landing) == {"a": 0.5, "b": 0.5}
    assert landing.departure.gone


def test_where_nothing_fits_there_is_no_landing_and_all_of_the_risk():
    loaded = cluster([node("a", taints=[Taint("x", Effect.NO_SCHEDULE)])], [pod("web-1", "a")])
    landing = forecast_of(loaded, "web-1")
    assert landing.chances(0.97, 9) == ()
    assert landing.risk(np.zeros(1, dtype=bool)) == 1.0


def test_risk_is_the_probability_of_bad_nodes_the_source_and_strange_architectures():
    nodes = [node("a"), node("b"), node("c"), node("d", arch="arm64"), node("e")]
    landing = forecast_of(cluster(nodes, [pod("web-1", "a")]), "web-1")
    assert chances(landing) == {"b": 0.25, "c": 0.25, "d": 0.25, "e": 0.25}
    none_bad = np.zeros(5, dtype=bool)
    assert landing.risk(none_bad) == pytest.approx(0.25)
    assert landing.risk(np.array([False, True, False, False, False])) == pytest.approx(0.5)
    assert not none_bad.any()


def test_where_what_has_landed_differs_the_likeliest_harmful_encounter_is_the_least_risk():
    nodes = [node("a"), node("b"), node("c"), node("d"), node("e")]
    landing = forecast_of(cluster(nodes, [pod("web-1", "a")]), "web-1")
    assert chances(landing) == {"b": 0.25, "c": 0.25, "d": 0.25, "e": 0.25}
    bad = np.zeros((10, 5), dtype=bool)
    bad[:4, 1] = bad[4:6, 2] = True  # in four of ten alternatives b is full, in two others c
    assert landing.risk(bad) == pytest.approx(0.4 * 0.25)
    assert landing.harmful(bad).tolist() == [True, True, False, False, False]
    bad[:, 3] = True
    assert landing.risk(bad) == pytest.approx(0.25)


def test_an_architecture_that_the_workload_runs_on_already_is_not_strange():
    nodes = [node("a"), node("b", arch="arm64"), node("c", arch="arm64")]
    loaded = cluster(nodes, [pod("web-1", "a"), pod("web-2", "b")])
    landing = forecast_of(loaded, "web-1")
    assert landing.chances(0.97, 1) == certain("c")
    assert landing.risk(np.zeros(3, dtype=bool)) == 0.0


def test_another_scheduler_may_choose_any_node_that_fits():
    nodes = [node("a"), node("b", cores=64), node("c"), node("d", taints=[SOFT])]
    loaded = cluster(nodes, [pod("web-1", "a", scheduler="volcano")])
    landing = forecast_of(loaded, "web-1")
    assert landing.any_fit
    assert chances(landing) == {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}


def test_a_pod_without_owner_or_services_is_not_spread():
    pods = [pod("web-1", "a", owner=None), pod("web-2", "b", owner=None)]
    nodes = [node("a", cores=1), node("b", cores=8), node("c", cores=4)]
    assert likeliest(forecast_of(cluster(nodes, pods), "web-1")) == "b"


def test_only_a_controller_with_a_selector_spreads_its_pods():
    job = {"owner": Owner("Job", "web", "uid-web")}
    nodes = [node("a", cores=1), node("b", cores=8), node("c", cores=4)]
    loaded = cluster(nodes, [pod("web-1", "a", **job), pod("web-2", "b", **job)])
    assert likeliest(forecast_of(loaded, "web-1")) == "b"


def test_the_next_move_is_forecast_on_what_the_first_leaves():
    nodes = [node("a", cores=8), node("b", cores=4), node("c", cores=3)]
    pods = [pod("web-1", "a", scheduling=BIG), pod("db-1", "a", app="db", scheduling=BIG)]
    loaded = cluster(nodes, pods)
    view, free = SchedulerView(loaded, SchedulerRules()), free_capacity(loaded)
    first = forecast(pods[0], free, view)
    assert chances(first) == {"b": 1.0}
    assert chances(forecast(pods[1], free, view)) == {"b": 1.0}
    following = forecast(pods[1], free, after(view, first))
    assert chances(following) == {"c": 1.0}  # b is full in its eyes
    assert chances(forecast(pods[1], free, view)) == {"b": 1.0}  # the view before is unchanged


def test_a_landing_that_is_not_certain_leaves_each_alternative_to_the_next():
    nodes = [node("a", cores=1), *(node(name) for name in "bcde")]
    pods = [pod("web-1", "a"), pod("web-2", "a")]
    loaded = cluster(nodes, pods)
    view, free = SchedulerView(loaded, SchedulerRules()), free_capacity(loaded)
    following = forecast(pods[1], free, after(view, forecast(pods[0], free, view)))
    assert following.probabilities.sum() == pytest.approx(1.0)
    assert set(chances(following)) == {"b", "c", "d", "e"}
    # In each alternative the node of the first replacement is out, and three are left.
    assert {tuple(sorted(set(row.round(3)))) for row in following.alternatives} == {(0.0, 0.333)}


@pytest.mark.parametrize("rows", [[[0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5]] * 3])
def test_the_probability_of_a_node_is_its_mean_over_all_alternatives(rows):
    chances = np.array(rows)
    leaving = LeavingPod(pod("web-1", "a"), 0, gone=True)
    scores, wrong = np.zeros(chances.shape, int), np.zeros(2, bool)
    landing = Landing(("a", "b"), chances > 0, chances, scores, leaving, wrong)
    assert landing.probabilities.tolist() == [0.5, 0.5]


def test_older_schedulers_score_balance_itself():
    wide = having(
        requests=Amounts(1000, GI, 0, 1), scored_cpu_millicores=1000, scored_memory_bytes=GI
    )
    nodes = [node("a", cores=1), node("b", cores=16), node("c", cores=8)]
    tilted = having(requests=Amounts(0, 48 * GI, 0, 1), scored_memory_bytes=48 * GI)
    pods = [pod("web-1", "a", scheduling=wide), pod("db-1", "b", app="db", scheduling=tilted)]
    weights = ScoreWeights(node_resources_fit=0)
    rules = SchedulerRules(weights=weights)
    new = cluster(nodes, pods, server_version="v1.36.3")
    old = cluster(nodes, pods, server_version="v1.35.6+k3s1")
    assert likeliest(forecast_of(new, "web-1", rules)) == "b"  # which the pod improves
    assert likeliest(forecast_of(old, "web-1", rules)) == "c"  # which is balanced


def test_alternatives_in_which_nothing_fits_land_where_the_others_do():
    loaded = cluster([node("a"), node("b"), node("c")], [pod("web-1", "a")])
    view = SchedulerView(loaded, SchedulerRules())
    departure = forecast_of(loaded, "web-1").departure
    rows = np.array([[0.0, 1.0, 0.0]] * 30 + [[0.0, 0.0, 0.0]])
    cpu = view.moved(departure, rows).requested(departure).amounts[:, 0]
    assert cpu.tolist() == [[100, 100, 0]] * 31
