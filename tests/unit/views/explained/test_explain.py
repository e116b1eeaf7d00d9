"""What explanations say about small clusters."""

import io
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from desched.decision import Decision, decide
from desched.errors import ConfigurationError
from desched.model.cluster import ModelCopies, PodVolume, VolumeKind
from desched.model.load import (
    ClusterLoad,
    GpuUsage,
    Level,
    LoadHistory,
    SeenLoad,
    Unknown,
    UnknownReason,
)
from desched.model.model_caches import CACHE_KEY, GPUSTACK, KSERVE, KSERVE_MODEL
from desched.model.plan import HoldReason, NodeClass, NodeReason, RefusalReason
from desched.model.resources import Resource
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import CoolDown, MoveResult, Pause, PauseScope, State
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, PriorityThreshold, Protections, SteeringRules
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.explained.values import (
    Explanation,
    NodeExplanation,
    PodExplanation,
    PodOutcome,
    RuleOutcome,
    WorkloadExplanation,
)
from desched.views.explanation import print_explanation
from tests.builders import (
    NOW,
    amounts,
    budget,
    load,
    measured,
    no_limits_but,
    node,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)

LATER = NOW + timedelta(minutes=20)


def hot(*more: Any, of_load: ClusterLoad | None = None, **cluster: Any) -> Snapshot:
    """A node with 3.6 of 4 cores used, of which p1 and p2 use 1 each, beside two idle nodes."""
    used = {"p1": (1.0, 0.5), "p2": (1.0, 0.5), "bare": (0.5, 0.1)}
    loads = load({"hot": (0.9, 0.2), "cool": (0.1, 0.1), "warm": (0.6, 0.1)}, used)
    pods = (pod("p1", on="hot"), pod("p2", on="hot"), pod("bare", on="hot", of=None), *more)
    nodes = (node("hot"), node("cool"), node("warm"))
    return snapshot(nodes, pods, of_load or loads, **cluster)


def answer(
    question: str, seen: Snapshot, by: Policy | None = None, state: State | None = None
) -> Explanation:
    decision = decide(seen, by or policy(), state or State())
    return explain(parse_subject(*question.split()), decision, "test")


def of_node(question: str, *args: Any, **more: Any) -> NodeExplanation:
    found = answer(question, *args, **more).node
    assert found is not None
    return found


def of_pod(question: str, *args: Any, **more: Any) -> PodExplanation:
    found = answer(question, *args, **more).pod
    assert found is not None
    return found


def of_workload(question: str, *args: Any, **more: Any) -> WorkloadExplanation:
    found = answer(question, *args, **more).workload
    assert found is not None
    return found


@pytest.mark.parametrize("minutes", [1, 600])
def test_each_reason_of_a_rule_is_listed_once(minutes: int) -> None:
    started = NOW - timedelta(minutes=minutes)
    young = of_pod("pod apps/new", hot(pod("new", on="hot", started_at=started)))

    reasons = [rule.reason for rule in young.rules]
    assert len(reasons) == len(set(reasons))
    found = {rule.reason: rule.outcome for rule in young.rules}
    expected = RuleOutcome.REFUSED if minutes == 1 else RuleOutcome.PASSED
    assert found[RefusalReason.TOO_YOUNG] is expected


# --- nodes ------------------------------------------------------------------------------------


def test_a_node_has_its_load_beside_that_of_its_pods() -> None:
    found = of_node("node hot", hot())

    cpu, memory = found.loads
    assert cpu.measured == ((300, 0.9),)
    assert cpu.pods_ratio == pytest.approx(2.5 / 4)
    assert cpu.other_ratio == pytest.approx(0.9 - 2.5 / 4)
    assert cpu.excess_ratio == pytest.approx(0.9 - 0.75)
    assert cpu.relief_ratio == pytest.approx(0.25)
    assert memory.excess_ratio is None


