"""R1.2: a pod moves only to nodes that hold its model; others are harmful landings."""

from collections.abc import Mapping
from typing import Any

import pytest

from desched.model.cluster import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PodVolume,
    VolumeKind,
)
from desched.model.plan import Plan
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.plugins.caches.keys import CacheAffinity
from desched.plugins.caches.models import (
    CACHE_KEY,
    GPUSTACK,
    KSERVE,
    KSERVE_CLAIM,
    KSERVE_MODEL,
    KSERVE_NAMESPACE,
)
from desched.plugins.caches.objects import CacheObjects, ModelCopies
from desched.plugins.caches.plugin import Caches
from desched.policy.policy import Policy
from desched.policy.schedulers import OtherScheduler, SchedulerProfile, SchedulerRules
from tests.builders import (
    STEERED,
    amounts,
    evicted,
    house,
    load,
    node,
    planned,
    pod,
    policy,
    reasons,
    snapshot,
)

LLAMA = {CACHE_KEY: "llama-70b"}
WARM = {"cache.desched.io/llama-70b": "true"}
GROUP = "cloud.google.com/gke-placement-group"
PREFERRING = policy(plugins=house(Caches(CacheAffinity.PREFER)))


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
    around = given.pop("around", {})
    one = pod("a", on="hot", **given)
    levels = {name: (0.75 if name in full else 0.1, 0.1) for name in cool}
    used = load({"hot": (0.9, 0.1), **levels}, {"a": (1.0, 0.1)})
    return planned(snapshot(nodes, [one], used, **around), by or policy())


def test_a_pod_moves_to_the_node_that_holds_its_model() -> None:
    """R1.2: kube-scheduler does not know where it is, so a landing elsewhere is a risk."""
    plan = plan_of({"te4": WARM, "te5": {}})
    assert [move.expected_node for move in plan.evictions] == ["te4"]
    assert plan.evictions[0].landing_risk >= 0.5
    careful = plan_of({"te4": WARM, "te5": {}}, policy(max_landing_risk=0.15))
    assert reasons(careful) == {"a": "landing_risk"}
    assert careful.refusals[0].detail.startswith("model llama-70b is on hot and te4 only: ")


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
    assert "1 node does not hold its model" in refusal.detail


@pytest.mark.parametrize("text", ["", " ", "=", "=v2"])
def test_a_refusal_says_that_the_annotation_is_empty(text: str) -> None:
    (refusal,) = plan_of({"te4": WARM}, annotations={CACHE_KEY: text}).refusals
    assert refusal.detail.startswith("desched.io/cache-key names no model: ")


def test_a_long_list_of_nodes_is_cut() -> None:
    cold = {"te0": {GROUP: "other"}}
    far = {f"te{i}": WARM | {GROUP: "other"} for i in range(1, 8)}
    (refusal,) = plan_of({**cold, **far, "te9": {GROUP: "own"}}, hot={GROUP: "own"}).refusals
    assert refusal.reason == "model_cache"
    assert refusal.detail.startswith(
        "model llama-70b is on te1, te2, te3, te4, te5 and 2 others only: "
    )
    assert "8 nodes are outside its placement domain" in refusal.detail


def test_a_model_on_no_node_keeps_its_pod() -> None:
    """R1.2: one that is still being downloaded is on no node; X4."""
    loading = {"cache.desched.io/llama-70b": "Updating"}
    (refusal,) = plan_of({"te4": loading, "te5": {}}, hot={}).refusals
    assert refusal.reason == "model_cache"
    assert refusal.detail.startswith("model llama-70b is on no node: ")


def test_a_hot_node_with_the_model_is_no_destination() -> None:
    """R1.2, X2: a fitting node that is not overloaded must hold it; the refusal names the model."""
    (refusal,) = plan_of({"te4": WARM, "te5": {}}, full=("te4",)).refusals
    assert refusal.reason == "no_node_under_ceiling"
    assert refusal.detail.startswith("model llama-70b is on hot and te4 only: 0/3 nodes are")


def test_another_scheduler_must_have_no_choice_but_nodes_with_the_model() -> None:
    """R1.2, X4: where it would place the pod is not known."""
    found = plan_of({"te4": WARM, "te5": {}}, scheduler="volcano").refusals[0]
    assert found.reason == "model_cache"
    assert found.detail.startswith(
        "model llama-70b is on hot and te4 only: volcano may place it elsewhere; scheduler.others"
    )
    assert evicted(plan_of({"te4": WARM}, scheduler="volcano")) == ["a"]


def test_soft_taints_bring_a_pod_of_a_known_scheduler_to_its_model() -> None:
    """R1.2: Volcano scores soft taints; the nodes without the model get one."""
    known = SchedulerRules(others={"volcano": OtherScheduler(SchedulerProfile.VOLCANO)})
    by = policy(scheduler=known, **STEERED)
    cool = {"te4": WARM, "te5": {}, "te6": {}}
    (move,) = plan_of(cool, by, scheduler="volcano").evictions
    assert move.expected_node == "te4"
    assert {"te5", "te6"} <= set(move.steered)


