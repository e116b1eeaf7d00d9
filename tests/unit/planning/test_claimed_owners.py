"""Tenants claim the owners of others: what they claim counts only in their own namespace."""

from datetime import timedelta
from typing import Any

import pytest

from desched.model.cluster import Owner, Pod, PodDisruptionBudget
from desched.model.load import ClusterLoad, PodUsage
from desched.model.resources import Resource
from desched.model.selectors import LabelSelector
from desched.model.snapshot import Snapshot
from desched.model.state import CoolDown, State
from desched.planning.kube_scheduler.scores.cluster_view import SchedulerView
from desched.planning.overload.pod_usage import UsageBook
from desched.policy.policy import Protections
from desched.policy.schedulers import SchedulerRules
from tests.builders import (
    GIB,
    NOW,
    evicted,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
    workload,
)

GAME = Owner("Game", "chess", "uid-game", "odd.example/v1")
DECLARED = policy(protections=Protections(understood_owner_kinds=("odd.example/Game",)))


def strangers(count: int, on: str, **fields: Any) -> list[Pod]:
    """Pods of another namespace that claim the ReplicaSet of `web`."""
    claims: dict[str, Any] = {"namespace": "strangers", "on": on, **fields}
    return [pod(f"s{i}", uid=f"uid-s{i}", **claims) for i in range(count)]


def idle(of_load: ClusterLoad, pods: list[Pod]) -> ClusterLoad:
    """The load with pods that use nothing."""
    used = {(p.namespace, p.name): PodUsage((0.0,), (0.0,)) for p in pods}
    return ClusterLoad(of_load.nodes, {**of_load.pods, **used})


def test_idle_strangers_do_not_make_a_hot_pod_look_cold() -> None:
    mine = pod("mine", on="hot")
    sibling = pod("sibling", on="cool")
    crowd = strangers(100, "cool")
    used = load({"hot": (0.97, 0.1), "cool": (0.1, 0.1)}, {"mine": (1.0, 1), "sibling": (2.0, 1)})
    seen = snapshot([node("hot"), node("cool")], [mine, sibling, *crowd], idle(used, crowd))

    # The hot node hides how much the pod needs; its sibling shows it.
    assert UsageBook(seen, policy(), NOW).demand(mine, Resource.CPU) == 2000.0
    new = pod("new", started_at=NOW)
    assert UsageBook(seen, policy(), NOW).expected(new, Resource.CPU) == 2000.0


def test_strangers_do_not_make_an_architecture_familiar() -> None:
    arm = node("arm", labels={"kubernetes.io/arch": "arm64"})
    amd = node("amd", labels={"kubernetes.io/arch": "amd64"})
    mine = pod("mine", on="amd")
    crowd = strangers(1, "arm")
    seen = snapshot([arm, amd], [mine, *crowd], load({}))
    view = SchedulerView(seen.cluster, SchedulerRules())
    assert view.unfamiliar(mine)[view.arrays.index["arm"]]
    both = snapshot([arm, amd], [mine, pod("sibling", on="arm")], load({}))
    view = SchedulerView(both.cluster, SchedulerRules())
    assert not view.unfamiliar(mine).any()


def games(*found: Pod) -> Snapshot:
    """Pods of a declared kind on a hot node, beside a cool one."""
    everything = tuple(
        PodDisruptionBudget(space, "all", LabelSelector(), 9) for space in ("apps", "strangers")
    )
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)})
    usage = {(p.namespace, p.name): PodUsage((900.0,), (float(GIB),)) for p in found}
    return snapshot(
        [node("hot"), node("cool")], found, ClusterLoad(used.nodes, usage), budgets=everything
    )


@pytest.mark.parametrize("first", [True, False])
def test_a_claimed_owner_of_a_declared_kind_keeps_its_own_pods(*, first: bool) -> None:
    mine = [pod("mine", on="hot", owner=GAME)]
    crowd = strangers(3, "cool", owner=GAME)
    plan = planned(games(*(crowd + mine if first else mine + crowd)), DECLARED)
    assert evicted(plan) == ["mine"]


def test_moves_of_a_claimed_owner_are_not_those_of_its_true_pods() -> None:
    mine, (other,) = pod("mine", on="hot", owner=GAME), strangers(1, "cool", owner=GAME)

    def failed(by: Pod) -> State:
        uid = f"{by.namespace}/{GAME.uid}"
        return State(cool_downs=(CoolDown(uid, "", NOW + timedelta(minutes=20)),))

    assert evicted(planned(games(mine, other), DECLARED, failed(other))) == ["mine"]
    assert reasons(planned(games(mine, other), DECLARED, failed(mine))) == {"mine": "cooling_down"}


def test_a_pod_that_claims_a_workload_of_another_namespace_has_no_owner_that_is_understood() -> (
    None
):
    (thief,) = strangers(1, "hot")
    used = load({"hot": (0.9, 0.1), "cool": (0.1, 0.1)})
    seen = snapshot([node("hot"), node("cool")], [thief], used, [workload("web", 20)])
    assert reasons(planned(seen)) == {"s0": "owner_not_understood"}