@pytest.mark.parametrize("fields", [{"phase": "Succeeded"}, {"deleting": True}])
def test_the_load_of_pods_that_end_is_not_that_of_others(fields: dict[str, Any]) -> None:
    used = load({"n": (0.9, 0.2)}, {"stays": (1.0, 0.5), "ends": (2.0, 0.5)})
    pods = (pod("stays", on="n"), pod("ends", on="n", **fields))
    found = of_node("node n", snapshot([node("n")], pods, used))

    assert found.verdict.reason is NodeReason.DEPARTED_LOAD
    assert found.loads[0].pods_ratio == pytest.approx(0.25)
    assert found.loads[0].other_ratio == pytest.approx(0.9 - 0.25 - 0.5)
    assert "those pods no longer count" in " ".join(found.changes)


def test_the_pods_of_a_node_are_there_with_their_outcome_the_largest_first() -> None:
    found = of_node("node hot", hot())

    assert [(each.pod.name, each.outcome, each.reason) for each in found.pods] == [
        ("p1", PodOutcome.EVICTED, None),
        ("p2", PodOutcome.STAYS, RefusalReason.NOT_NEEDED),
        ("bare", PodOutcome.STAYS, RefusalReason.BARE_POD),
    ]
    assert found.pods[0].expected_on == "cool or warm (50 % each)"
    assert [each.pod.name for each in found.leaving] == ["p1"]
    stays = {each.reason: (each.pods, each.ratio) for each in found.loads[0].staying}
    assert stays == {RefusalReason.NOT_NEEDED: (1, 0.25), RefusalReason.BARE_POD: (1, 0.125)}


def test_a_node_whose_pods_the_policy_excludes_says_what_it_excludes() -> None:
    excluding = policy(protections=Protections(excluded_namespaces=("apps",)))
    found = of_node("node hot", hot(), excluding)

    assert found.verdict.reason is NodeReason.EXCESS_NOT_MOVABLE
    assert found.verdict.detail.startswith("no pod can move: namespace_excluded keeps ")
    assert found.changes[-1] == (
        "Most of what stays, namespace_excluded keeps: The policy excludes its namespace. Remove "
        "its namespace from evictableNamespaces.exclude, or add it to include."
    )


def test_the_gpus_of_a_node_are_explained_as_its_cpu_is() -> None:
    """Both pods of its two GPUs stay: they are bare."""
    size = replace(amounts(4, 16, **{"nvidia.com/gpu": 8}), pods=110)
    one = amounts(0.1, 0.1, **{"nvidia.com/gpu": 1})
    pods = [pod(name, on="hot", of=None, request=one) for name in ("p1", "p2")]
    used = {
        ("apps", "p1"): GpuUsage((0.7,), (0.2,)),
        ("apps", "p2"): GpuUsage((0.7,), (0.0,)),
    }
    gpus = replace(measured(0.9), gpus=2)
    loads = load({"hot": (0.1, 0.1), "cool": (0.1, 0.1)}, {"p1": (1.0, 0.5), "p2": (1.0, 0.5)})
    loads = replace(
        loads,
        nodes={**loads.nodes, "hot": {**loads.nodes["hot"], Resource.GPU: gpus}},
        gpus={"hot": gpus},
        gpu_usages=used,
    )
    nodes = [node("hot", capacity=size, allocatable=size), node("cool")]
    found = of_node("node hot", snapshot(nodes, pods, loads), policy(rule(), rule(Resource.GPU)))

    _, gpu = found.loads
    assert gpu.measured == ((300, 0.9),)
    assert gpu.pods_ratio == pytest.approx(0.8)
    assert gpu.other_ratio == pytest.approx(0.1)
    (stays,) = gpu.staying
    assert stays.reason is RefusalReason.BARE_POD
    assert stays.ratio == pytest.approx(0.8)
    assert [each.gpus for each in found.pods] == pytest.approx([0.9, 0.7])
    assert [each.gpu_ratio for each in found.pods] == pytest.approx([0.45, 0.35])

    unnamed = replace(loads, gpu_usages={})
    found = of_node("node hot", snapshot(nodes, pods, unnamed), policy(rule(), rule(Resource.GPU)))
    _, gpu = found.loads
    assert gpu.measured == ((300, 0.9),)
    assert (gpu.pods_ratio, gpu.other_ratio, gpu.staying) == (None, None, ())


