"""R1.2: a pod moves only to nodes that hold its model; others are harmful landings."""

from collections.abc import Mapping
from typing import Any

from desched.model.model_caches import CACHE_KEY
from desched.model.plan import Plan
from desched.policy.compatibility import CacheAffinity
from desched.policy.policy import Policy
from tests.builders import amounts, evicted, load, node, planned, pod, policy, reasons, snapshot

LLAMA = {CACHE_KEY: "llama-70b"}
WARM = {"cache.desched.io/llama-70b": "true"}
GROUP = "cloud.google.com/gke-placement-group"


def plan_of(
    cool: Mapping[str, Mapping[str, str]],
    by: Policy | None = None,
    *,
    hot: Mapping[str, str] = WARM,
    full: tuple[str, ...] = (),
    **fields: Any,
) -> Plan:
    """A pod of one core that has to leave a hot node for one of the cool nodes."""
    nodes = [node("hot", labels=hot), *(node(name, labels=each) for name, each in cool.items())]
    given: dict[str, Any] = {"request": amounts(1, 1), "annotations": LLAMA} | fields
    one = pod("a", on="hot", **given)
    levels = {name: (0.75 if name in full else 0.1, 0.1) for name in cool}
    used = load({"hot": (0.9, 0.1), **levels}, {"a": (1.0, 0.1)})
    return planned(snapshot(nodes, [one], used), by or policy())


def test_a_pod_moves_to_the_node_that_holds_its_model() -> None:
    """R1.2: kube-scheduler does not know where it is, so a landing elsewhere is a risk."""
    plan = plan_of({"te4": WARM, "te5": {}})
    assert [move.expected_node for move in plan.evictions] == ["te4"]
    assert plan.evictions[0].landing_risk >= 0.5
    careful = plan_of({"te4": WARM, "te5": {}}, policy(max_landing_risk=0.15))
    assert reasons(careful) == {"a": "landing_risk"}


def test_a_refusal_names_the_model_and_its_nodes() -> None:
    """R1.2, S1.6: with the nodes that hold it full of requests or out of reach."""
    taken = amounts(0.5, 1)
    small = node("te9", labels=WARM, capacity=taken, allocatable=taken)
    nodes = [node("hot", labels=WARM), small, node("te5")]
    one = pod("a", on="hot", request=amounts(1, 1), annotations=LLAMA)
    used = load({"hot": (0.9, 0.1), "te9": (0.1, 0.1), "te5": (0.1, 0.1)}, {"a": (1.0, 0.1)})
    (refusal,) = planned(snapshot(nodes, [one], used), policy()).refusals
    assert refusal.reason == "model_cache"
    assert refusal.detail.startswith("model llama-70b is on hot and te9 only: 0/3 nodes are")
    assert "1 node(s) do not hold its model" in refusal.detail


def test_a_long_list_of_nodes_is_cut() -> None:
    cold = {"te0": {GROUP: "other"}}
    far = {f"te{i}": WARM | {GROUP: "other"} for i in range(1, 8)}
    (refusal,) = plan_of({**cold, **far, "te9": {GROUP: "own"}}, hot={GROUP: "own"}).refusals
    assert refusal.reason == "model_cache"
    assert refusal.detail.startswith(
        "model llama-70b is on te1, te2, te3, te4, te5 and 2 other(s) only: "
    )
    assert "8 node(s) are outside its placement domain" in refusal.detail


def test_a_model_on_no_node_keeps_its_pod() -> None:
    """R1.2: one that is still being downloaded is on no node; X4."""
    loading = {"cache.desched.io/llama-70b": "Updating"}
    (refusal,) = plan_of({"te4": loading, "te5": {}}, hot={}).refusals
    assert refusal.reason == "model_cache"
    assert refusal.detail.startswith("model llama-70b is on no node: ")


def test_a_hot_node_with_the_model_is_no_destination() -> None:
    """R1.2: a fitting node that is not overloaded must hold it."""
    assert reasons(plan_of({"te4": WARM, "te5": {}}, full=("te4",))) == {
        "a": "no_node_under_ceiling"
    }


def test_another_scheduler_must_have_no_choice_but_nodes_with_the_model() -> None:
    """R1.2, X4: where it would place the pod is not known."""
    found = plan_of({"te4": WARM, "te5": {}}, scheduler="volcano").refusals[0]
    assert found.reason == "model_cache"
    assert found.detail == (
        "model llama-70b is on hot and te4 only: volcano may place it elsewhere"
    )
    assert evicted(plan_of({"te4": WARM}, scheduler="volcano")) == ["a"]


def test_a_policy_may_ignore_caches() -> None:
    ignoring = policy(cache_affinity=CacheAffinity.IGNORE)
    assert evicted(plan_of({"te5": {}}, ignoring)) == ["a"]


def test_a_pod_without_a_model_goes_anywhere() -> None:
    assert evicted(plan_of({"te5": {}}, annotations={})) == ["a"]


def test_a_pod_bound_to_its_node_by_a_selector_stays() -> None:
    """R1.4: as GPUStack's pods behind Kueue, and those that Kueue has placed."""
    name = "kubernetes.io/hostname"
    bound = {"node_selector": ((name, "hot"),)}
    plan = plan_of({"te4": WARM | {name: "te4"}}, hot=WARM | {name: "hot"}, scheduling=bound)
    assert reasons(plan) == {"a": "no_node_fits"}
