"""What becomes of evictions is followed on a real cluster, by runs that share their memory only."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from tests.controlplane.installation import ALONE, WINDOW_SECONDS
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import Replicas, Request
from tests.controlplane.sites import VALUED, Site, Sites, evicted, refused

PATIENCE_SECONDS = 30
FOLLOW_UP = {"patience": f"{PATIENCE_SECONDS}s"}
"""Of moves that fail."""
SLACK = timedelta(seconds=1)
LEISURELY = ("--interval", "20s")
"""Of a service that is killed before its next cycle, which would see what became of the first."""
NOBODY = "absent"
"""A scheduler that does not exist: the test binds pods in its place, or does not."""


def two(name: str, scheduler: str = "default-scheduler") -> Site:
    """A hot node with two workloads; the first one to go is `sick`."""
    site = Site(name)
    site.node("hot", uses="2150m")
    site.node("cool1", "cool2")
    alike = {"cpu_request": "400m", "terminationGracePeriodSeconds": 0}
    site.workload("sick", ("hot", "hot"), "400m", schedulerName=scheduler, **alike)
    site.workload("well", ("hot", "hot"), "400m", priorityClassName=VALUED, **alike)
    return site


def restarted() -> Site:
    """A hot node that one move cools."""
    site = Site("restarted")
    site.node("hot", uses="2600m")
    site.node("cool")
    site.workload(
        "web", ("hot", "hot"), "400m", cpu_request="400m", terminationGracePeriodSeconds=0
    )
    return site


def budget() -> Site:
    """Five moves from the hotter node come first, and then one that a budget guards."""
    site = Site("budget")
    site.node("hotter", uses="4700m", cpu="8")
    site.node("hot", uses="2600m")
    site.node(*(f"cool{number}" for number in range(1, 6)))
    at_once = {"terminationGracePeriodSeconds": 0}
    for letter in "abcde":
        on = ("hotter", "hotter")
        site.workload(f"web-{letter}", on, "300m", cpu_request="750m", **at_once)
    site.workload("guarded", ("hot", "hot", "cool1"), "400m", cpu_request="1600m", **at_once)
    site.manifests.append(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guarded", "namespace": site.name},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }
    )
    return site


class Looks(NamedTuple):
    """The looks at a site: at the first one a pod was evicted, at the last one its time is over.

    The second one may not evict. There is none if the machine is so slow that the windows may have
    shown the departure by then.
    """

    first: Object
    second: Object | None
    last: Object


def replacement(sites: Sites, site: str, before: set[str]) -> str:
    """The name of the pod that came."""

    def came() -> list[str]:
        pods = sites.plane.pods(site, "app=sick")
        return [name for pod in pods if (name := pod["metadata"]["name"]) not in before]

    (name,) = sites.plane.wait_for("a replacement", came)
    return name


def uids(sites: Sites, site: str) -> set[str]:
    """Of the pods that are there."""
    return {pod["metadata"]["uid"] for pod in sites.plane.pods(site)}


def set_ready(sites: Sites, site: str, pod: str, *, ready: bool) -> None:
    """What the kubelet says after a readiness probe."""
    status, answer = sites.plane.request(
        "PATCH",
        f"/api/v1/namespaces/{site}/pods/{pod}/status",
        {"status": {"conditions": [{"type": "Ready", "status": str(ready)}]}},
        content_type="application/strategic-merge-patch+json",
    )
    assert status == 200, answer


def leave_unready(sites: Sites, site: str, before: set[str]) -> None:
    """The replacement runs, and its readiness probe fails."""
    name = replacement(sites, site, before)
    path = f"/api/v1/namespaces/{site}/pods/{name}"
    sites.plane.wait_for(
        "it runs", lambda: sites.plane.get(path)["status"].get("phase") == "Running"
    )
    set_ready(sites, site, name, ready=False)


def leave_pending(sites: Sites, site: str, before: set[str]) -> None:
    """Nobody schedules it."""
    replacement(sites, site, before)


def bring_back(sites: Sites, site: str, before: set[str]) -> None:
    """It goes to the node that the evicted pod has left."""
    name = replacement(sites, site, before)
    sites.bind(site, name, f"{site}-hot")
    sites.plane.wait_for_ready_pods(site, 2, "app=sick")


def let_none_come(sites: Sites, site: str, before: set[str]) -> None:
    """The namespace's quota, of before the eviction, allows no further pod."""
    names = {pod["metadata"]["name"] for pod in sites.plane.pods(site, "app=sick")}
    assert names < before


CASES: dict[str, tuple[str, Callable[[Sites, str, set[str]], None]]] = {
    "unready": ("not_ready", leave_unready),
    "pending": ("still_pending", leave_pending),
    "back": ("back_on_source", bring_back),
    "missing": ("never_came", let_none_come),
}