def test_gpus_of_unknown_load_are_a_row_with_what_would_have_to_change() -> None:
    gone = Unknown(UnknownReason.ABSENT, "no series of its exporter")
    loads = replace(load({"hot": (0.1, 0.1), "cool": (0.1, 0.1)}, {}), gpus={"hot": gone})
    seen = snapshot([node("hot"), node("cool")], [], loads)

    found = of_node("node hot", seen, policy(rule(), rule(Resource.GPU)))

    assert [(each.resource, each.measured) for each in found.loads][1:] == [(Resource.GPU, ())]
    (change,) = found.changes
    assert change == (
        "Let Prometheus measure its GPUs; until then its pods with a GPU stay, and it takes no "
        "further ones (no series of its exporter)."
    )
    unwatched = of_node("node hot", seen, policy(rule()))
    assert ([each.resource for each in unwatched.loads], unwatched.changes) == ([Resource.CPU], ())


def test_a_destination_has_what_is_expected_on_it() -> None:
    found = of_node("node cool", hot())

    assert [each.pod.name for each in found.arriving] == ["p1"]
    assert found.changes == ()


def test_the_age_of_the_samples_is_that_of_the_newest() -> None:
    loads = load({"n": (0.5, 0.1)})
    seen = snapshot((node("n"),), (), loads)
    found = {"n": {Resource.CPU: SeenLoad(12.5)}}
    seen = Snapshot(seen.cluster, ClusterLoad(loads.nodes, {}, seen=found), NOW)

    cpu, memory = of_node("node n", seen).loads

    assert (cpu.age_seconds, memory.age_seconds) == (12.5, None)


def test_an_overload_that_passes_names_the_price() -> None:
    loads = load({"hot": (0.81, 0.1), "cool": (0.1, 0.1), "low": (0.1, 0.1)})
    points = (0.1,) * 11 + (0.81,)
    history = {"hot": {Resource.CPU: LoadHistory(300, points)}}
    seen = snapshot(
        [node(name) for name in loads.nodes], (), ClusterLoad(loads.nodes, {}, history=history)
    )

    found = of_node("node hot", seen, policy(eviction_price_minutes=30.0))

    assert found.verdict.reason is NodeReason.OVERLOAD_PASSES
    assert found.verdict.outlook is not None
    assert found.verdict.outlook.above_before == 5
    assert 0 < found.verdict.outlook.above_expected < 30
    assert found.changes == ("Nothing, or lower evictionPrice.",)


def test_a_pod_of_a_node_that_is_overloaded_again_and_again_needs_no_overload_first() -> None:
    loads = load({"hot": (0.7, 0.1), "cool": (0.1, 0.1), "low": (0.1, 0.1)}, {"p1": (1.0, 0.5)})
    points = (0.95, 0.95, 0.7) * 4
    history = {"hot": {Resource.CPU: LoadHistory(300, points)}}
    loads = replace(loads, history=history)
    nodes = [node(name) for name in ("hot", "cool", "low")]
    seen = snapshot(nodes, [pod("p1", on="hot", of=None)], loads)

    found = answer("pod apps/p1", seen)

    assert found.pod is not None
    assert found.pod.node_verdict is not None
    assert found.pod.node_verdict.node_class is NodeClass.BALANCED
    assert found.pod.node_verdict.hot
    assert not [each for each in found.pod.changes if "above a target" in each]


def test_a_fresh_node_shows_its_load_and_from_when_it_can_be_judged() -> None:
    fresh = node("n", created_at=NOW - timedelta(seconds=100))
    unknown = Unknown(UnknownReason.WINDOW_NOT_COVERED, "too young")
    half = SeenLoad(9.0, (Level(300, 0.5),), 200.0)
    nodes = {"n": {Resource.CPU: unknown, Resource.MEMORY: unknown}}
    loads = ClusterLoad(nodes, {}, seen={"n": {Resource.CPU: half}})

    found = of_node("node n", snapshot((fresh,), (), loads))

    assert found.verdict.node_class is NodeClass.OUT_OF_SCOPE
    assert found.verdict.until == NOW + timedelta(seconds=200)
    (cpu,) = found.loads
    assert (cpu.measured, cpu.age_seconds) == (((300, 0.5),), 9.0)


