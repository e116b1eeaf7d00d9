"""Of two replicas one acts at any time, whatever happens to it, and the other knows what it did.

The witness is the API server: its audit log tells who held the Lease, what was written down before
each eviction, and who asked for it.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from desched.adapters.kubernetes.client.access import (
    DEVICE_ACCESS,
    GET_LEASE,
    LIST_NAMESPACES,
    LIST_NODES,
    LIST_TAINT_RULES,
    WATCHING_ACCESS,
)
from tests.controlplane.cable import Cable
from tests.controlplane.fault_proxy import Answer, Fault, FaultProxy
from tests.controlplane.faults import changed
from tests.controlplane.manifests import Object
from tests.controlplane.replicas import (
    SHORT_LEASE,
    Replica,
    Replicas,
    Request,
    check_that_one_acted,
)
from tests.controlplane.sites import Site, Sites, app_of
from tests.controlplane.waiting import wait_for

LIMITS = {
    "total": 10,
    "slowStart": False,
    "node": 4,
    "perMinute": 6,
    "inFlight": {"destination": 6},
}
RARE = {**LIMITS, "perMinute": 2}  # two begin at once, and the third waits for half a minute
SURELY_WAITS = timedelta(seconds=8)
"""A cycle that has nothing left to do ends sooner after its last eviction."""
KILLS = 3
LOOKS = 3
LASTING_LEASE = ("--lease-duration", "90s", "--renew-deadline", "60s", "--retry-period", "1s")
COOL, HOT, HOTTER = "400m", "1700m", "2200m"
"""What a node uses on its own: with its pods 52.5 %, 92.5 %, or 86 % after three evictions.

