"""Nodes that are full of requests: one move makes the room for the next one, in a later cycle."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

import pytest

from desched.cli import ExitCode
from desched.model.state import FAILURES
from tests.controlplane.forks import hold_if_unknown
from tests.controlplane.installation import (
    ALONE,
    COMMAND,
    QUICK_LEASE,
    measured,
)
from tests.controlplane.manifests import Object, deployment, pod_spec
from tests.controlplane.mortal_runs import KILLED, Death, run, run_disturbed
from tests.controlplane.replicas import Replica, Replicas
from tests.controlplane.sites import SITE, Site, Sites, app_of, evicted, verdict
from tests.mortal import Moment

HOT = ("hot1", "hot2")
COOL = tuple(f"cool{number}" for number in range(1, 8))
GAPS = ("gap1", "gap2", "gap3")
STEERING: Object = {"steering": "WhenNeeded"}
"""Without it there are no chains by default; here no move needs a soft taint."""

KIND = "kind"
LEFT, RIGHT = {"half": "left"}, {"half": "right"}
"""Which small pods fit on a node; without that, one of them may take the room of the other."""

FIRST, SECOND = ("small", "tiny"), ("api", "web")
"""The apps whose pods make room, and those whose pods need it."""
OTHER = "other"
"""A scheduler that binds pods in more than one namespace, and when a test says so."""

TAKEN = "3"
"""The cores of such room; no other node has as much."""


def full(name: str) -> Site:
    """Twelve nodes of 8 cores full of requests; two are overloaded, and no pod of theirs fits."""
    site = Site(name)
    site.node(*HOT, cpu="8")
    for half, cool, gaps in ((LEFT, COOL[:4], GAPS[:1]), (RIGHT, COOL[4:], GAPS[1:])):
        site.node(*cool, cpu="8", labels={**half, KIND: "cool"})
        site.node(*gaps, cpu="8", labels={**half, KIND: "gap"})
    for app, node in zip(SECOND, HOT, strict=True):
        affinity = drawn_to("cool")
        site.workload(app, (node, node), "3400m", cpu_request=TAKEN, affinity=affinity)
    site.workload("fill", HOT, "300m", cpu_request="1900m")
    site.workload("big", COOL, "500m", cpu_request="5")
    for app, half, cool in zip(FIRST, (LEFT, RIGHT), (COOL[:4], COOL[4:]), strict=True):
        fields: Object = {"nodeSelector": half, "affinity": drawn_to("gap")}
        site.workload(app, cool, "100m", cpu_request="2500m", **fields)
    site.workload("wide", GAPS, "500m", cpu_request="5400m", schedulerName=OTHER)
    return site


def drawn_to(kind: str) -> Object:
    """An affinity without which a pod of KWOK, which ends at once, would come back to its node."""
    term = {"matchExpressions": [{"key": KIND, "operator": "In", "values": [kind]}]}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


PODS = sum(len(nodes) for nodes in full("").places.values())


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    empty_sites.install_permissions("overlays/evict")
    empty_sites.build(*map(full, ("undisturbed", "killed", "pending", "seen", "unseen")))
    return empty_sites


class Eviction(NamedTuple):
    """An accepted request, by the audit log."""

    pod: str
    at: datetime

    @property
    def app(self) -> str:
        return app_of({"name": self.pod})


def evictions(sites: Sites, site: str) -> list[Eviction]:
    """All of a site, oldest first."""
    account = sites.account
    return [
        Eviction(about["name"], datetime.fromisoformat(event["stageTimestamp"]))
        for event in sites.plane.audit_events(account["namespace"], account["name"])
        if (about := event.get("objectRef", {})).get("subresource") == "eviction"
        and about["namespace"] == site
        and event["responseStatus"]["code"] == 201
    ]


def wait_for_evictions(sites: Sites, site: str, count: int) -> None:
    """Until the audit log has so many, which it has a moment after they were answered."""
    sites.plane.wait_for(
        f"{count} evictions of {site}", lambda: len(evictions(sites, site)) >= count
    )


def pods(sites: Sites, site: str) -> dict[str, str]:
    """The nodes of a site's Ready pods without the site's name, by pod; all of them are Ready."""
    found = sites.plane.wait_for_ready_pods(site, PODS, "app!=stranger")
    return {p["metadata"]["name"]: p["spec"]["nodeName"].removeprefix(f"{site}-") for p in found}


def wait_until_relieved(sites: Sites, site: str, replica: Replica) -> None:
    """Until a service sees no overloaded node in windows that show all that it did."""

    def relieved() -> bool:
        done = evictions(sites, site)
        return bool(done) and replica.is_done_since(done[-1].at)

    replica.wait_until("no node is overloaded", relieved)


def check_that_chains_relieved(
    before: Mapping[str, str], after: Mapping[str, str], done: Sequence[Eviction]
) -> None:
    """Each overloaded node took two evictions, the first of them on a node with load to spare."""
    assert sorted(each.app for each in done) == sorted(FIRST + SECOND)
    gone = {each.app: before[each.pod] for each in done}
    new = {app_of({"name": pod}): node for pod, node in after.items() if pod not in before}
    assert {gone[app] for app in SECOND} == set(HOT)
    rooms = {gone[app] for app in FIRST}
    assert rooms <= set(COOL)
    assert {new[app] for app in FIRST} <= set(GAPS)
    assert {new[app] for app in SECOND} == rooms
    order = [each.app for each in done]
    assert min(map(order.index, FIRST)) < min(map(order.index, SECOND))


class Told(NamedTuple):
    """Stories of services, which mostly wait, and so run side by side."""

    undisturbed: Future[None]
    killed: Future[None]


@pytest.fixture(scope="module", autouse=True)
def told(sites: Sites) -> Iterator[Told]:
    with ThreadPoolExecutor(len(Told._fields)) as pool:
        yield Told(pool.submit(undisturbed, sites), pool.submit(killed, sites))


def undisturbed(sites: Sites) -> None:
    before = pods(sites, "undisturbed")
    replicas = Replicas(sites, "undisturbed", **STEERING)
    try:
        wait_until_relieved(sites, "undisturbed", replicas.start("", ALONE))
        assert replicas.state()["chains"] == []
    finally:
        replicas.stop()
    check_that_chains_relieved(before, pods(sites, "undisturbed"), evictions(sites, "undisturbed"))


def killed(sites: Sites) -> None:
    """A process dies once it has evicted a first pod; another one finds its lease and its state."""
    before = pods(sites, "killed")
    replicas = Replicas(sites, "killed", **STEERING)
    arguments = sites.arguments(
        *("--evict", "--interval", "2s", "--listen-address", "127.0.0.1:0"),
        *("--state-namespace", "killed", *QUICK_LEASE),
        policy=sites.policy("killed-first", nodeSelector=f"{SITE}=killed", **STEERING),
    )
    death = Death("state.save", Moment.AFTER, "evictor.evict")
    dead = run(arguments[len(COMMAND) :], death)
    assert dead.returncode == KILLED, dead.stderr
    assert {each.app for each in evictions(sites, "killed")} <= set(FIRST)
    assert replicas.state()["chains"]
    try:
        wait_until_relieved(sites, "killed", replicas.start())
    finally:
        replicas.stop()
    check_that_chains_relieved(before, pods(sites, "killed"), evictions(sites, "killed"))


def make_room(sites: Sites, site: str) -> list[str]:
    """Evict the first pods; return the nodes on which there is room once they have landed."""
    report = sites.look(site, "--evict", prepare=hold_if_unknown, **STEERING)
    assert evicted(report) == sorted(FIRST)
    assert {verdict(report, f"{site}-{node}")["reason"] for node in HOT} == {"room_being_made"}
    pods(sites, site)
    return sorted(each["chain"]["room_on"] for each in report["state"]["chains"])


def wait_for_second_moves(sites: Sites, site: str) -> None:
    """Until a cycle that evicts would make them."""

    def planned() -> bool:
        return len(sites.look(site, **STEERING)["plan"]["evictions"]) == len(SECOND)

    sites.plane.wait_for(f"second moves of {site}", planned)


def look_disturbed(sites: Sites, site: str, call: str, rooms: Sequence[str]) -> Object:
    """The report of a cycle; just before this call of it, somebody puts pods into the room."""
    path = sites.directory / f"strangers-{site}.json"
    path.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": strangers(site, rooms)})
    )
    command = sites.plane.kubectl_command("apply", "-f", path)
    arguments = sites.arguments(
        *("--evict", "--once", ALONE, "--state-namespace", site, "--output", "json"),
        policy=sites.policy(f"look-{site}", nodeSelector=f"{SITE}={site}", **STEERING),
    )
    ended = measured(lambda: run_disturbed(arguments[len(COMMAND) :], call, command))
    assert ended.returncode == ExitCode.DONE, ended.stderr
    report: Object = json.loads(ended.stdout)
    return report


def strangers(site: str, rooms: Sequence[str]) -> list[Object]:
    """A pod for each of these nodes, which takes all its room, and asks no scheduler."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"stranger-{number}",
                "namespace": site,
                "labels": {"app": "stranger"},
            },
            "spec": pod_spec(TAKEN, nodeName=node),
        }
        for number, node in enumerate(rooms)
    ]