@pytest.mark.parametrize(("waits", "until"), [((60.0, 200.0), 200), ((60.0, None), None)])
def test_a_node_can_be_judged_when_the_windows_of_all_loads_are_covered(
    waits: tuple[float | None, ...], until: float | None
) -> None:
    unknown = Unknown(UnknownReason.WINDOW_NOT_COVERED)
    both = (Resource.CPU, Resource.MEMORY)
    seen = {r: SeenLoad(9.0, (), wait) for r, wait in zip(both, waits, strict=True)}
    loads = ClusterLoad({"n": dict.fromkeys(both, unknown)}, {}, seen={"n": seen})

    found = of_node("node n", snapshot((node("n"),), (), loads))

    assert found.verdict.until == (NOW + timedelta(seconds=until) if until else None)


def test_a_cycle_that_is_held_says_what_holds_it() -> None:
    found = answer("node hot", hot(of_load=load({"hot": (0.9, 0.1)})))

    assert found.hold is HoldReason.TOO_MANY_UNKNOWN_NODES
    assert found.node is not None
    assert found.node.changes[0] == "Let the unknown nodes be measured."


# --- pods -------------------------------------------------------------------------------------


def test_every_rule_has_its_verdict_also_after_the_first_refusal() -> None:
    two = pod("two", on="hot", priority=2_000_000_000, annotations={"desched.io/evict": "false"})

    found = of_pod("pod apps/two", hot(two))

    refused = [rule.reason for rule in found.rules if rule.outcome is RuleOutcome.REFUSED]
    assert refused == [
        RefusalReason.OPTED_OUT,
        RefusalReason.SYSTEM_CRITICAL,
        RefusalReason.USAGE_UNKNOWN,
    ]
    assert (found.summary.outcome, found.summary.reason) == (
        PodOutcome.STAYS,
        RefusalReason.OPTED_OUT,
    )
    assert [change.partition(" ")[0] for change in found.changes] == ["Remove", "Set", "Let"]
    assert found.placement is None  # what it uses is not known


def test_a_rule_that_an_annotation_lifts_is_marked() -> None:
    eager = pod("eager", on="hot", priority=200, annotations={"desched.io/evict": "true"})
    by = policy(protections=Protections(priority_threshold=PriorityThreshold(value=100)))

    found = of_pod("pod apps/eager", hot(eager), by)

    lifted = [rule for rule in found.rules if rule.outcome is RuleOutcome.LIFTED]
    assert [rule.reason for rule in lifted] == [RefusalReason.PRIORITY_THRESHOLD]
    assert lifted[0].detail == "priority 200, threshold 100"


def test_a_planned_pod_waits_for_a_limit_of_zero_to_go() -> None:
    by = policy(limits=no_limits_but(total=0, zero_at="policy.yaml:9: total"))

    found = of_pod("pod apps/p1", hot(), by)

    assert found.summary.outcome is PodOutcome.EVICTED
    assert found.changes == ("Remove the policy's limit of 0: policy.yaml:9: total.",)


def test_a_planned_pod_has_its_eviction_and_nothing_to_change() -> None:
    found = of_pod("pod apps/p1", hot())

    assert found.eviction is not None
    assert found.placement is not None
    assert found.eviction.expected_on == found.placement.expected_on == "cool or warm (50 % each)"
    assert found.changes == ()
    loads = {
        (each.node, each.resource): (each.before_ratio, each.after_ratio)
        for each in found.placement.loads
    }
    assert loads["hot", Resource.CPU] == pytest.approx((0.9, 0.65))
    assert loads["cool", Resource.CPU] == pytest.approx((0.1, 0.35))


