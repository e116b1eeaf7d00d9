"""What explanations say about small clusters.

The whole of each is in `explanations.txt`; rules that a pod passes are there once.
"""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from desched.decision import Decision, decide
from desched.errors import ConfigurationError
from desched.model.cluster import PodVolume, VolumeKind
from desched.model.load import (
    ClusterLoad,
    DeviceUsage,
    Level,
    LoadHistory,
    SeenLoad,
    Unknown,
    UnknownReason,
)
from desched.model.plan import RefusalReason
from desched.model.resources import Resource
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import CoolDown, MoveResult, Pause, PauseScope, State
from desched.plugins.caches.models import CACHE_KEY, GPUSTACK, KSERVE, KSERVE_MODEL
from desched.plugins.caches.objects import CacheObjects, ModelCopies
from desched.plugins.gpus.load import GpuLoad
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy, PriorityThreshold, Protections, SteeringRules
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.explained.values import (
    Explanation,
    NodeExplanation,
    PodExplanation,
    RuleOutcome,
    WorkloadExplanation,
)
from desched.views.explanation import explanation_blocks
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
from tests.shown import text_of
from tests.stored_text import check_stored, sections

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


def gpu_cluster(*, with_usages: bool = True) -> Snapshot:
    """A node whose two GPUs serve two bare pods, beside another node."""
    size = replace(amounts(4, 16, **{"nvidia.com/gpu": 8}), pods=110)
    one = amounts(0.1, 0.1, **{"nvidia.com/gpu": 1})
    pods = [pod(name, on="hot", of=None, request=one) for name in ("p1", "p2")]
    used = {"p1": DeviceUsage((0.7,), (0.2,)), "p2": DeviceUsage((0.7,), (0.0,))}
    usages = used if with_usages else {}
    gpus = replace(measured(0.9), devices=2)
    loads = load({"hot": (0.1, 0.1), "cool": (0.1, 0.1)}, {"p1": (1.0, 0.5), "p2": (1.0, 0.5)})
    loads = replace(
        loads,
        nodes={**loads.nodes, "hot": {**loads.nodes["hot"], Resource.GPU: gpus}},
        extras=GpuLoad({"hot": gpus}, {"apps": usages}).extras,
    )
    nodes = [node("hot", capacity=size, allocatable=size), node("cool")]
    return snapshot(nodes, pods, loads)


def dark_gpus() -> Snapshot:
    gone = Unknown(UnknownReason.ABSENT, "no series of its exporter")
    loads = load({"hot": (0.1, 0.1), "cool": (0.1, 0.1)}, {})
    loads = replace(loads, extras=GpuLoad({"hot": gone}).extras)
    return snapshot([node("hot"), node("cool")], [], loads)


def leaving(**fields: Any) -> Snapshot:
    used = load({"n": (0.9, 0.2)}, {"stays": (1.0, 0.5), "ends": (2.0, 0.5)})
    return snapshot([node("n")], (pod("stays", on="n"), pod("ends", on="n", **fields)), used)


def with_history(ratio: float, *points: float) -> Snapshot:
    """A node with this load of CPU now, and these each five minutes before."""
    loads = load({"hot": (ratio, 0.1), "cool": (0.1, 0.1), "low": (0.1, 0.1)}, {"p1": (1.0, 0.5)})
    history = {"hot": {Resource.CPU: LoadHistory(300, points)}}
    nodes = [node(name) for name in loads.nodes]
    return snapshot(nodes, [pod("p1", on="hot", of=None)], replace(loads, history=history))


def not_covered(*waits: float | None, age_seconds: float = 3600.0) -> Snapshot:
    """A node whose windows of CPU and memory are covered after these seconds."""
    unknown = Unknown(UnknownReason.WINDOW_NOT_COVERED, "too young")
    both = (Resource.CPU, Resource.MEMORY)
    seen = {r: SeenLoad(9.0, (Level(300, 0.5),), wait) for r, wait in zip(both, waits, strict=True)}
    loads = ClusterLoad({"n": dict.fromkeys(both, unknown)}, {}, seen={"n": seen})
    fresh = node("n", created_at=NOW - timedelta(seconds=age_seconds))
    return snapshot((fresh,), (), loads)