def quota(namespace: str) -> Object:
    """No pod may be created that is not there yet."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "pods", "namespace": namespace},
        "spec": {"hard": {"pods": "1"}},
    }


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    cases = (
        two("unready"),
        two("pending", NOBODY),
        two("back", NOBODY),
        two("missing"),
    )
    empty_sites.build(*cases, restarted(), budget())
    return empty_sites


def look_thrice(sites: Sites, site: str) -> Looks:
    """Looks at one of the cases, the last one when its patience is over."""

    def look(most: int = 1) -> Object:
        limits = {"total": most}
        return sites.look(
            site, "--evict", followUp=FOLLOW_UP, evictionLimits=limits, maxLandingRisk=1
        )

    _, happen = CASES[site]
    before = set(sites.where(site, "sick"))
    first = evicting(sites, look)
    happen(sites, site, before)
    second = look(most=0)
    patience, window = (timedelta(seconds=s) for s in (PATIENCE_SECONDS, WINDOW_SECONDS))
    in_time = datetime.now(UTC) < datetime.fromisoformat(first["started_at"]) + window
    # Then every window has seen the departure, too.
    due = datetime.now(UTC) + max(patience, window) + SLACK
    sites.plane.wait_for("patience is over", lambda: datetime.now(UTC) > due)
    return Looks(first, second if in_time else None, evicting(sites, look))


def evicting(sites: Sites, look: Callable[[], Object]) -> Object:
    """The first look that evicts: a machine that stalls sees less load in windows of seconds."""

    def found() -> Object | None:
        report = look()
        return report if report["outcomes"] else None

    report = sites.plane.wait_for("an eviction", found)
    assert report is not None
    return report


class Told(NamedTuple):
    """Stories that mostly wait, and so run side by side, on sites of their own."""

    looks: Mapping[str, Future[Looks]]
    restarted: Future[None]
    budget: Future[None]


@pytest.fixture(scope="module")
def told(sites: Sites) -> Iterator[Told]:
    sites.plane.apply(quota("missing"))
    with ThreadPoolExecutor(len(CASES) + 2) as pool:
        looks = {site: pool.submit(look_thrice, sites, site) for site in CASES}
        yield Told(looks, pool.submit(restart, sites), pool.submit(free_up, sites))


@pytest.mark.parametrize("site", CASES)
def test_a_move_that_fails_is_told_apart_and_only_its_workload_cools_down(
    told: Told, site: str
) -> None:
    result, _ = CASES[site]
    first, second, last = told.looks[site].result()
    assert evicted(first) == ["sick"]
    if second and result != "back_on_source":  # which cannot become better
        assert second["settled"] == []
        assert [r["pod"] for r in second["state"]["evictions"]] == [first["outcomes"][0]["pod"]]
    assert second is None or refused(second)["well"] == {"node_settling"}

    (cool_down,) = last["state"]["cool_downs"]
    assert (cool_down["workload"], cool_down["result"]) == (f"Deployment {site}/sick", result)
    assert last["state"]["pauses"] == []
    assert refused(last)["sick"] <= {"cooling_down", "replicas_not_ready", "rollout_under_way"}
    assert evicted(last) == ["well"]


@contextmanager
def service(sites: Sites, site: str, **load_aware: object) -> Iterator[Replicas]:
    """Services on a site, which end with the context."""
    replicas = Replicas(sites, site, **load_aware)
    try:
        yield replicas
    finally:
        replicas.stop()


def test_a_restart_in_the_middle_of_a_follow_up_finishes_it(told: Told) -> None:
    told.restarted.result()


def test_a_budget_that_frees_up_within_the_cycle_is_used_without_asking_in_vain(
    told: Told,
) -> None:
    told.budget.result()


def restart(sites: Sites) -> None:
    with service(sites, "restarted") as replicas:
        before = sites.where("restarted", "web")
        replicas.start("", ALONE, *LEISURELY)
        sites.plane.wait_for("an eviction", replicas.evictions)
        replicas.stop()
        sites.landed("restarted", "web", before)
        again = replicas.start("", ALONE)

        def settled() -> list[Object]:
            return [cycle for cycle in again.cycles if "settled" in cycle]

        (cycle,) = again.wait_until("what became of it is known", settled)
        assert cycle["settled"] == {"landed_as_forecast": 1}
        state = replicas.state()
        (move,) = state["moves"]
        assert move["replacement_uid"] in uids(sites, "restarted")
        assert state["cool_downs"] == []
        assert len(replicas.evictions()) == 1


def free_up(sites: Sites) -> None:
    window = ["30s"]  # so that the load is still believed after a second wait
    limits = {
        "total": 6,
        "slowStart": False,
        "node": 5,
        "perMinute": 8,
        "inFlight": {"destination": 6},
    }
    windows = {"cpu": window, "memory": window}
    with service(sites, "budget", windows=windows, evictionLimits=limits) as replicas:
        cooler = next(
            pod for pod, node in sites.where("budget", "guarded").items() if "cool" in node
        )
        rules: Object = {"windows": windows, "evictionLimits": limits}
        sites.plane.wait_for(
            "a plan of all", lambda: len(sites.look("budget", **rules)["plan"]["evictions"]) == 6
        )
        only = replicas.start("", ALONE)

        def asked(what: str, app: str = "") -> list[Request]:
            found = [request for request in replicas.requests() if request.what == what]
            return [r for r in found if r.name.startswith(app) and r.name != cooler]

        def looked() -> bool:
            """Budgets are what a look reads last."""
            looks = asked("get pods", "guarded")
            return bool(looks) and asked("list poddisruptionbudgets")[-1].began > looks[0].began

        only.wait_until("five at once", lambda: len(asked("create pods/eviction", "web")) == 5)
        set_ready(sites, "budget", cooler, ready=False)
        only.wait_until("a look at the sixth", looked)
        set_ready(sites, "budget", cooler, ready=True)
        (cycle,) = only.wait_until(
            "the cycle ends", lambda: [c for c in only.cycles if c["planned"]]
        )
        assert (cycle["planned"], cycle["verdicts"]) == (6, {"evicted": 6})
        only.wait_until("its end in the log", lambda: asked("create pods/eviction", "guarded"))
        assert len(asked("get pods", "guarded")) == 2
        assert [r.code for r in asked("create pods/eviction", "guarded")] == [201]