def test_a_policy_may_ignore_caches() -> None:
    ignoring = policy(plugins=house(Caches(CacheAffinity.IGNORE)))
    assert evicted(plan_of({"te5": {}}, ignoring)) == ["a"]


def test_a_pod_without_a_model_goes_anywhere() -> None:
    assert evicted(plan_of({"te5": {}}, annotations={})) == ["a"]


def test_a_pod_bound_to_its_node_by_a_selector_stays() -> None:
    """R1.4: as GPUStack's pods behind Kueue, and those that Kueue has placed."""
    name = "kubernetes.io/hostname"
    bound = {"node_selector": ((name, "hot"),)}
    plan = plan_of({"te4": WARM | {name: "te4"}}, hot=WARM | {name: "hot"}, scheduling=bound)
    assert reasons(plan) == {"a": "no_node_fits"}


def test_a_pod_prefers_the_node_with_its_model() -> None:
    """S1.5: with a warm node that fits, a landing elsewhere is the same risk as with Require."""
    plan = plan_of({"te4": WARM, "te5": {}}, PREFERRING)
    (move,) = plan.evictions
    assert (move.expected_node, move.landing_risk) == ("te4", 0.5)


@pytest.mark.parametrize(
    ("cool", "full"),
    [
        ({"te4": {}, "te5": {}}, ()),
        ({"te4": WARM, "te5": {}}, ("te4",)),
    ],
)
def test_a_pod_that_only_prefers_warm_nodes_moves_to_a_cold_one_if_none_fits(
    cool: Mapping[str, Mapping[str, str]], full: tuple[str, ...]
) -> None:
    """S1.5, S1.6: the model is on no other node, or on one that has no room."""
    assert plan_of(cool, full=full).refusals
    (move,) = plan_of(cool, PREFERRING, full=full).evictions
    assert move.expected_node == ("te5" if full else "te4")


def test_a_pod_that_only_prefers_warm_nodes_goes_where_the_scheduler_puts_it() -> None:
    """S1.5: without steering, a landing on the warm node alone would be too unlikely."""
    careful = policy(plugins=house(Caches(CacheAffinity.PREFER)), max_landing_risk=0.15)
    (move,) = plan_of({"te4": WARM, "te5": {}}, careful).evictions
    assert move.landing_risk <= 0.15


def test_with_the_preferred_node_gone_a_warm_node_elsewhere_or_any_takes_the_pod() -> None:
    """S1.6: `Prefer` is what opts in; with `Require` the refusal names the nodes."""
    gone = node("te4", labels=WARM, unschedulable=True)
    cold, warm = node("te5"), node("te6", labels=WARM)
    levels = dict.fromkeys(("te4", "te5", "te6"), (0.1, 0.1))
    one = pod("a", on="hot", request=amounts(1, 1), annotations=LLAMA)
    used = load({"hot": (0.9, 0.1), **levels}, {"a": (1.0, 0.1)})

    def plan(*cool: Node, affinity: CacheAffinity) -> Plan:
        nodes = [node("hot", labels=WARM), gone, *cool]
        return planned(snapshot(nodes, [one], used), policy(plugins=house(Caches(affinity))))

    for affinity in (CacheAffinity.REQUIRE, CacheAffinity.PREFER):
        (move,) = plan(cold, warm, affinity=affinity).evictions
        assert move.expected_node == "te6"
    (refusal,) = plan(cold, affinity=CacheAffinity.REQUIRE).refusals
    assert refusal.detail.startswith("model llama-70b is on hot and te4 only: ")
    (move,) = plan(cold, affinity=CacheAffinity.PREFER).evictions
    assert move.expected_node == "te5"


@pytest.mark.parametrize("affinity", [CacheAffinity.REQUIRE, CacheAffinity.PREFER])
def test_of_equal_pods_the_one_without_a_model_leaves_and_then_one_whose_model_is_elsewhere(
    affinity: CacheAffinity,
) -> None:
    """S1.5: by name alone, `a` would go first."""
    nodes = [node("hot", labels=WARM), node("te4", labels=WARM)]
    used = load({"hot": (0.9, 0.1), "te4": (0.1, 0.1)}, dict.fromkeys(("a", "b", "c"), (1.0, 0.1)))
    needs = {"a": {CACHE_KEY: "mixtral"}, "b": LLAMA, "c": {}}
    by = policy(plugins=house(Caches(affinity)))
    for names, gone in (("ab", ["b"]), ("bc", ["c"]), ("abc", ["c"])):
        pods = [
            pod(name, on="hot", request=amounts(1, 1), annotations=needs[name]) for name in names
        ]
        assert evicted(planned(snapshot(nodes, pods, used), by)) == gone


IN_GROUP = {"pool": "gpu"}