def test_nodes_are_counted_by_why_they_cannot_take_the_pod() -> None:
    big = pod("big", on="hot", request=amounts(3.5, 1))
    full = pod("full", on="cool", of=None, request=amounts(3.9, 1))
    loads = load({"hot": (0.9, 0.2), "cool": (0.1, 0.1), "warm": (0.6, 0.1)}, {"big": (1.0, 0.5)})

    explained = answer("pod apps/big", hot(big, full, of_load=loads))
    assert explained.pod is not None
    found = explained.pod.placement

    assert found is not None
    assert (found.nodes, found.suitable) == (3, 0)
    assert {each.reason: each.nodes for each in found.excluded} == {
        "Insufficient cpu": 1,
        "node(s) is the one to be relieved": 1,
        "node(s) would rise above their ceiling": 1,
    }
    assert [(each.node, each.lacks) for each in found.near] == [
        ("warm", "would be 15.0 points of CPU above its ceiling"),
        ("cool", "lacks 3.40 cores free of requests"),
    ]
    assert found.reason is RefusalReason.NO_NODE_UNDER_CEILING
    printed = io.StringIO()
    print_explanation(explained, Console(file=printed, width=200))
    assert "nearest: node cool lacks 3.40 cores free of requests" in printed.getvalue()


def test_a_node_with_room_outside_the_domain_of_a_pod_is_not_above_its_ceiling() -> None:
    group = "cloud.google.com/gke-placement-group"
    nodes = (node("hot", labels={group: "a"}), node("cool", labels={group: "b"}))
    loads = load({"hot": (0.9, 0.2), "cool": (0.1, 0.1)}, {"p1": (1.0, 0.5)})

    found = of_pod("pod apps/p1", snapshot(nodes, [pod("p1", on="hot")], loads)).placement

    assert found is not None
    assert (found.reason, found.near) == (RefusalReason.PLACEMENT_DOMAIN, ())


def test_a_pod_without_a_place_names_the_nearest_nodes_as_what_would_have_to_change() -> None:
    loads = load(
        {"hot": (0.9, 0.2), "cool": (0.5, 0.1), "warm": (0.6, 0.1)},
        {"p1": (1.5, 0.5), "p2": (1.5, 0.5)},
    )

    found = of_pod("pod apps/p1", hot(of_load=loads))

    assert found.summary.reason is RefusalReason.NO_NODE_UNDER_CEILING
    assert found.changes == (
        "A node that accepts it must have less load; ceilingMargin sets the ceiling.",
        "Node cool would be 17.5 points of CPU above its ceiling.",
        "Node warm would be 27.5 points of CPU above its ceiling.",
    )


def risky() -> Snapshot:
    """Pods on a node that looks free by requests: the scheduler would put them straight back."""
    used = {"p1": (1.0, 0.5), "p2": (1.0, 0.5)}
    ballast = pod("ballast", on="cool", of=None, request=amounts(3, 8))
    pods = (pod("p1", on="hot"), pod("p2", on="hot"), ballast)
    return snapshot(
        (node("hot"), node("cool")), pods, load({"hot": (0.9, 0.2), "cool": (0.1, 0.1)}, used)
    )


def test_any_risk_is_accepted_of_a_scheduler_that_the_policy_does_not_name() -> None:
    pods = [pod(name, on="hot", scheduler="volcano") for name in ("p1", "p2")]
    used = load({"hot": (0.9, 0.2), "cool": (0.1, 0.1)}, {"p1": (1.0, 0.5), "p2": (1.0, 0.5)})
    found = of_pod("pod apps/p1", snapshot((node("hot"), node("cool")), pods, used))

    assert found.summary.outcome is PodOutcome.EVICTED
    assert found.placement is not None
    forecast = found.placement.forecast
    assert forecast is not None
    assert (forecast.risk, forecast.most_risk) == (0.5, None)


