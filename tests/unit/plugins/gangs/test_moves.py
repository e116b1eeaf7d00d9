"""`gangMode: Whole`: where nothing else relieves a node, all pods of a gang leave, or none."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from desched.decision import decide
from desched.gangs.objects import DeclaredGroup, GroupPart
from desched.gangs.topology import GroupTopology
from desched.model.cluster import Pod, Workload
from desched.model.load import LoadHistory, PodUsage
from desched.model.plan import Finding, NodeReason, Plan
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, Pause, PauseScope, State
from desched.network.objects import HyperNode, NetworkObjects
from desched.network.placement_domains import DomainMode
from desched.network.plugin import domains_of
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.needed_usage import needed_pods
from desched.planning.overload.classification import classify
from desched.planning.overload.outlook import Pasts
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.planner import before_moves
from desched.planning.selection.candidates import OverloadedNode, candidate_of
from desched.planning.selection.outcomes import JointMove, NodeSelection, Stuck
from desched.planning.selection.trial import Move, Trial
from desched.planning.situation import Situation
from desched.plugins import HOUSE
from desched.plugins.gangs.keys import GangMode
from desched.plugins.gangs.moves import WholeMoves
from desched.plugins.gangs.plugin import Gangs
from desched.plugins.networks.plugin import Networks
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import EvictionLimits, Policy, SteeringRules
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from tests.builders import (
    NOW,
    amounts,
    budget,
    certain,
    evicted,
    house,
    load,
    no_limits_but,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
    workload,
)
from tests.chosen_load import known_on

STEERED = SteeringRules(SteeringMode.WHEN_NEEDED, most_nodes=1)
WHOLE = policy(plugins=house(Gangs(GangMode.WHOLE)), steering=STEERED, max_landing_risk=0.15)
SURPLUS = msgspec.structs.replace(WHOLE, plugins=HOUSE)

NAME, LEAST = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"
RANKS = {"rank-0": "te1", "rank-1": "te2", "rank-2": "te3"}
LOADS = {"te1": 0.95, "te2": 0.5, "te3": 0.5, "te4": 0.1}


def rank(name: str, **fields: Any) -> Pod:
    marks = {NAME: "llama", LEAST: "3"}
    fixed: dict[str, Any] = {"on": RANKS[name], "of": "llama", "request": amounts(2.5, 1)}
    return pod(name, **(fixed | {"annotations": marks} | fields))


def training(
    *more: Pod,
    loads: Mapping[str, float] = LOADS,
    ranks: Mapping[str, Mapping[str, Any]] = {},
    owner: Workload | None = None,
    **cluster: Any,
) -> Snapshot:
    """A job of three ranks; only `rank-0` could relieve te1, and only te4 is idle."""
    pods = [*(rank(name, **ranks.get(name, {})) for name in RANKS), *more]
    usage = {each.name: (1.2, 0.5) for each in pods}
    return snapshot(
        [node(name) for name in loads],
        pods,
        load({name: (ratio, 0.2) for name, ratio in loads.items()}, usage),
        [owner or workload("llama", 3), workload("web", 20)],
        **cluster,
    )


def details(plan: Plan) -> dict[str, str]:
    return {refusal.pod.name: refusal.detail for refusal in plan.refusals}


def limited(**limits: Any) -> Policy:
    return msgspec.structs.replace(WHOLE, limits=no_limits_but(**limits))


def test_a_gang_leaves_its_nodes_together_where_nothing_else_relieves_one() -> None:
    """R2.3: opt-in, and only as one; it may come back to the nodes that are not overloaded."""
    plan = planned(training(), WHOLE)

    assert sorted(evicted(plan)) == sorted(RANKS)
    assert {each.gang for each in plan.evictions} == {"gang apps/llama (Koordinator)"}
    assert {each.node for each in plan.evictions} == {"te1", "te2", "te3"}
    assert {each.expected_node for each in plan.evictions} == {"te2", "te3", "te4"}
    assert all(each.landing_risk <= 0.15 for each in plan.evictions)
    assert plan.refusals == ()
    hot, *others = sorted(plan.evictions, key=lambda each: each.node)
    assert hot.reason == (
        "node te1 cpu 95.0% > 80.0%; moves whole: gang apps/llama (Koordinator), 3 pods"
    )
    assert {e.reason for e in others} == {"moves whole: gang apps/llama (Koordinator), 3 pods"}


def test_a_gang_needs_the_key_to_move() -> None:
    plan = planned(training(), SURPLUS)

    assert evicted(plan) == []
    assert details(plan) == {"rank-0": "gang apps/llama (Koordinator): 3 of 3 needed"}


def test_the_loads_after_the_plan_count_who_leaves_and_who_comes() -> None:
    plan = planned(training(), WHOLE)

    after = {
        v.node: p.after_ratio for v in plan.nodes for p in v.pressures if p.resource is Resource.CPU
    }
    assert after == pytest.approx({"te1": 0.65, "te2": 0.5, "te3": 0.5, "te4": 0.4})


def test_all_soft_taints_stand_before_the_first_pod_leaves() -> None:
    """All its replacements are placed at once, so none may come before a taint."""
    plan = planned(training(), WHOLE)

    assert plan.evictions[0].steered == ("te1",)
    assert {name for each in plan.evictions for name in each.steered} == {"te1"}


def test_a_gang_is_the_last_resort() -> None:
    other = pod("web-1", on="te1")
    plan = planned(training(other), WHOLE)

    assert evicted(plan) == ["web-1"]
    assert details(plan)["rank-0"] == (
        "gang apps/llama (Koordinator): 3 of 3 needed; "
        "moves whole only if nothing else relieves a node"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"priority": 2_000_000_000}, "system_critical"),
        ({"ready": False}, None),
        ({"deleting": True}, None),
        ({"annotations": {NAME: "llama", LEAST: "3", "desched.io/evict": "false"}}, "opted_out"),
        ({"annotations": {NAME: "llama", LEAST: "3", "volcano.sh/job-name": "x"}}, "pod_group"),
        ({"started_at": NOW - timedelta(seconds=100)}, "too_young"),
        ({"has_resource_claims": True}, "resource_claims"),
        ({"grace_period_seconds": 3600}, "long_grace_period"),
        ({"scheduling": {"unevaluated": ("x",)}}, "constraint_not_evaluated"),
        ({"owner": None}, "bare_pod"),
    ],
)
def test_one_pod_that_must_stay_keeps_its_whole_gang(
    change: Mapping[str, Any], reason: str | None
) -> None:
    """Wherever it runs; the refusal names it."""
    plan = planned(training(ranks={"rank-2": change}), WHOLE)

    assert evicted(plan) == []
    gang = "gang apps/llama (Koordinator): "
    if reason is None:  # fewer than it needs
        why = f"{gang}3 needed, 2 available"
    else:
        why = f"{gang}3 of 3 needed; moves whole only with apps/rank-2, which stays: {reason}"
    assert details(plan) == {"rank-0": why}
    assert reasons(plan) == {"rank-0": "pod_group"}


def test_a_pod_beyond_the_minimum_that_is_not_ready_keeps_its_gang_too() -> None:
    """Else it would stay behind, or come later, alone."""
    fourth = msgspec.structs.replace(rank("rank-1"), name="rank-9", uid="uid-9", ready=False)
    plan = planned(training(fourth), WHOLE)

    assert evicted(plan) == []
    assert "moves whole only with apps/rank-9, which stays: not_ready" in details(plan)["rank-0"]


@pytest.mark.parametrize(
    ("marks", "whole"),
    [
        ({"scheduling.x-k8s.io/pod-group": "llama"}, True),
        ({"scheduling.k8s.io/group-name": "llama"}, True),
        ({"pod-group-name": "llama"}, True),
        ({"kueue.x-k8s.io/pod-group-name": "llama"}, False),
        ({"volcano.sh/job-name": "llama"}, False),
        ({"jobset.sigs.k8s.io/jobset-name": "llama"}, False),
        ({"ray.io/cluster": "llama"}, False),
        ({"skypilot-cluster-name": "llama"}, False),
        ({"scheduling.x-k8s.io/pod-group": "llama", "pod-group-name": "llama"}, False),
    ],
)
def test_only_systems_that_bring_all_pods_back_together_move_whole(
    marks: Mapping[str, str], *, whole: bool
) -> None:
    groups = [
        DeclaredGroup(each, "apps", "llama", 3) for each in ("coscheduling", "Volcano", "KAI")
    ]
    seen = training(
        ranks={name: {"annotations": dict(marks)} for name in RANKS}, declared_groups=tuple(groups)
    )

    assert len(evicted(planned(seen, WHOLE))) == (3 if whole else 0)
    assert evicted(planned(seen, SURPLUS)) == []


def test_a_group_of_a_leader_worker_set_moves_whole() -> None:
    """Its size is what it needs, so that no pod of it ever moves alone."""
    at = "leaderworkerset.sigs.k8s.io/"
    marks = {f"{at}name": "llama", f"{at}group-index": "0", f"{at}size": "3"}
    seen = training(ranks={name: {"annotations": marks} for name in RANKS})

    assert len(evicted(planned(seen, WHOLE))) == 3
    assert details(planned(seen, SURPLUS)) == {
        "rank-0": "gang apps/llama-0 (LeaderWorkerSet): 3 of 3 needed"
    }


VOLCANO, BUDGET = "scheduling.k8s.io/group-name", "volcano.sh/jdb-min-available"


@pytest.mark.parametrize("where", ["group", "workload", "pod"])
def test_a_disruption_budget_of_volcano_keeps_a_gang_from_moving_whole(where: str) -> None:
    """R2.2, R2.3: it says how many pods are there at any time; the refusal names it."""
    marks, budget = {VOLCANO: "llama"}, {BUDGET: "1"}
    ranks = {name: {"annotations": marks} for name in RANKS}
    group = DeclaredGroup("Volcano", "apps", "llama", 3)
    assert len(evicted(planned(training(ranks=ranks, declared_groups=(group,)), WHOLE))) == 3
    if where == "pod":
        ranks["rank-0"] = {"annotations": marks | budget}
    if where == "group":
        group = msgspec.structs.replace(group, budget=1)
    owner = workload("llama", 3, annotations=budget if where == "workload" else {})
    plan = planned(training(ranks=ranks, owner=owner, declared_groups=(group,)), WHOLE)

    assert evicted(plan) == []
    assert details(plan) == {
        "rank-0": f"gang apps/llama (Volcano): 3 of 3 needed; {BUDGET}: 1 keeps it from moving "
        "whole"
    }


def test_a_disruption_budget_on_another_pod_of_the_gang_keeps_it_too() -> None:
    marks = {VOLCANO: "llama"}
    ranks = {name: {"annotations": marks} for name in RANKS}
    ranks["rank-2"] = {"annotations": marks | {BUDGET: "2"}}
    group = DeclaredGroup("Volcano", "apps", "llama", 3)
    plan = planned(training(ranks=ranks, declared_groups=(group,)), WHOLE)

    assert evicted(plan) == []
    assert details(plan)["rank-0"].endswith("only with apps/rank-2, which stays: pod_group")


def test_a_part_of_a_group_does_not_move_whole() -> None:
    """R2.3: also if the group itself is no gang; other parts may need its pods."""
    marks = {"scheduling.k8s.io/group-name": "llama"}
    part = GroupPart("workers", 3, LabelSelector())
    group = DeclaredGroup("Volcano", "apps", "llama", 1, parts=(part,))
    ranks = {name: {"annotations": marks} for name in RANKS}
    plan = planned(training(ranks=ranks, declared_groups=(group,)), WHOLE)

    assert evicted(plan) == []
    said = (
        "gang apps/llama (Volcano), part workers: 3 of 3 needed; no pod of several gangs or parts"
    )
    assert details(plan)["rank-0"].startswith(said)


@pytest.mark.parametrize("together", [True, False])
def test_a_group_that_is_only_disrupted_together_moves_whole(*, together: bool) -> None:
    """R2.3: `disruptionMode: all` of Kubernetes."""
    stays = "disruptionMode: its pods are only disrupted together"
    group = DeclaredGroup("Kubernetes", "apps", "llama", 3, stays, together=together)
    ranks = {name: {"annotations": {}, "scheduling_group": "llama"} for name in RANKS}
    seen = training(ranks=ranks, declared_groups=(group,))

    assert len(evicted(planned(seen, WHOLE))) == (3 if together else 0)
    assert evicted(planned(seen, SURPLUS)) == []
    incomplete = msgspec.structs.replace(group, minimum=4)
    assert evicted(planned(training(ranks=ranks, declared_groups=(incomplete,)), WHOLE)) == []


def test_the_usage_of_all_its_pods_is_read() -> None:
    """Also on nodes that are not overloaded."""
    seen = training(loads={**LOADS, "te1": 0.9})
    first = msgspec.structs.replace(seen, load=known_on(seen.load, seen.cluster))

    def needed(by: Policy) -> set[str]:
        chosen = needed_pods(Situation.of(first, by, State()))
        return {pod.name for pod in seen.cluster.pods if chosen.has(pod)}

    assert needed(WHOLE) > needed(SURPLUS)
    assert needed(WHOLE) >= set(RANKS)


@pytest.mark.parametrize("name", ["rank-0", "rank-1"])
def test_an_explanation_says_what_keeps_the_whole_gang(name: str) -> None:
    """Of pods on overloaded nodes and on others."""
    out = {"annotations": {NAME: "llama", LEAST: "3", "desched.io/evict": "false"}}
    decision = decide(training(ranks={"rank-2": out}), WHOLE, State())
    found = explain(parse_subject("pod", f"apps/{name}"), decision, "test").pod

    assert found is not None
    assert found.summary.detail == (
        "gang apps/llama (Koordinator): 3 of 3 needed; "
        "moves whole only with apps/rank-2, which stays: opted_out"
    )


def test_two_marks_of_one_gang_count_a_pod_once() -> None:
    """Else the gang would seem to have twice as many pods as it has."""
    marks = {NAME: "llama", LEAST: "3", "pod-group.scheduling.sigs.k8s.io": "llama"}
    seen = training(
        ranks={name: {"annotations": marks} for name in RANKS},
        declared_groups=(DeclaredGroup("Koordinator", "apps", "llama", 3),),
    )

    assert evicted(planned(seen, SURPLUS)) == []
    assert len(evicted(planned(seen, WHOLE))) == 3


@pytest.mark.parametrize(
    ("loads", "reason"),
    [
        ({"te1": 0.95, "te2": 0.5, "te3": 0.5, "te4": 0.6}, "landing_risk"),
        ({"te1": 0.95, "te2": 0.5, "te3": 0.5}, "no_node_under_ceiling"),
    ],
)
def test_a_gang_that_does_not_fit_with_all_its_pods_stays(
    loads: Mapping[str, float], reason: str
) -> None:
    """R2.3, X1: all or nothing, in the running simulation; the refusal names who has no place."""
    plan = planned(training(loads=loads), WHOLE)

    assert evicted(plan) == []
    assert reasons(plan) == {"rank-0": reason}
    detail = details(plan)["rank-0"]
    assert detail.startswith("gang apps/llama (Koordinator), 3 pods: apps/rank-")


@pytest.mark.parametrize("largest", ["rank-0", "rank-2"])
def test_the_largest_pods_of_a_gang_are_placed_first(largest: str) -> None:
    """Only te4 has room for the largest; the others, placed first, would take it."""
    ranks = {name: {"request": amounts(0.4, 1)} for name in RANKS}
    ranks[largest] = {"request": amounts(3.5, 1)}
    full = [pod(f"db-{i}", on=f"te{i}", of=None, request=amounts(3.5, 1)) for i in (2, 3)]
    plan = planned(training(*full, ranks=ranks, loads=LOADS | {"te4": 0.05}), WHOLE)

    assert {each.pod.name: each.expected_node for each in plan.evictions}[largest] == "te4"
    assert len(plan.evictions) == 3


def test_a_gang_stays_of_which_the_plan_moves_a_pod_alone() -> None:
    seen = training()
    book = UsageBook(seen, WHOLE, NOW)
    context = EligibilityContext.of(book, State())
    pressure = classify(book, State())
    free = before_moves(context, pressure).destinations
    pasts = Pasts(book, State())
    ranks = tuple(candidate_of(one, context, pasts) for one in seen.cluster.pods)
    node_ = OverloadedNode(pressure.known["te1"], (), ())
    stuck = NodeSelection(Stuck(Finding(NodeReason.EXCESS_NOT_MOVABLE)), {}, free, None)
    gangs = WholeMoves(Eligibility(context), pressure)
    trial = Trial(free, None)
    moved = trial.move_of(ranks[1])
    assert isinstance(moved, Move)
    trial.take(moved)
    after = msgspec.structs.replace(stuck, destinations=trial.destinations)

    refused = gangs.relieve(node_, after)

    assert isinstance(refused.outcome, Stuck)
    assert refused.refusals["uid-rank-0"].detail.endswith("moves one of its pods alone")
    assert isinstance(gangs.relieve(node_, stuck).outcome, JointMove)


def test_nodes_that_pods_of_the_gang_left_get_no_more_than_they_had() -> None:
    """`rank-1` and `rank-2` may go back to busy nodes, and no further pod may go there."""
    busy = {"te1": 0.95, "te2": 0.78, "te3": 0.78, "te4": 0.1}
    plan = planned(training(loads=busy), WHOLE)

    assert sorted(each.expected_node for each in plan.evictions) == ["te2", "te3", "te4"]
    fuller = busy | {"te2": 0.69, "te3": 0.69, "te4": 0.6}
    assert evicted(planned(training(loads=fuller), WHOLE)) == []


def test_a_gang_that_leaves_a_saturated_pool_as_full_as_before_stays() -> None:
    """te1 would come from 95 to 65 %, and te4 from 60 to 90 %."""
    busy = {"te1": 0.95, "te2": 0.78, "te3": 0.78, "te4": 0.6}
    assert evicted(planned(training(loads=busy), WHOLE)) == []


def test_a_gang_that_would_save_nothing_of_a_recurring_overload_stays() -> None:
    seen = training(loads=LOADS | {"te1": 0.6})
    ratios = {name: (now,) * 31 for name, now in LOADS.items()}
    ratios["te1"] = (*(0.95, 0.95, 0.95, 0.95, 0.6) * 6, 0.6)
    history = {
        name: {
            Resource.CPU: LoadHistory(120, points),
            Resource.MEMORY: LoadHistory(120, (0.2,) * 31),
        }
        for name, points in ratios.items()
    }
    idle = dict.fromkeys(seen.load.pods, PodUsage((1.0,), (1.0,)))
    loaded = msgspec.structs.replace(seen.load, history=history, pods=idle)
    plan = planned(msgspec.structs.replace(seen, load=loaded), WHOLE)
    assert evicted(plan) == []


def test_a_landing_that_cannot_be_steered_keeps_the_gang() -> None:
    """Without soft taints the scheduler prefers te1, which all its pods have left."""
    plain = msgspec.structs.replace(WHOLE, steering=SteeringRules(SteeringMode.OFF))
    plan = planned(training(loads=LOADS | {"te5": 0.7}), plain)

    assert evicted(plan) == []
    assert reasons(plan) == {"rank-0": "landing_risk"}
    assert "likely to land where it would do harm" in details(plan)["rank-0"]


def test_the_choice_of_another_scheduler_is_a_risk_for_a_gang() -> None:
    """A single pod would go; a gang costs more, and te1 has room for each of its pods."""
    seen = training(ranks={name: {"scheduler": "koord-scheduler"} for name in RANKS})
    plan = planned(seen, WHOLE)

    assert reasons(plan) == {"rank-0": "landing_risk"}
    assert details(plan)["rank-0"].endswith("; koord-scheduler may choose any node where it fits")
    bold = msgspec.structs.replace(WHOLE, max_landing_risk=0.5)
    assert len(evicted(planned(seen, bold))) == 3


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"total": 2}, "limit_total"),
        ({"in_flight_total": 2}, "limit_in_flight"),
        ({"namespace": 2}, "limit_namespace"),
        ({"workload_hourly": 2}, "limit_hourly"),
    ],
)
def test_a_limit_must_have_room_for_the_whole_gang(limits: Mapping[str, Any], reason: str) -> None:
    plan = planned(training(), limited(**limits))

    assert evicted(plan) == []
    assert reasons(plan) == {"rank-0": reason}
    assert details(plan)["rank-0"].startswith("gang apps/llama (Koordinator), 3 pods: ")


def test_slow_start_counts() -> None:
    limits = EvictionLimits(total=10, workload_hourly=None, slow_start=True)
    by = msgspec.structs.replace(WHOLE, limits=limits)
    assert len(evicted(planned(training(), by))) == 3
    (refused,) = planned(training(), by, State(most_evictions=2)).refusals
    assert refused.reason.value == "limit_total"


def test_the_limit_by_workload_and_replicas_to_spare_do_not_hold_a_gang() -> None:
    """That is what the key permits: a gang is usually one workload."""
    assert len(evicted(planned(training(), limited(workload=1, in_flight_workload=1)))) == 3


@pytest.mark.parametrize(("allowed", "moves"), [(2, 0), (3, 3)])
def test_budgets_must_allow_all_its_pods_to_be_away(allowed: int, moves: int) -> None:
    plan = planned(training(budgets=(budget("llama", allowed, app="llama"),)), WHOLE)

    assert len(evicted(plan)) == moves
    if not moves:
        assert reasons(plan) == {"rank-0": "budget_exhausted"}


@pytest.mark.parametrize(
    ("pause", "moves"),
    [
        (Pause(PauseScope.NAMESPACE, NOW, NOW, "apps"), 0),
        (Pause(PauseScope.EVERYTHING, NOW, NOW), 0),
        (Pause(PauseScope.WORKLOAD, NOW, NOW, "Deployment apps/llama"), 3),
        (Pause(PauseScope.NAMESPACE, NOW, NOW, "other"), 3),
        (Pause(PauseScope.NAMESPACE, NOW, NOW, "apps", by="alice"), 3),
    ],
)
def test_a_gang_waits_until_another_move_was_the_probe(pause: Pause, moves: int) -> None:
    """But for those of a workload, automatic pauses end after a careful move, no gang."""
    plan = planned(training(), WHOLE, State(pauses=(pause,)))

    assert len(evicted(plan)) == moves
    assert not any(each.probe for each in plan.evictions)
    if not moves:
        assert reasons(plan) == {"rank-0": "paused"}
        assert details(plan)["rank-0"].endswith("; a gang is no probe")


def test_a_gang_waits_for_moves_of_its_workload() -> None:
    gone = EvictionRecord(pod("rank-7").ref, "te7", "uid-llama", NOW, certain("te8"))
    plan = planned(training(), WHOLE, State(evictions=(gone,)))

    assert reasons(plan) == {"rank-0": "in_flight"}


def test_nodes_that_wait_keep_the_gangs_of_which_they_have_pods() -> None:
    paused = Pause(PauseScope.POOL, NOW, None, "", by="alice")
    assert evicted(planned(training(), WHOLE, State(pauses=(paused,)))) == []


def test_the_cheapest_gang_goes_and_no_second_one() -> None:
    marks = {NAME: "gpt", LEAST: "2"}
    others = [
        pod(f"gpt-{i}", on=f"te{i}", of="llama", request=amounts(1, 1), annotations=marks)
        for i in (1, 2)
    ]
    plan = planned(training(*others), WHOLE)

    assert evicted(plan) == ["gpt-1", "gpt-2"]
    dear = [msgspec.structs.replace(each, priority=1_000_000) for each in others]
    assert sorted(evicted(planned(training(*dear), WHOLE))) == sorted(RANKS)


def test_a_plan_moves_one_gang() -> None:
    """Two nodes that only gangs relieve: the second one waits for the next cycle."""
    marks = {NAME: "gpt", LEAST: "2"}
    others = [
        pod(f"gpt-{i}", on=f"te{i}", of="llama", request=amounts(1, 1), annotations=marks)
        for i in (5, 6)
    ]
    plan = planned(training(*others, loads=LOADS | {"te5": 0.9, "te6": 0.3, "te7": 0.1}), WHOLE)

    assert sorted(evicted(plan)) == sorted(RANKS)
    assert details(plan)["gpt-5"] == (
        "gang apps/gpt (Koordinator), 2 pods: a plan moves one gang, and this one moves "
        "gang apps/llama (Koordinator)"
    )


def test_another_overloaded_node_waits_if_pods_of_the_gang_leave_it() -> None:
    other = pod("web-1", on="te2")
    plan = planned(training(other, loads=LOADS | {"te2": 0.9, "te5": 0.1}), WHOLE)

    assert sorted(evicted(plan)) == sorted(RANKS)
    assert reasons(plan) == {"web-1": "node_settling"}
    assert "te2" not in {each.expected_node for each in plan.evictions}


RACK = "cloud.google.com/gce-topology-subblock"


def in_racks(seen: Snapshot, racks: Mapping[str, str]) -> Snapshot:
    """The same with these racks; the others of the nodes have none."""
    nodes = [
        msgspec.structs.replace(each, labels={**each.labels, RACK: racks[each.name]})
        for each in seen.cluster.nodes
    ]
    cluster = msgspec.structs.replace(seen.cluster, nodes=tuple(nodes))
    return msgspec.structs.replace(seen, cluster=cluster)


@pytest.mark.parametrize(("free", "moves"), [("a", 3), ("b", 0)])
def test_a_gang_stays_in_the_narrowest_domain_that_has_it(free: str, moves: int) -> None:
    """R0.1: all its pods share rack a, so none of them goes to rack b."""
    racks = {"te1": "a", "te2": "a", "te3": "a", "te4": free}
    plan = planned(in_racks(training(), racks), WHOLE)

    assert len(evicted(plan)) == moves
    assert reasons(plan) == ({} if moves else {"rank-0": "landing_risk"})
    if not moves:
        assert f", 3 pods: apps/rank-0: {RACK}=a: " in details(plan)["rank-0"]


def test_a_gang_that_spans_racks_may_move_between_them() -> None:
    racks = {"te1": "a", "te2": "b", "te3": "a", "te4": "b"}
    assert len(evicted(planned(in_racks(training(), racks), WHOLE))) == 3


def test_a_gang_does_not_leave_a_domain_that_its_pods_only_prefer() -> None:
    """One of its pods would, and the gang would spread."""
    racks = {"te1": "a", "te2": "a", "te3": "a", "te4": "b"}
    preferring = msgspec.structs.replace(domains_of(WHOLE), mode=DomainMode.PREFER)
    plugins = house(Gangs(GangMode.WHOLE), Networks(preferring))
    by = msgspec.structs.replace(WHOLE, plugins=plugins)

    assert evicted(planned(in_racks(training(), racks), by)) == []


@pytest.mark.parametrize(("tier", "moves"), [(1, 0), (2, 3)])
def test_a_hard_topology_keeps_the_gang_in_its_hyper_node(tier: int, moves: int) -> None:
    """R2.4: te4 is in another HyperNode of tier 1, and in the one of tier 2 that has all pods."""
    tree = (
        HyperNode("leaf-a", 1, nodes=("te1", "te2", "te3")),
        HyperNode("leaf-b", 1, nodes=("te4",)),
        HyperNode("spine", 2, hyper_nodes=("leaf-a", "leaf-b")),
    )
    group = DeclaredGroup(
        "Volcano", "apps", "llama", 3, topology=GroupTopology(hard=True, highest_tier=tier)
    )
    marks = {"scheduling.k8s.io/group-name": "llama"}
    seen = training(
        ranks={name: {"annotations": marks} for name in RANKS},
        declared_groups=(group,),
        extras=NetworkObjects(tree).extras,
    )

    assert len(evicted(planned(seen, WHOLE))) == moves