def risky() -> Snapshot:
    """Pods on a node that looks free by requests: the scheduler would put them straight back."""
    used = {"p1": (1.0, 0.5), "p2": (1.0, 0.5)}
    ballast = pod("ballast", on="cool", of=None, request=amounts(3, 8))
    pods = (pod("p1", on="hot"), pod("p2", on="hot"), ballast)
    return snapshot(
        (node("hot"), node("cool")), pods, load({"hot": (0.9, 0.2), "cool": (0.1, 0.1)}, used)
    )


def pair(hot_labels: Any = None, cool_labels: Any = None, **fields: Any) -> Snapshot:
    """A hot and a cool node, and p1 on the hot one."""
    copies = CacheObjects(fields.pop("copies", ())).extras
    nodes = (node("hot", labels=hot_labels or {}), node("cool", labels=cool_labels or {}))
    loads = load({"hot": (0.9, 0.2), "cool": (0.1, 0.1)}, {"p1": (1.0, 0.5)})
    return snapshot(nodes, [pod("p1", on="hot", **fields)], loads, extras=copies)


GROUP = "cloud.google.com/gke-placement-group"
OME = "models.ome.io/clusterbasemodel.llama"
OF_OME = NodeSelectorTerm((Requirement(OME, Operator.IN, ("Ready",)),))
MODEL = PodVolume(VolumeKind.MODEL, model="llama")
FULL = pod("full", on="cool", of=None, request=amounts(3.9, 1))
BIG = pod("big", on="hot", request=amounts(3.5, 1))
TWICE_REFUSED = pod(
    "two", on="hot", priority=2_000_000_000, annotations={"desched.io/evict": "false"}
)
EAGER = pod("eager", on="hot", priority=200, annotations={"desched.io/evict": "true"})
OF_GPUS = policy(rule(), rule(Resource.GPU))
WARM = {"hot": (0.9, 0.2), "cool": (0.1, 0.1), "warm": (0.6, 0.1)}
NEAR = {"hot": (0.9, 0.2), "cool": (0.5, 0.1), "warm": (0.6, 0.1)}
CALM = {"hot": (0.5, 0.2), "cool": (0.1, 0.1), "warm": (0.6, 0.1)}
COOLING = CoolDown("uid-web", "Deployment apps/web", LATER, 1, MoveResult.NOT_READY)
PAUSED = Pause(PauseScope.NAMESPACE, NOW, LATER, "apps", "storage", "bob")