def test_the_risk_of_a_landing_has_its_parts_and_what_would_lower_it() -> None:
    found = of_pod("pod apps/p1", risky(), policy(max_landing_risk=0.15))

    assert found.placement is not None
    forecast = found.placement.forecast
    assert forecast is not None
    assert (forecast.risk, forecast.back_ratio, forecast.harm_ratio) == (1.0, 1.0, 0.0)
    assert (forecast.most_risk, forecast.steered) == (0.15, ())
    first, second = forecast.nodes
    assert (first.node, first.probability, first.harmful) == ("hot", 1.0, True)
    assert (second.node, second.probability, second.harmful) == ("cool", 0.0, False)
    assert first.score == sum(first.by_plugin.values()) > second.score
    assert found.changes == (
        "The scheduler must prefer a better node, or maxLandingRisk be higher.",
        "Soft taints could keep it off those nodes: set steering: WhenNeeded.",
        "maxLandingRisk would have to be 1.00 or more.",
    )


def test_soft_taints_that_the_landing_needs_are_named_with_the_risk_without_them() -> None:
    steering = policy(max_landing_risk=0.15, steering=SteeringRules(SteeringMode.WHEN_NEEDED, 1))

    found = of_pod("pod apps/p1", risky(), steering).placement

    assert found is not None
    assert found.forecast is not None
    assert found.forecast.steered == ("hot",)
    assert (found.forecast.risk, found.forecast.without_taints) == (0.0, 1.0)
    assert found.forecast.nodes[0].node == "cool"
    # The scores are those with the taint: each adds up, and the tainted node has less.
    for chance in found.forecast.nodes:
        assert chance.score == sum(chance.by_plugin.values())


def test_a_decision_without_the_right_to_steer_is_explained_without_taints() -> None:
    by = policy(max_landing_risk=0.15, steering=SteeringRules(SteeringMode.WHEN_NEEDED, 1))
    decision = decide(risky(), by, State(), may_steer=False)

    found = explain(parse_subject("pod/apps/p1"), decision, "test").pod

    assert found is not None
    assert found.summary.reason is RefusalReason.LANDING_RISK
    assert found.placement is not None
    assert found.placement.forecast is not None
    assert found.placement.forecast.risk == 1.0


def test_a_pod_of_a_node_that_is_not_overloaded_needs_an_overload_first() -> None:
    calm = pod("calm", on="cool")
    loads = load({"hot": (0.5, 0.2), "cool": (0.1, 0.1), "warm": (0.6, 0.1)}, {"calm": (0.1, 0.1)})

    found = of_pod("pod apps/calm", hot(calm, of_load=loads))

    assert found.summary.outcome is PodOutcome.NOT_NEEDED
    assert found.changes == (
        "Its node would have to be above a target (memory 10.0% of 85.0%, cpu 10.0% of 80.0%).",
    )


LABELLED = "cache.desched.io/llama=true"
OME = "models.ome.io/clusterbasemodel.llama"
OF_OME = NodeSelectorTerm((Requirement(OME, Operator.IN, ("Ready",)),))
OF_KSERVE: dict[str, Any] = {"labels": {"app": "web", KSERVE_MODEL: "llama"}}
OF_GPUSTACK: dict[str, Any] = {"volumes": (PodVolume(VolumeKind.MODEL, model="llama"),)}
PREFER = "With cacheAffinity: Prefer, it may also move to other nodes."


@pytest.mark.parametrize(
    ("needs", "system", "advice"),
    [
        (
            {"annotations": {CACHE_KEY: "llama"}},
            "",
            f"Put model llama on another node, and label that node {LABELLED}. {PREFER}",
        ),
        (
            {"annotations": {CACHE_KEY: ""}},
            "",
            f"Name the model in desched.io/cache-key, or remove that annotation. {PREFER}",
        ),
        (
            {"scheduling": {"preferred_node_affinity": ((1, OF_OME),)}},
            "",
            f"Let OME put model {OME} on another node. {PREFER}",
        ),
        (OF_GPUSTACK, GPUSTACK, f"Let GPUStack put model llama on another node. {PREFER}"),
        (OF_KSERVE, KSERVE, "Let KServe put model llama on another node."),
    ],
)
def test_what_would_put_a_model_on_more_nodes_depends_on_what_has_it(
    needs: dict[str, Any], system: str, advice: str
) -> None:
    """R1.2: labels of nodes count only for some, and what KServe has is downloaded nowhere else."""
    copies = (ModelCopies(system, ("llama",), ("hot",)),) if system else ()
    loads = load({"hot": (0.9, 0.2), "cool": (0.1, 0.1)}, {"p1": (1.0, 0.5)})
    seen = snapshot(
        (node("hot"), node("cool")), [pod("p1", on="hot", **needs)], loads, model_copies=copies
    )

    found = of_pod("pod apps/p1", seen)

    assert found.summary.reason is RefusalReason.MODEL_CACHE
    assert found.changes == (f"A node that holds its model must accept it. {advice}",)