A machine that stalls may show a rate that is half as high again.
"""


def site(name: str, nodes: int) -> Site:
    """Nodes that become hot when told so; each then has three pods too many."""
    built = Site(name)
    hot = tuple(f"hot{number}" for number in range(1, nodes + 1))
    built.node(*hot, uses=COOL)
    built.node("cool1", "cool2", "cool3")
    for node in hot:
        for letter in "abcd":
            built.workload(
                f"{node}{letter}",
                (node, node),
                "250m",
                cpu_request="400m",
                terminationGracePeriodSeconds=0,
            )
    return built


@pytest.fixture(scope="module")
def sites(empty_sites: Sites) -> Sites:
    names = {"killed": KILLS, "frozen": 3, "cut": 3, "quiet": 1, "differing": 2}
    empty_sites.build(*(site(name, nodes) for name, nodes in names.items()))
    return empty_sites


class Told(NamedTuple):
    """Stories that mostly wait, and so run side by side, on a site each."""

    killed: Future[None]
    frozen: Future[None]
    cut: Future[None]
    quiet: Future[None]
    differing: Future[None]


@pytest.fixture(scope="module")
def told(sites: Sites) -> Iterator[Told]:
    with ThreadPoolExecutor(len(Told._fields)) as pool:
        yield Told(
            *(pool.submit(story, sites) for story in (killed, frozen, cut, quiet, differing))
        )


@contextmanager
def contend(sites: Sites, name: str, **load_aware: object) -> Iterator[Replicas]:
    """Replicas of a site, which end with the context."""
    rules = {
        "evictionLimits": LIMITS,
        "followUp": {"patience": "2m"},
        "evictionPrice": "0s",  # the nodes have been cool until now
        **load_aware,
    }
    replicas = Replicas(sites, name, **rules)
    try:
        yield replicas
    finally:
        replicas.stop()


def heat(replicas: Replicas, *nodes: str, uses: str = HOT) -> None:
    """From now on these nodes have load of their own that makes them hot."""
    for node in nodes:
        path = f"/api/v1/nodes/{replicas.site}-{node}"
        annotations = {"kwok.x-k8s.io/usage-cpu": uses}
        replicas.sites.plane.request("PATCH", path, {"metadata": {"annotations": annotations}})


def wait_for_evictions(replicas: Replicas, count: int, of: str = "") -> list[Request]:
    """So many accepted evictions, of workloads whose name begins so."""

    def accepted() -> list[Request]:
        found = [r for r in replicas.evictions() if r.done and r.name.startswith(of)]
        return found if len(found) >= count else []

    return replicas.sites.plane.wait_for(f"{count} evictions of {of}", accepted)


def freeze_in_the_act(replicas: Replicas) -> tuple[list[Request], Replica]:
    """Freezes the leader while the next eviction of its cycle waits for its turn."""

    def in_the_act() -> Replica | None:
        evictions = replicas.evictions()
        if not evictions or evictions[-1].ended + SURELY_WAITS > datetime.now(UTC):
            return None
        leader = replicas.all[evictions[-1].replica]
        ended = sum(cycle["planned"] for cycle in leader.cycles)
        return leader if len(replicas.evictions(leader)) > ended else None

    leader = replicas.sites.plane.wait_for("an eviction that waits for its turn", in_the_act)
    assert leader is not None
    leader.freeze()
    return replicas.evictions(leader), leader


def workloads(replicas: Replicas, evictions: Iterable[Request]) -> set[str]:
    """The uids of those whose pods were evicted."""
    found = replicas.sites.plane.items(f"/apis/apps/v1/namespaces/{replicas.site}/deployments")
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}
    return {uids[app_of({"name": eviction.name})] for eviction in evictions}


def test_leaders_that_are_killed_in_the_act_leave_what_they_did_to_the_next(told: Told) -> None:
    told.killed.result()


def test_a_leader_that_was_frozen_in_the_act_evicts_nothing_more(told: Told) -> None:
    told.frozen.result()


def test_a_leader_that_the_api_server_refuses_stops_before_the_other_starts(told: Told) -> None:
    told.cut.result()


def test_a_replica_that_waits_asks_prometheus_nothing_and_watches_nothing(told: Told) -> None:
    told.quiet.result()


def test_a_leader_that_another_prometheus_misleads_evicts_no_pod_by_its_load(told: Told) -> None:
    told.differing.result()


def killed(sites: Sites) -> None:
    with contend(sites, "killed") as replicas:
        running = {replica.name: replica for replica in (replicas.start(), replicas.start())}
        for number in range(1, KILLS + 1):
            node = f"hot{number}"
            heat(replicas, node)
            first = wait_for_evictions(replicas, 1, of=node)[0]
            running.pop(first.replica).stop()
            (successor,) = running.values()
            successor.wait_to_lead()
            successor.wait_for_cycles(1)
            fresh = replicas.start()
            running[fresh.name] = fresh
            begun = workloads(replicas, wait_for_evictions(replicas, 1, of=node))
            state = replicas.state()
            assert begun <= {each["workload_uid"] for each in state["evictions"] + state["moves"]}

        def moved() -> set[str]:
            return {move["workload_uid"] for move in replicas.state()["moves"]}

        def settled() -> bool:
            """Whether all results are known; a node rests, and then loses more.

            A request that a kill cut may have taken effect, whatever the audit log tells of it.
            """
            asked = replicas.evictions()
            done = [request for request in asked if request.done]
            return workloads(replicas, done) <= moved() <= workloads(replicas, asked)

        def unsettled() -> str:
            asked = [(r.began, r.replica, r.name, r.code) for r in replicas.evictions()]
            return "\n".join(map(str, [*asked, replicas.state(), replicas.all.keys()]))

        wait_for("what became of all is known", settled, diagnosis=unsettled)
        evictions = [request for request in replicas.evictions() if request.done]
        check_that_one_acted(replicas.requests())
        assert len({eviction.replica for eviction in evictions}) >= KILLS
        assert replicas.state()["cool_downs"] == []  # which a failure would have begun


def frozen(sites: Sites) -> None:
    window = ["30s"]  # so that it is not the age of its load that stops the leader
    windows = {"cpu": window, "memory": window}
    with contend(sites, "frozen", windows=windows, evictionLimits=RARE) as replicas:
        heat(replicas, "hot1", "hot2", "hot3", uses=HOTTER)
        sites.prometheus.wait_until_has(
            'max(avg by (node) (rate(node_cpu_seconds_total{node=~"frozen-hot.",mode="idle"}'
            f"[{window[0]}]))) < 0.01"
        )
        one, other = replicas.start(), replicas.start()
        evictions, leader = freeze_in_the_act(replicas)
        before = len(replicas.evictions(leader))
        complete = len(leader.cycles)
        successor = other if leader is one else one
        successor.wait_to_lead()
        successor.wait_for_cycles(1)
        state = replicas.state()
        known = {each["workload_uid"] for each in state["evictions"] + state["moves"]}
        assert workloads(replicas, evictions) <= known

        leader.thaw()
        leader.wait_until("it is told", lambda: leader.events("leadership.lost"))
        interrupted, *_ = leader.wait_until("the cycle ends", lambda: leader.cycles[complete:])
        assert interrupted["verdicts"].get("not_begun", 0) >= 1
        successor.wait_for_cycles(3)
        assert len(replicas.evictions(leader)) == before
        check_that_one_acted(replicas.requests())


def cut(sites: Sites) -> None:
    with contend(sites, "cut") as replicas, Cable(sites.plane.url) as cable:
        leader = replicas.start(cable.url)
        leader.wait_to_lead()
        other = replicas.start()
        heat(replicas, "hot1")
        wait_for_evictions(replicas, 1, of="hot1")
        cable.cut()
        heat(replicas, "hot2")
        by_other = wait_for_evictions(replicas, 1, of="hot2")
        assert {eviction.replica for eviction in by_other} == {other.name}, leader.cycles
        assert leader.events("leadership.lost")
        before = len(replicas.evictions(leader))  # with one that the cut found on its way

        mended_at = datetime.now(UTC)
        cable.mend()
        leader.wait_until(
            "it asks again",
            lambda: [
                request
                for request in replicas.requests()
                if request.replica == leader.name
                and request.what == "get leases"
                and request.began > mended_at
            ],
        )
        heat(replicas, "hot3")
        by_other = wait_for_evictions(replicas, 1, of="hot3")
        assert {eviction.replica for eviction in by_other} == {other.name}
        other.wait_for_cycles(3)
        assert len(replicas.evictions(leader)) == before
        assert not leader.leads
        check_that_one_acted(replicas.requests())


def quiet(sites: Sites) -> None:
    plane = sites.plane
    with ExitStack() as cleanup:
        replicas = cleanup.enter_context(contend(sites, "quiet"))
        lease = GET_LEASE.path("quiet", "desched")

        def started() -> tuple[Replica, FaultProxy, FaultProxy]:
            """A replica, and what it asks the API server and Prometheus."""
            api = cleanup.enter_context(FaultProxy.before(plane))
            load = cleanup.enter_context(FaultProxy(sites.prometheus.url))
            replica = replicas.start(api.url, *LASTING_LEASE, "--prometheus-url", load.url)
            return replica, api, load

        leader, asked, queried = started()
        leader.wait_to_lead()
        waiting, asked_meanwhile, queried_meanwhile = started()
        waiting.wait_until(
            "it looks at the Lease again and again",
            lambda: sum(seen.path == lease for seen in asked_meanwhile.requests) > LOOKS,
        )
        leader.wait_for_cycles(LOOKS)
        assert queried.requests
        assert queried_meanwhile.requests == []
        paths = {seen.path.split("?")[0] for seen in asked_meanwhile.requests}
        # Its janitor reads the metadata of nodes, and at its start it looks for its own namespace.
        assert paths == {lease, LIST_NODES.path(), LIST_NAMESPACES.path()}
        watches = [seen.path.split("?")[0] for seen in asked.requests if "watch=true" in seen.path]
        served = {access.path() for access in (*WATCHING_ACCESS, *DEVICE_ACCESS)}
        # This API server has no DeviceTaintRules in v1.
        assert set(watches) == served - {LIST_TAINT_RULES.path()}


def exchanged(one: str, other: str) -> Fault:
    """All series of one node are those of the other."""

    def change(given: Answer) -> Answer:
        parts = (
            part.replace(other.encode(), one.encode()) for part in given.body.split(one.encode())
        )
        return given._replace(body=other.encode().join(parts))

    return changed("another truth", change)


def cycles_of_lies(replica: Replica, node: str) -> list[Object]:
    """The cycles that found only this node overloaded."""
    return [cycle for cycle in replica.cycles if cycle.get("overloaded") == [node]]


def differing(sites: Sites) -> None:
    """It knows the pods by the API server, and their series name another node."""
    with contend(sites, "differing") as replicas, FaultProxy(sites.prometheus.url) as lying:
        hot, cool = (f"{replicas.site}-hot{number}" for number in (1, 2))
        with lying.faulty(exchanged(hot, cool)):
            first = replicas.start()
            first.wait_to_lead()
            second = replicas.start("", *SHORT_LEASE, "--prometheus-url", lying.url)
            heat(replicas, "hot1")
            wait_for_evictions(replicas, 1, of="hot1")
            first.stop()
            heat(replicas, "hot1", uses=HOTTER)  # which is overloaded without what was evicted, too
            second.wait_to_lead()
            second.wait_until("it is misled", lambda: len(cycles_of_lies(second, cool)) >= LOOKS)
        assert lying.requests
        assert replicas.evictions(second) == []
        check_that_one_acted(replicas.requests())