def check_that_chains_are_broken(sites: Sites, site: str, report: Object, rooms: list[str]) -> None:
    """They ended after their first moves, which is told, and not tried again."""
    chains = report["plan"]["chains"]
    assert all(each["broken_at"] for each in chains)
    assert sorted(each["why"] for each in chains) == [
        f"others took the room on {node}" for node in rooms
    ]
    for node in HOT:
        found = verdict(report, f"{site}-{node}")
        assert found["reason"] == "excess_not_movable"
        assert "one was broken at" in found["detail"]
    assert sites.look(site, "--evict", **STEERING)["outcomes"] == []
    wait_for_evictions(sites, site, len(FIRST))
    assert sorted(each.app for each in evictions(sites, site)) == sorted(FIRST)


def test_pending_pods_get_the_room_and_nothing_is_lost(sites: Sites) -> None:
    rooms = make_room(sites, "pending")
    others = deployment(
        *("stranger", len(rooms), "100m", "pending"),
        cpu_request=TAKEN,
        nodeSelector={SITE: "pending"},
        schedulerName=OTHER,
    )
    sites.plane.apply(others)

    def created() -> list[Object]:
        found = sites.plane.pods("pending", "app=stranger")
        return found if len(found) == len(rooms) else []

    waiting = sites.plane.wait_for("strangers", created)

    def broken() -> Object | None:
        report = sites.look("pending", "--evict", **STEERING)
        assert report["outcomes"] == []
        return report if all(each["broken_at"] for each in report["plan"]["chains"]) else None

    report = sites.plane.wait_for("broken chains", broken)
    assert report is not None
    check_that_chains_are_broken(sites, "pending", report, rooms)
    for pod, node in zip(waiting, rooms, strict=True):
        sites.bind("pending", pod["metadata"]["name"], node)
    sites.plane.wait_for_ready_pods("pending", len(rooms), "app=stranger")
    pods(sites, "pending")