def of_kserve(*downloaded: str, **fields: Any) -> dict[str, Any]:
    """A pod on the local volume of a LocalModelCache, whose nodes are those with `IN_GROUP`."""
    group = Requirement("pool", Operator.IN, ("gpu",))
    volume = PersistentVolume("pv", node_affinity=(NodeSelectorTerm((group,)),), local=True)
    claim = PersistentVolumeClaim("apps", "llama-gpu", volume="pv", for_one_node=True)
    around = {
        "claims": {("apps", "llama-gpu"): claim},
        "volumes": {"pv": volume},
        "extras": CacheObjects((ModelCopies(KSERVE, ("llama",), downloaded),)).extras,
    }
    return {
        "labels": {"app": "web", KSERVE_MODEL: "llama"},
        "annotations": {KSERVE_CLAIM: "llama-gpu"},
        "volumes": (PodVolume(VolumeKind.CLAIM, "llama-gpu"),),
        "around": around,
        "hot": IN_GROUP,
    } | fields


COOL = {"te4": IN_GROUP, "te5": IN_GROUP, "te6": {}}


@pytest.mark.parametrize("affinity", [CacheAffinity.REQUIRE, CacheAffinity.PREFER])
def test_a_pod_of_kserve_moves_to_a_node_that_has_downloaded_its_model(
    affinity: CacheAffinity,
) -> None:
    """R1.2, R1.3: and that its volume allows."""
    by = policy(plugins=house(Caches(affinity)))
    (move,) = plan_of(COOL, by, **of_kserve("hot", "te5", "te6")).evictions
    assert move.expected_node == "te5"
    assert move.landing_risk == 0.5
    (refusal,) = plan_of(COOL, by, **of_kserve("hot", "te6")).refusals
    assert refusal.reason == "model_cache"
    assert refusal.detail.startswith("model llama is on hot and te6 only: ")


def test_a_pod_with_a_further_model_that_it_may_download_keeps_to_the_nodes_of_kserve() -> None:
    """R1.1, S1.5: it would not start where only the other model could be had."""
    fields = of_kserve("hot", "te5")
    fields["annotations"] = fields["annotations"] | LLAMA
    (move,) = plan_of(COOL, PREFERRING, **fields).evictions
    assert move.expected_node == "te5"


@pytest.mark.parametrize(
    "change",
    [
        {"around": of_kserve()["around"] | {"extras": {}}},
        {"annotations": {KSERVE_CLAIM: "other"}},
        {"annotations": {}},
        {"labels": {"app": "web"}},
        {"labels": {KSERVE_MODEL: "llama", KSERVE_NAMESPACE: "apps"}},
        {"by": policy(plugins=house(Caches(CacheAffinity.IGNORE)))},
        {"by": policy(plugins=())},
    ],
)
def test_a_local_volume_without_an_entry_in_the_index_keeps_its_pod(change: Any) -> None:
    """R1.1: not read, another claim, no model, a cache that is not read, not wanted, no plugin."""
    plan = plan_of(COOL, **of_kserve("hot", "te4", "te5") | change)
    assert reasons(plan) == {"a": "node_bound_volume"}


def test_copies_of_a_model_are_not_shared_by_the_pods_of_a_node() -> None:
    """R1.1: another claim for one node would be attached there."""
    fields = of_kserve("hot", "te5")
    around = fields.pop("around")
    hot = fields.pop("hot")
    pods = [pod(name, on="hot", request=amounts(1, 1), **fields) for name in ("a", "b")]
    nodes = [node("hot", labels=hot), node("te5", labels=IN_GROUP)]
    used = load({"hot": (0.9, 0.1), "te5": (0.1, 0.1)}, {"a": (1.0, 0.1), "b": (1.0, 0.1)})
    assert evicted(planned(snapshot(nodes, pods, used, **around), policy())) == ["a"]


def test_a_pod_of_gpustack_moves_to_a_node_whose_store_has_its_digest() -> None:
    """R1.2: with Prefer also elsewhere, because its driver downloads the model there."""
    digest = f"sha256:{'3' * 64}"
    mount = (PodVolume(VolumeKind.MODEL, model=digest),)

    def plan(*stores: str, by: Policy | None = None) -> Plan:
        copies = tuple(ModelCopies(GPUSTACK, (digest,), (name,)) for name in stores)
        fields: Any = {
            "volumes": mount,
            "annotations": {},
            "around": {"extras": CacheObjects(copies).extras},
        }
        return plan_of({"te4": {}, "te5": {}}, by, **fields)

    (move,) = plan("hot", "te5").evictions
    assert move.expected_node == "te5"
    (refusal,) = plan("hot").refusals
    assert refusal.detail.startswith("model sha256:333333333333 is on hot only: ")
    assert evicted(plan("hot", by=PREFERRING)) == ["a"]
    assert evicted(plan()) == ["a"]  # X3: its objects are not read
