"""What desched relies on in a cluster, stated once for the simulation and for the real thing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from desched.errors import ObservationError
from desched.model.cluster import Pod, PodDisruptionBudget, PodRef
from desched.model.report import EvictionVerdict
from desched.model.snapshot import FreshPod
from desched.ports import ClusterReader, EvictionAnswer, Evictor, PodToRead

ZONE_LABEL = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Manners:
    """How the pods of a Deployment behave towards others; empty strings and 0 ask for nothing.

    `apart_by` and `even_by` are labels of nodes, over which pods of the same Deployment (or of
    `apart_from`) are kept apart and spread (maxSkew 1). `near`, `drawn_to` and `pushed_from` are
    apps, by zone.
    """

    apart_by: str = ""
    apart_from: str = ""
    even_by: str = ""
    hard: bool = True
    near: str = ""
    drawn_to: str = ""
    pushed_from: str = ""
    likes_zone: str = ""
    host_port: int = 0


EASY_GOING = Manners()


class Lab(Protocol):
    """A cluster to try things on; all pods are of Deployments in its namespace, label app=name."""

    reader: ClusterReader
    evictor: Evictor
    namespace: str

    def add_node(self, name: str, *, zone: str = "", soft_taint: bool = False) -> None:
        """A node of 4 cores and 16 GiB."""

    def cordon(self, *names: str, on: bool = True) -> None:
        """Keep new pods from these nodes, or no longer; the scheduler has seen it on return."""

    def add_deployment(
        self, name: str, replicas: int, cpu_millicores: int, manners: Manners = EASY_GOING
    ) -> None:
        """A Deployment whose pods request this much CPU, and 128 MiB of memory."""

    def add_budget(self, name: str, app: str, **spec: int | str) -> None:
        """A budget over the pods of a Deployment: minAvailable or maxUnavailable."""

    def eventually(self, description: str, predicate: Callable[[], object]) -> None:
        """Let time pass until it holds, and fail if it does not within a minute."""


def pods_of(lab: Lab, app: str) -> list[Pod]:
    """The pods of a Deployment that are not on their way out."""
    found = lab.reader.read_cluster().pods
    mine = [p for p in found if p.namespace == lab.namespace and p.labels.get("app") == app]
    return sorted((p for p in mine if not p.deleting), key=lambda pod: pod.name)


def deploy(
    lab: Lab,
    name: str,
    replicas: int = 1,
    *,
    on: str | None = None,
    cpu_millicores: int = 100,
    manners: Manners = EASY_GOING,
) -> list[Pod]:
    """Deploy and wait until all pods are Ready; `on` cordons all other nodes meanwhile."""
    others = [n.name for n in lab.reader.read_cluster().nodes if on and n.name != on]
    if others:
        lab.cordon(*others)
    lab.add_deployment(name, replicas, cpu_millicores, manners)
    wait_until_ready(lab, name, replicas)
    if others:
        lab.cordon(*others, on=False)
    return pods_of(lab, name)


def wait_until_ready(lab: Lab, app: str, replicas: int) -> None:
    def ready() -> bool:
        return [pod.ready for pod in pods_of(lab, app)] == [True] * replicas

    lab.eventually(f"{replicas} Ready pods of {app}", ready)


def budget_of(lab: Lab, name: str) -> PodDisruptionBudget:
    budgets = lab.reader.read_cluster().budgets
    return next(b for b in budgets if b.namespace == lab.namespace and b.name == name)


def wait_for_budget(lab: Lab, name: str, disruptions_allowed: int) -> None:
    def current() -> bool:
        budget = budget_of(lab, name)
        return budget.up_to_date and budget.disruptions_allowed == disruptions_allowed

    lab.eventually(f"{disruptions_allowed} allowed by {name}", current)


def fresh(lab: Lab, ref: PodRef) -> FreshPod:
    look = looked(lab, ref)
    assert look is not None
    return look


def looked(lab: Lab, ref: PodRef, room_on: str = "") -> FreshPod | None:
    (look,) = lab.reader.read_around([PodToRead(ref, room_on)])
    assert not isinstance(look, ObservationError)
    return look


def evict(lab: Lab, pod: Pod) -> EvictionAnswer:
    return lab.evictor.evict(pod.ref, "to see what happens")


def check_placed(
    lab: Lab, name: str, replicas: int, nodes: str, manners: Manners = EASY_GOING
) -> None:
    """A new Deployment's pods come to these nodes, and others of them to none.

    By then the scheduler has looked at all of them.
    """
    lab.add_deployment(name, replicas, 100, manners)
    lab.eventually(f"{replicas} pods of {name}", lambda: len(pods_of(lab, name)) == replicas)
    deploy(lab, f"after-{name}")  # it waits in the same queue

    def are_bound() -> bool:
        return "".join(sorted(pod.node for pod in pods_of(lab, name))) == nodes

    lab.eventually(f"pods of {name} on {nodes or 'no node'}", are_bound)


def node_of_replacement(lab: Lab, app: str, evicted: Pod) -> str:
    """Where the pod lands that replaces the evicted one."""

    def landed() -> list[Pod]:
        return [
            pod
            for pod in pods_of(lab, app)
            if pod.created_at >= evicted.created_at and pod.uid not in known and pod.node
        ]

    known = {pod.uid for pod in pods_of(lab, app)}
    assert evict(lab, evicted).verdict is EvictionVerdict.EVICTED
    lab.eventually(f"a replacement of {evicted.name}", landed)
    return landed()[0].node


class ClusterContract:
    """Inherited by a class with the fixture `lab`."""

    # Reading

    def test_the_workload_of_a_pod_is_its_deployment(self, lab: Lab) -> None:
        lab.add_node("a")
        pod = deploy(lab, "web", 2)[0]
        workload = lab.reader.read_cluster().workload_of(pod)
        assert workload is not None
        assert (workload.kind, workload.name, workload.desired_replicas) == ("Deployment", "web", 2)
        assert not workload.rolling_out

    def test_a_workload_says_how_many_of_its_pods_are_ready(self, lab: Lab) -> None:
        lab.add_node("a")
        evicted, _ = deploy(lab, "web", 2)

        def ready() -> int | None:
            cluster = lab.reader.read_cluster()
            workload = next(w for w in cluster.workloads.values() if w.name == "web")
            return workload.ready_replicas

        lab.eventually("both are told", lambda: ready() == 2)
        lab.cordon("a")  # so that the replacement has to wait
        evict(lab, evicted)
        lab.eventually("one is told", lambda: ready() == 1)

    def test_a_controllers_selector_selects_its_own_pods(self, lab: Lab) -> None:
        lab.add_node("a")
        web, other = deploy(lab, "web")[0], deploy(lab, "other")[0]
        assert web.owner is not None
        selector = lab.reader.read_cluster().controller_selectors[web.namespace, web.owner.uid]
        assert selector.matches(web.labels)
        assert not selector.matches(other.labels)

    def test_a_pod_that_fits_nowhere_is_seen_pending(self, lab: Lab) -> None:
        lab.add_node("a")
        lab.add_deployment("huge", 1, 5000)
        lab.eventually("the pod", lambda: pods_of(lab, "huge"))
        pod = pods_of(lab, "huge")[0]
        assert (pod.node, pod.phase, pod.ready) == ("", "Pending", False)
        assert pod.scheduling.requests.cpu_millicores == 5000

    def test_a_fresh_look_tells_of_a_pod_what_the_whole_cluster_does(self, lab: Lab) -> None:
        lab.add_node("a")
        lab.add_node("b")
        pod = deploy(lab, "web", 2, on="a")[0]
        deploy(lab, "other")
        lab.add_budget("guard", "web", minAvailable=1)
        lab.add_budget("of-others", "other", maxUnavailable=1)
        wait_for_budget(lab, "guard", 1)
        wait_for_budget(lab, "of-others", 1)

        def settled() -> bool:
            workload = lab.reader.read_cluster().workload_of(pod)
            return workload is not None and workload.ready_replicas == 2

        lab.eventually("both are told as Ready", settled)
        cluster = lab.reader.read_cluster()
        look = looked(lab, pod.ref)
        assert look is not None
        assert (look.pod.ref, look.pod.node, look.pod.ready) == (pod.ref, "a", True)
        assert look.pod == next(p for p in cluster.pods if p.uid == pod.uid)
        assert look.node is not None
        assert (look.node.name, look.node.uid) == ("a", cluster.node_by_name["a"].uid)
        assert look.workload == cluster.workload_of(pod)
        assert look.controller_owner is None
        assert set(look.charged) == set(cluster.budgets_of(pod))
        assert sorted(budget.name for budget in look.budgets) == ["guard", "of-others"]

    def test_a_fresh_look_shows_what_has_just_changed(self, lab: Lab) -> None:
        lab.add_node("a")
        first, second = deploy(lab, "web", 2)
        lab.add_budget("guard", "web", minAvailable=1)
        wait_for_budget(lab, "guard", 1)
        lab.cordon("a")  # so that the replacement has to wait
        assert evict(lab, first).verdict is EvictionVerdict.EVICTED
        look = fresh(lab, second.ref)
        assert look.node is not None
        assert look.node.unschedulable
        assert [budget.disruptions_allowed for budget in look.charged] == [0]

        def ready() -> int | None:
            workload = fresh(lab, second.ref).workload
            return workload.ready_replicas if workload else None

        lab.eventually("one of two is told as Ready", lambda: ready() == 1)

    def test_a_fresh_look_shows_another_node_with_the_pods_on_it(self, lab: Lab) -> None:
        lab.add_node("a")
        lab.add_node("b")
        there = deploy(lab, "db", 2, on="b")
        (pod,) = deploy(lab, "web", on="a")
        look = looked(lab, pod.ref, "b")
        assert look is not None
        assert look.room is not None
        assert look.room.node == lab.reader.read_cluster().node_by_name["b"]
        found = {p.uid for p in look.room.pods if p.namespace == lab.namespace}
        assert found == {p.uid for p in there}
        assert fresh(lab, pod.ref).room is None
        gone = looked(lab, pod.ref, "nowhere")
        assert gone is not None
        assert gone.room is None

    def test_of_a_pod_that_does_not_exist_there_is_nothing_to_see(self, lab: Lab) -> None:
        assert looked(lab, PodRef(lab.namespace, "nobody")) is None

    @pytest.mark.parametrize(
        ("spec", "allowed"),
        [
            ({"minAvailable": 2}, 1),
            ({"minAvailable": "50%"}, 1),
            ({"minAvailable": 3}, 0),
            ({"maxUnavailable": 1}, 1),
            ({"maxUnavailable": "50%"}, 2),
            ({"maxUnavailable": 0}, 0),
        ],
    )
    def test_a_budget_over_three_ready_pods_allows(
        self, lab: Lab, spec: dict[str, int | str], allowed: int
    ) -> None:
        lab.add_node("a")
        pod = deploy(lab, "web", 3)[0]
        lab.add_budget("guard", "web", **spec)
        wait_for_budget(lab, "guard", allowed)
        assert [b.name for b in lab.reader.read_cluster().budgets_of(pod)] == ["guard"]

    # Evicting

    def test_an_accepted_eviction_ends_the_pod_and_another_takes_its_place(self, lab: Lab) -> None:
        lab.add_node("a")
        pod = deploy(lab, "web")[0]
        assert evict(lab, pod).verdict is EvictionVerdict.EVICTED
        leaving = looked(lab, pod.ref)
        assert leaving is None or leaving.pod.deleting
        lab.eventually("the pod is gone", lambda: looked(lab, pod.ref) is None)
        wait_until_ready(lab, "web", 1)
        assert pods_of(lab, "web")[0].uid != pod.uid

    def test_an_exhausted_budget_blocks(self, lab: Lab) -> None:
        lab.add_node("a")
        pod = deploy(lab, "web", 2)[0]
        lab.add_budget("guard", "web", minAvailable=2)
        wait_for_budget(lab, "guard", 0)
        answer = evict(lab, pod)
        assert answer.verdict is EvictionVerdict.BLOCKED_BY_BUDGET
        assert "guard" in answer.detail
        wait_until_ready(lab, "web", 2)
        assert pod.uid in {p.uid for p in pods_of(lab, "web")}

    def test_a_budget_is_spent_until_the_replacement_is_ready(self, lab: Lab) -> None:
        lab.add_node("a")
        first, second, _ = deploy(lab, "web", 3)
        lab.add_budget("guard", "web", minAvailable=2)
        wait_for_budget(lab, "guard", 1)
        lab.cordon("a")  # so that the replacement has to wait
        assert evict(lab, first).verdict is EvictionVerdict.EVICTED
        assert evict(lab, second).verdict is EvictionVerdict.BLOCKED_BY_BUDGET
        lab.cordon("a", on=False)
        wait_for_budget(lab, "guard", 1)
        assert evict(lab, second).verdict is EvictionVerdict.EVICTED

    def test_a_pod_under_two_budgets_is_not_evicted(self, lab: Lab) -> None:
        lab.add_node("a")
        pod = deploy(lab, "web", 2)[0]
        for name in ("one", "two"):
            lab.add_budget(name, "web", minAvailable=1)
            wait_for_budget(lab, name, 1)
        assert evict(lab, pod).verdict is EvictionVerdict.SEVERAL_BUDGETS
        assert pod.uid in {p.uid for p in pods_of(lab, "web")}

    def test_what_an_eviction_would_be_answered_changes_nothing(self, lab: Lab) -> None:
        lab.add_node("a")
        pods = deploy(lab, "web", 3)
        lab.add_budget("guard", "web", minAvailable=2)
        wait_for_budget(lab, "guard", 1)
        for pod in (*pods, *pods):
            answer = lab.evictor.would_evict(pod.ref, "to see what happens")
            assert answer.verdict is EvictionVerdict.EVICTED
        assert budget_of(lab, "guard").disruptions_allowed == 1
        assert {p.uid for p in pods_of(lab, "web")} == {pod.uid for pod in pods}
        other = PodRef(lab.namespace, pods[0].name, "the-uid-of-one-before-it")
        assert lab.evictor.would_evict(other, "").verdict is EvictionVerdict.REPLACED
        lab.cordon("a")  # so that the replacement has to wait
        assert evict(lab, pods[0]).verdict is EvictionVerdict.EVICTED
        blocked = lab.evictor.would_evict(pods[1].ref, "to see what happens")
        assert blocked.verdict is EvictionVerdict.BLOCKED_BY_BUDGET
        assert "guard" in blocked.detail

    def test_a_pod_that_is_gone_is_told_as_gone(self, lab: Lab) -> None:
        answer = lab.evictor.evict(PodRef(lab.namespace, "nobody", "some-uid"), "")
        assert answer.verdict is EvictionVerdict.GONE

    def test_a_later_pod_of_the_same_name_is_left_alone(self, lab: Lab) -> None:
        lab.add_node("a")
        pod = deploy(lab, "web")[0]
        before_it = PodRef(pod.namespace, pod.name, "the-uid-of-one-before-it")
        assert lab.evictor.evict(before_it, "").verdict is EvictionVerdict.REPLACED
        assert [p.uid for p in pods_of(lab, "web")] == [pod.uid]

    # Where pods land

    def test_the_emptier_node_wins(self, lab: Lab) -> None:
        lab.add_node("a")
        lab.add_node("b")
        deploy(lab, "filler", on="a", cpu_millicores=2000)
        assert deploy(lab, "web")[0].node == "b"

    def test_a_cordoned_node_gets_nothing(self, lab: Lab) -> None:
        lab.add_node("a")
        lab.add_node("b")
        deploy(lab, "filler", on="a", cpu_millicores=2000)
        lab.cordon("b")
        assert deploy(lab, "web")[0].node == "a"

    def test_a_node_whose_requests_are_taken_gets_nothing_more(self, lab: Lab) -> None:
        lab.add_node("a")
        deploy(lab, "filler", cpu_millicores=3950)
        lab.add_deployment("web", 1, 100)
        lab.eventually("the pod", lambda: pods_of(lab, "web"))
        assert pods_of(lab, "web")[0].node == ""
        lab.add_node("b")
        wait_until_ready(lab, "web", 1)
        assert pods_of(lab, "web")[0].node == "b"

    def test_spreading_over_nodes_outweighs_a_small_difference_in_requests(self, lab: Lab) -> None:
        lab.add_node("a")
        lab.add_node("b")
        deploy(lab, "filler", on="b", cpu_millicores=1000)
        evicted = deploy(lab, "web", 3, on="a")[0]
        assert node_of_replacement(lab, "web", evicted) == "b"

    def test_spreading_over_zones_outweighs_a_small_difference_in_requests(self, lab: Lab) -> None:
        lab.add_node("a", zone="east")
        lab.add_node("b", zone="east")
        lab.add_node("c", zone="west")
        deploy(lab, "filler", on="c", cpu_millicores=400)
        evicted = deploy(lab, "web", 3, on="a")[0]
        assert node_of_replacement(lab, "web", evicted) == "c"

    def test_a_soft_taint_outweighs_a_large_difference_in_requests(self, lab: Lab) -> None:
        lab.add_node("a", soft_taint=True)
        lab.add_node("b")
        deploy(lab, "filler", on="b", cpu_millicores=3000)
        assert deploy(lab, "web")[0].node == "b"

    def test_a_soft_taint_yields_where_nothing_else_fits(self, lab: Lab) -> None:
        lab.add_node("a", soft_taint=True)
        lab.add_node("b")
        deploy(lab, "filler", on="b", cpu_millicores=3950)
        assert deploy(lab, "web")[0].node == "a"

    def test_anti_affinity_keeps_the_pods_of_a_workload_apart(self, lab: Lab) -> None:
        for name in "abc":
            lab.add_node(name)
        check_placed(lab, "web", 4, "abc", Manners(apart_by="kubernetes.io/hostname"))

    def test_anti_affinity_of_a_pod_keeps_away_whom_it_does_not_want(self, lab: Lab) -> None:
        for name, zone in {"a": "east", "b": "east", "c": "west"}.items():
            lab.add_node(name, zone=zone)
        deploy(lab, "hermit", on="a", manners=Manners(apart_by=ZONE_LABEL, apart_from="web"))
        deploy(lab, "filler", on="c", cpu_millicores=3000)
        check_placed(lab, "web", 1, "c")

    def test_affinity_outweighs_everything(self, lab: Lab) -> None:
        for name, zone in {"a": "east", "b": "east", "c": "west"}.items():
            lab.add_node(name, zone=zone)
        deploy(lab, "hub", on="a", cpu_millicores=2000)
        deploy(lab, "filler", on="b", cpu_millicores=3000)
        check_placed(lab, "web", 1, "a", Manners(near="hub"))

    def test_affinity_to_pods_that_are_nowhere_fits_nowhere_except_for_their_first(
        self, lab: Lab
    ) -> None:
        lab.add_node("a", zone="east")
        check_placed(lab, "lonely", 1, "", Manners(near="nobody"))
        check_placed(lab, "first", 2, "aa", Manners(near="first"))

    def test_a_hard_spread_leaves_pods_pending_that_would_skew_it(self, lab: Lab) -> None:
        lab.add_node("a", zone="east")
        lab.add_node("b", zone="west")
        lab.cordon("b")  # its zone counts all the same: taints are not looked at
        check_placed(lab, "web", 3, "a", Manners(even_by=ZONE_LABEL))

    def test_a_host_port_is_given_once_on_each_node(self, lab: Lab) -> None:
        lab.add_node("a")
        lab.add_node("b")
        check_placed(lab, "edge", 3, "ab", Manners(host_port=8080))

    @pytest.mark.parametrize(
        ("manners", "node"),
        [
            (Manners(), "b"),
            (Manners(likes_zone="east"), "a"),
            (Manners(drawn_to="hub"), "a"),
            (Manners(pushed_from="nook"), "a"),
        ],
    )
    def test_wishes_outweigh_a_difference_in_requests(
        self, lab: Lab, manners: Manners, node: str
    ) -> None:
        lab.add_node("a", zone="east")
        lab.add_node("b", zone="west")
        deploy(lab, "hub", on="a", cpu_millicores=1500)
        deploy(lab, "nook", on="b")
        assert deploy(lab, "web", manners=manners)[0].node == node

    def test_a_soft_spread_of_its_own_outweighs_a_difference_in_requests(self, lab: Lab) -> None:
        for name, zone in {"a": "east", "b": "east", "c": "west"}.items():
            lab.add_node(name, zone=zone)
        deploy(lab, "filler", on="c", cpu_millicores=2800)
        spread = deploy(lab, "web", 2, manners=Manners(even_by=ZONE_LABEL, hard=False))
        assert {pod.node for pod in spread} in ({"a", "c"}, {"b", "c"})
        by_default = deploy(lab, "plain", 2)
        assert {pod.node for pod in by_default} == {"a", "b"}

    @pytest.mark.parametrize(
        "deployments",
        [
            (
                ("u", 2, 50, "ee"),
                ("v", 4, 100, "adee"),
                ("w", 1, 250, "e"),
                ("x", 6, 350, "abdeee"),
            ),
            (
                ("u", 1, 100, "e"),
                ("v", 6, 250, "abdeee"),
                ("w", 2, 350, "ee"),
                ("x", 6, 100, "abdeee"),
            ),
            (("u", 3, 500, "aee"), ("v", 6, 150, "abdeee"), ("w", 4, 150, "bdee")),
        ],
    )
    def test_requests_spread_and_zones_are_weighed_against_each_other(
        self, lab: Lab, deployments: tuple[tuple[str, int, int, str], ...]
    ) -> None:
        """The figures are such that no two nodes come near a tie; `e` is in no zone."""
        zones = {"a": "east", "b": "east", "c": "west", "d": "west", "e": ""}
        for name, zone in zones.items():
            lab.add_node(name, zone=zone)
        for name, cpu_millicores in {"a": 300, "b": 700, "c": 1200, "d": 400, "e": 900}.items():
            deploy(lab, f"filler-{name}", on=name, cpu_millicores=cpu_millicores)
        for name, replicas, cpu_millicores, nodes in deployments:
            pods = deploy(lab, name, replicas, cpu_millicores=cpu_millicores)
            assert "".join(sorted(pod.node for pod in pods)) == nodes
