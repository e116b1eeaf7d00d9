"""A tenant's objects neither steer nor stop the moves of others, and the report has the reason."""

import json
from datetime import datetime

import pytest

from desched import decision
from tests.controlplane import forks
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import ALONE, COMMAND, lacks_samples
from tests.controlplane.manifests import Object, custom_kind, deployment, pod_spec, usage
from tests.controlplane.replicas import Replicas
from tests.controlplane.sites import SITE, Site, Sites, app_of, evicted
from tests.controlplane.waiting import wait_for

EVIL = "evil"
SLOW = "evil-and-slow"
SHOP = "shop"
TERMS = 1_000
WORKLOADS = ("a", "b", "c")
GAME: Object = {"apiVersion": "odd.example/v1", "kind": "Game"}
DECLARED: Object = {"understoodOwnerKinds": ["odd.example/Game"]}


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def claimed(uid: str) -> Site:
    """A saturated node hides how much its pods need: too much for the cold one, as is assumed."""
    site = Site("claimed")
    site.node("hot", uses="2600m")
    site.node("cold", uses="1800m")
    site.manifests += [
        *(game(uid, site.name, f"mine-{i}", site.name, "hot", "800m") for i in range(2)),
        game(uid, EVIL, "evil-hot", site.name, "hot", "0"),
        *(game(uid, EVIL, f"evil-{i}", site.name, "cold", "0") for i in range(20)),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "all", "namespace": site.name},
            "spec": {"minAvailable": 1, "selector": {}},
        },
    ]
    return site


def chess(plane: ControlPlane) -> str:
    """A Game for pods of any namespace, which only the policy declares; returns its uid."""
    plane.serve(custom_kind("odd.example", "v1", "Game", scope="Cluster"))
    plane.apply({**GAME, "metadata": {"name": "chess"}})
    return str(plane.get("/apis/odd.example/v1/games/chess")["metadata"]["uid"])