CASES: dict[str, tuple[Any, ...]] = {
    "a hot node": ("node hot", hot()),
    "the load of a pod that has ended is not that of others": (
        "node n",
        leaving(phase="Succeeded"),
    ),
    "nor that of a pod that is being deleted": ("node n", leaving(deleting=True)),
    "a node whose pods the policy excludes says what it excludes": (
        "node hot",
        hot(),
        policy(protections=Protections(excluded_namespaces=("apps",))),
    ),
    "GPUs are explained as CPU is": ("node hot", gpu_cluster(), OF_GPUS),
    "a pod with its GPUs": ("pod apps/p1", gpu_cluster(), OF_GPUS),
    "GPUs without the usage of pods": ("node hot", gpu_cluster(with_usages=False), OF_GPUS),
    "GPUs of unknown load": ("node hot", dark_gpus(), OF_GPUS),
    "GPUs of unknown load without a target": ("node hot", dark_gpus(), policy(rule())),
    "a destination has what is expected on it": ("node cool", hot()),
    "an overload that passes names the price": (
        "node hot",
        with_history(0.81, *(0.1,) * 11, 0.81),
        policy(eviction_price_minutes=30.0),
    ),
    "a node that is overloaded again and again needs no overload first": (
        "pod apps/p1",
        with_history(0.7, *(0.95, 0.95, 0.7) * 4),
    ),
    "a fresh node shows its load and from when it can be judged": (
        "node n",
        not_covered(200.0, 200.0, age_seconds=100),
    ),
    "a node is judged when all windows are covered": ("node n", not_covered(60.0, 200.0)),
    "when they are covered may not be known": ("node n", not_covered(60.0, None)),
    "a cycle that is held says what holds it": (
        "node hot",
        hot(of_load=load({"hot": (0.9, 0.1)})),
    ),
    "every rule has its verdict, also after the first refusal": (
        "pod apps/two",
        hot(TWICE_REFUSED),
    ),
    "a rule that an annotation lifts": (
        "pod apps/eager",
        hot(EAGER),
        policy(protections=Protections(priority_threshold=PriorityThreshold(value=100))),
    ),
    "a planned pod waits for a limit of zero to go": (
        "pod apps/p1",
        hot(),
        policy(limits=no_limits_but(total=0, zero_at="policy.yaml:9: total")),
    ),
    "a planned pod": ("pod apps/p1", hot()),
    "nodes are counted by why they cannot take the pod": (
        "pod apps/big",
        hot(BIG, FULL, of_load=load(WARM, {"big": (1.0, 0.5)})),
    ),
    "room outside the domain of a pod": ("pod apps/p1", pair({GROUP: "a"}, {GROUP: "b"})),
    "a pod without a place names the nearest nodes": (
        "pod apps/p1",
        hot(of_load=load(NEAR, {"p1": (1.5, 0.5), "p2": (1.5, 0.5)})),
    ),
    "any risk is accepted of a scheduler that the policy does not name": (
        "pod apps/p1",
        pair(scheduler="volcano"),
    ),
    "the risk of a landing, and what would lower it": (
        "pod apps/p1",
        risky(),
        policy(max_landing_risk=0.15),
    ),
    "soft taints that the landing needs": (
        "pod apps/p1",
        risky(),
        policy(max_landing_risk=0.15, steering=SteeringRules(SteeringMode.WHEN_NEEDED, 1)),
    ),
    "a pod of a calm node needs an overload first": (
        "pod apps/calm",
        hot(pod("calm", on="cool"), of_load=load(CALM, {"calm": (0.1, 0.1)})),
    ),
    "R1.2 a model by an annotation": ("pod apps/p1", pair(annotations={CACHE_KEY: "llama"})),
    "R1.2 a model without a name": ("pod apps/p1", pair(annotations={CACHE_KEY: ""})),
    "R1.2 a model of OME": (
        "pod apps/p1",
        pair(scheduling={"preferred_node_affinity": ((1, OF_OME),)}),
    ),
    "R1.2 a model of GPUStack": (
        "pod apps/p1",
        pair(volumes=(MODEL,), copies=(ModelCopies(GPUSTACK, ("llama",), ("hot",)),)),
    ),
    "R1.2 a model of KServe, which is downloaded nowhere else": (
        "pod apps/p1",
        pair(
            labels={"app": "web", KSERVE_MODEL: "llama"},
            copies=(ModelCopies(KSERVE, ("llama",), ("hot",)),),
        ),
    ),
    "a cool-down names its end and the command that ends it": (
        "pod apps/p1",
        hot(),
        None,
        State(cool_downs=(CoolDown("uid-web", "Deployment apps/web", LATER),)),
    ),
    "a pending pod has no placement": (
        "pod apps/waiting",
        hot(pod("waiting", phase="Pending", ready=False, started_at=None)),
    ),
    "a workload has its pods, its pace and its budget": (
        "workload apps/web",
        hot(budgets=(budget("pdb", 1, app="web"),)),
        policy(limits=no_limits_but(in_flight_workload=2, workload_hourly=3)),
        State(cool_downs=(COOLING,), pauses=(PAUSED,)),
    ),
}


def explained(explanation: Explanation) -> str:
    return text_of(explanation_blocks(explanation), 120)


def test_an_explanation_says_all_of_this() -> None:
    found = {sentence: explained(answer(*case)) for sentence, case in CASES.items()}
    for sentence in found.keys() - {"a planned pod"}:
        found[sentence] = re.sub(r"(?m)^passed .*\n(       .*\n)*", "", found[sentence])
    check_stored(Path(__file__).with_name("explanations.txt"), sections(found))


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


def test_the_age_of_the_samples_is_that_of_the_newest() -> None:
    loads = load({"n": (0.5, 0.1)})
    seen = snapshot((node("n"),), (), loads)
    found = {"n": {Resource.CPU: SeenLoad(12.5)}}
    seen = Snapshot(seen.cluster, ClusterLoad(loads.nodes, {}, seen=found), NOW)

    cpu, memory = of_node("node n", seen).loads

    assert (cpu.age_seconds, memory.age_seconds) == (12.5, None)


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