def test_a_cool_down_names_its_end_and_the_command_that_ends_it() -> None:
    state = State(cool_downs=(CoolDown("uid-web", "Deployment apps/web", LATER),))

    found = of_pod("pod apps/p1", hot(), state=state)

    assert found.summary.reason is RefusalReason.COOLING_DOWN
    assert found.changes == (
        (
            "Wait until the cool-down ends, or run `desched resume --workload apps/web`. "
            "That is at 2026-05-01 12:20 UTC at the earliest."
        ),
    )


def test_a_pending_pod_has_no_placement() -> None:
    waiting = pod("waiting", phase="Pending", ready=False, started_at=None)

    found = of_pod("pod apps/waiting", hot(waiting))

    assert (found.placement, found.node_verdict) == (None, None)
    assert found.summary.reason is RefusalReason.NOT_RUNNING


# --- workloads --------------------------------------------------------------------------------


def test_a_workload_has_its_pods_its_pace_and_its_budget() -> None:
    state = State(
        cool_downs=(CoolDown("uid-web", "Deployment apps/web", LATER, 1, MoveResult.NOT_READY),),
        pauses=(Pause(PauseScope.NAMESPACE, NOW, LATER, "apps", "storage", "bob"),),
    )
    by = policy(limits=no_limits_but(in_flight_workload=2, workload_hourly=3))

    found = of_workload("workload apps/web", hot(budgets=(budget("pdb", 1, app="web"),)), by, state)

    assert (found.workload, found.desired_replicas, found.ready_replicas) == (
        "Deployment apps/web",
        20,
        20,
    )
    assert [each.pod.name for each in found.pods] == ["p1", "p2"]
    assert [(each.budget, each.disruptions_allowed) for each in found.budgets] == [("apps/pdb", 1)]
    assert (found.in_flight, found.most_in_flight) == (0, 2)
    assert (found.moved_within_hour, found.most_within_hour) == (0, 3)
    assert (found.cooling_down_until, found.result) == (LATER, MoveResult.NOT_READY)
    assert found.pauses == ("namespace apps is paused by bob until 2026-05-01 12:20 UTC: storage",)


def test_a_workload_of_one_of_several_kinds_must_name_its_kind() -> None:
    several = [workload("web"), replace(workload("web"), uid="uid-other", kind="StatefulSet")]
    seen = hot(workloads=several)

    with pytest.raises(ConfigurationError, match=r"Several .* \(Deployment, StatefulSet\)"):
        answer("workload apps/web", seen)
    assert of_workload("sts/apps/web", seen).workload == "StatefulSet apps/web"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("node hots", "There is no node hots; did you mean hot?"),
        ("pod apps/bear", "There is no pod apps/bear; did you mean apps/bare?"),
        ("pod other/p1", "There is no pod other/p1."),
        ("deploy apps/wab", "There is no Deployment apps/wab; did you mean apps/web?"),
        ("workload apps/job", "There is no workload apps/job that desched understands."),
        ("sts apps/web", "There is no StatefulSet apps/web."),
    ],
)
def test_what_is_not_there_is_one_sentence_with_what_is_near(question: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        answer(question, hot())


def test_explaining_changes_nothing_about_a_decision() -> None:
    decision: Decision = decide(hot(), policy(), State())
    before = decision.plan

    for question in ("node/hot", "pod/apps/p1", "pod/apps/bare", "workload/apps/web"):
        first = explain(parse_subject(question), decision, "test")
        assert explain(parse_subject(question), decision, "test") == first

    assert decision.plan == before