def game(uid: str, namespace: str, name: str, site: str, node: str, uses: str) -> Object:
    """A pod of the Game; whoever creates it binds it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": usage(uses),
            "ownerReferences": [{**GAME, "name": "chess", "uid": uid, "controller": True}],
        },
        "spec": pod_spec(nodeName=f"{site}-{node}", nodeSelector={SITE: site}),
    }


def movable(name: str) -> Site:
    """One pod has to go, and two cold nodes have room."""
    site = Site(name)
    site.node("hot", uses="2200m")
    site.node("cold1", "cold2")
    site.workload("ballast", ("hot",), "0", cpu_request="3")
    site.workload("web", ("hot", "cold1"), "1100m", cpu_request="600m")
    return site


def waiting() -> Site:
    """Pods of a scheduler that nobody runs would take all room."""
    site = movable("waiting")
    nobody = {"schedulerName": "nobody", "nodeSelector": {SITE: site.name}}
    site.manifests.append(deployment("nobody", 20, "0", EVIL, cpu_request="500m", **nobody))
    return site


def slow() -> Site:
    """Pods with many terms run beside those that have to go."""
    site = movable("slow")
    terms = [
        {"topologyKey": f"key-{number}", "labelSelector": {}}  # no node has such a label
        for number in range(TERMS)
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    hot = {"nodeSelector": {"kubernetes.io/hostname": "slow-hot"}, "affinity": affinity}
    site.manifests += [namespace(SLOW), deployment("terms", 10, "10m", SLOW, **hot)]
    return site


def failing() -> tuple[Site, Site]:
    """A node of the tenant is overloaded, and one of others will be."""
    tenant, others = Site(EVIL), Site(SHOP)
    at_once = {"terminationGracePeriodSeconds": 0}
    tenant.node("hot", uses="2900m")
    tenant.node("cold1", "cold2", "cold3")
    tenant.workload("ballast", ("hot",), "0", cpu_request="3")
    for number, app in enumerate(WORKLOADS, start=1):
        tenant.workload(app, ("hot", f"cold{number}"), "340m", cpu_request="100m", **at_once)
    others.node("later", uses="1000m")
    others.node("cold1", "cold2")
    others.workload("ballast", ("later",), "0", cpu_request="3")
    others.workload("web", ("later", "cold1"), "800m", cpu_request="500m", **at_once)
    return tenant, others


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    mine = claimed(chess(empty_sites.plane))
    empty_sites.build(*failing(), mine, waiting(), slow(), movable("overdue"))
    empty_sites.plane.wait_for_ready_pods(SLOW, 10)
    running = [p for p in empty_sites.plane.items("/api/v1/pods") if on_node(p)]
    empty_sites.wait_until_measured(len(running))
    return empty_sites


def on_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def refused(report: Object, namespace: str) -> set[tuple[str, str]]:
    """The reasons for which pods of a namespace stay, with their details."""
    return {
        (each["reason"], each["detail"])
        for each in report["plan"]["refusals"]
        if each["pod"]["namespace"] == namespace
    }


def wait_until_told(sites: Sites, site: str, sentence: str) -> None:
    """Until people read this; a busy machine may not measure all nodes in time at first."""
    flags = ("--once", ALONE, "--state-namespace", site)
    texts = [""]

    def is_told() -> bool:
        done = sites.run(*flags, nodeSelector=f"{SITE}={site}", name=f"told-{site}", **DECLARED)
        texts.append(" ".join(done.stdout.split()))
        return sentence in texts[-1]

    wait_for(sentence, is_told, diagnosis=lambda: texts[-1])


def test_idle_pods_that_claim_an_owner_do_not_make_its_pods_look_small(sites: Sites) -> None:
    sites.allow_owner_kinds("games.odd.example")
    report = sites.look("claimed", **DECLARED)
    assert report["plan"]["evictions"] == []
    ((reason, detail),) = refused(report, "claimed")
    assert (reason, "1 node would rise above" in detail) == ("no_node_under_ceiling", True)
    ((reason, detail),) = refused(report, EVIL)
    assert (reason, f"Game {EVIL}/chess" in detail) == ("without_budget", True)


def test_pending_pods_that_nobody_binds_keep_no_room(sites: Sites) -> None:
    wait_until_told(
        sites,
        "waiting",
        f"20 pods of namespace {EVIL} (unknown_scheduler): No pod of another namespace was placed "
        "by their scheduler.",
    )
    report = sites.look("waiting", "--evict")
    (unreserved,) = report["plan"]["unreserved"]
    assert unreserved == {"namespace": EVIL, "reason": "unknown_scheduler", "pods": 20}
    assert evicted(report) == ["web"]


def test_thousands_of_affinity_terms_do_not_slow_planning_down(sites: Sites) -> None:
    wait_until_told(
        sites,
        "slow",
        "10 constraint_not_evaluated: desched does not evaluate one of its scheduling constraints.",
    )
    report = sites.look("slow", "--evict")
    assert refused(report, SLOW) == {
        ("constraint_not_evaluated", f"too large: {TERMS} affinity terms, more than 64")
    }
    assert (report["plan"]["hold"], evicted(report)) == (None, ["web"])


def out_of_time() -> None:
    decision.PLANNING_SECONDS = 0.0


def measured_in(text: str) -> Object | None:
    """The report, None if there is none or scrapes came too late for it."""
    report: Object = json.loads(text or "{}")
    return report if report and not lacks_samples(report) else None


def test_a_cycle_that_plans_for_too_long_names_the_pod_and_evicts_nothing(sites: Sites) -> None:
    selector = f"{SITE}=overdue"
    flags = ("--once", ALONE, "--evict", "--state-namespace", "overdue", "--output", "json")
    arguments = sites.arguments(*flags, nodeSelector=selector, name="overdue")
    report = sites.plane.wait_for(
        "a report of nodes that are measured",
        lambda: measured_in(forks.run(arguments[len(COMMAND) :], out_of_time).stdout),
    )
    assert report is not None
    assert (report["plan"]["hold"], report["outcomes"]) == ("planning_too_slow", [])
    assert f"it ended at the constraints of pod {EVIL}/nobody-" in report["plan"]["hold_detail"]
    assert evicted(sites.look("overdue", "--evict")) == ["web"]


def test_failures_of_a_tenant_pause_the_moves_of_that_tenant_alone(sites: Sites) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-replacements", "namespace": EVIL},
        "spec": {"hard": {"pods": "0"}},
    }
    sites.plane.apply(quota)
    replicas = Replicas(
        sites,
        SHOP,
        nodeSelector=f"{SITE} in ({EVIL}, {SHOP})",
        evictionLimits={"node": 3},
        followUp={"patience": "10s"},
    )

    def pauses() -> list[Object]:
        found: list[Object] = (replicas.state() or {}).get("pauses", [])
        return found

    try:
        service = replicas.start("", ALONE)
        paused = service.wait_until("a pause", pauses)
        assert [(pause["scope"], pause["subject"]) for pause in paused] == [("namespace", EVIL)]
        names = ", ".join(f"Deployment {EVIL}/{app} (never_came)" for app in WORKLOADS)
        assert paused[0]["why"] == f"moves of 3 workloads failed within 1h: {names}"
        assert {app_of({"name": e.name}) for e in replicas.evictions()} == set(WORKLOADS)

        hot = {"metadata": {"annotations": usage("2700m")}}
        sites.plane.request("PATCH", f"/api/v1/nodes/{SHOP}-later", hot)
        service.wait_until("a move of others", lambda: len(replicas.evictions()) > len(WORKLOADS))
    finally:
        replicas.stop()
    last = replicas.evictions()[-1]
    assert (app_of({"name": last.name}), last.done) == ("web", True)
    assert last.began > datetime.fromisoformat(paused[0]["since"])