def test_a_fresh_look_shows_that_others_took_the_room(sites: Sites) -> None:
    rooms = make_room(sites, "seen")
    wait_for_second_moves(sites, "seen")
    report = look_disturbed(sites, "seen", "cluster.read_around", rooms)
    outcomes = report["outcomes"]
    assert {(o["verdict"], o["refusal"]) for o in outcomes} == {
        ("not_confirmed", "confirmation_failed")
    }
    assert sorted(outcome["detail"] for outcome in outcomes) == [
        f"others took the room on {node}: Insufficient cpu" for node in rooms
    ]
    check_that_chains_are_broken(sites, "seen", sites.look("seen", "--evict", **STEERING), rooms)
    pods(sites, "seen")


def test_room_that_is_taken_after_the_fresh_look_costs_one_landing(sites: Sites) -> None:
    rooms = make_room(sites, "unseen")
    wait_for_second_moves(sites, "unseen")
    first, second = look_disturbed(sites, "unseen", "evictor.evict", rooms)["outcomes"]
    assert (first["verdict"], second["verdict"]) == ("evicted", "not_confirmed")
    pods(sites, "unseen")

    def settled() -> list[Object]:
        report = sites.look("unseen", "--evict", **STEERING)
        assert report["outcomes"] == []
        return [each for each in report["settled"] if each["pod"] == first["pod"]]

    (result,) = sites.plane.wait_for("the result of the second move", settled)
    assert result["result"] in {each.value for each in FAILURES}
    wait_for_evictions(sites, "unseen", len(FIRST) + 1)
    assert len(evictions(sites, "unseen")) == len(FIRST) + 1
    sites.plane.wait_for_ready_pods("unseen", len(rooms), "app=stranger")


def test_each_node_is_relieved_by_two_moves(told: Told) -> None:
    told.undisturbed.result()


def test_a_process_goes_on_with_the_chains_of_one_that_was_killed_between_their_moves(
    told: Told,
) -> None:
    told.killed.result()
