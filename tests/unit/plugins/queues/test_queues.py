"""Pods whose replacement waits in a queue again stay while others could take their share."""

from typing import Any

import msgspec
import pytest

from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.model.cluster import Pod
from desched.model.snapshot import FreshPod
from desched.planning.eligibility.rules import refuse
from desched.plugins.queues.keys import QueueMode
from desched.plugins.queues.objects import KAI_QUEUE, MANAGED, QUEUE_NAME, Queue, QueueObjects
from desched.plugins.queues.plugin import Queues
from desched.plugins.queues.rule import requeued
from tests.builders import NOW, house, load, node, planned, pod, snapshot, workload
from tests.unit.planning.eligibility.candidate import Candidate

OF_KUEUE = {MANAGED: "true", QUEUE_NAME: "main"}
LOCAL = Queue("Kueue", "apps", "main", cluster_queue="team-a")
SHARED = Queue("Kueue", "", "team-a")

GROUP_NAME = "scheduling.k8s.io/group-name"
IN_GROUP: dict[str, Any] = {"annotations": {GROUP_NAME: "podgroup-web"}, "scheduler": "volcano"}
OWN = DeclaredGroup("Volcano", "apps", "podgroup-web", 1, queue="research")
OTHER = DeclaredGroup("Volcano", "train", "llama", 8, queue="research", waits=True)
RESEARCH = Queue("Volcano", "", "research")


def kueue(*queues: Queue, labels: dict[str, str] = OF_KUEUE, **fields: Any) -> Candidate:
    one = Candidate(labels={"app": "web"} | labels, **fields)
    one.cluster = {"extras": QueueObjects(queues).extras}
    return one


def volcano(*queues: Queue, groups: tuple[DeclaredGroup, ...] = (OWN,), **fields: Any) -> Candidate:
    one = Candidate(**(IN_GROUP | fields))
    one.cluster = {"extras": {**QueueObjects(queues).extras, **GangObjects(groups).extras}}
    return one


def told(one: Candidate) -> str:
    """What the plan says of the replacement."""
    context = one.context()
    return requeued(context.cluster.pods[0], context)


def test_a_pod_that_kueue_admitted_stays_while_a_workload_waits() -> None:
    """kueue pkg/controller/jobs/pod/pod_controller.go:1201-1207: a Workload for each pod."""
    waiting = msgspec.structs.replace(SHARED, waiting=3)
    assert kueue(LOCAL, waiting).finding() == (
        "queue_busy",
        "ClusterQueue team-a (Kueue): 3 Workloads wait there",
    )


def test_it_moves_while_nothing_waits_and_the_plan_has_its_queue() -> None:
    one = kueue(LOCAL, SHARED)
    assert one.reason is None
    assert told(one) == (
        "its replacement waits again in ClusterQueue team-a (Kueue), where nothing else waits now"
    )


@pytest.mark.parametrize("which", [LOCAL, SHARED])
def test_a_queue_that_admits_nothing_keeps_its_pods(which: Queue) -> None:
    """Its replacement would stay gated, and nobody else gets the share."""
    stopped = msgspec.structs.replace(which, closed="it admits nothing (Stopped)")
    found = kueue(*(stopped if each == which else each for each in (LOCAL, SHARED))).finding()
    assert found is not None
    assert found[0] == "queue_busy"
    assert found[1].endswith("it admits nothing (Stopped)")


UNCLEAR = "it cannot be read: no JSON"


@pytest.mark.parametrize(
    "queues",
    [
        (SHARED,),  # no LocalQueue
        (LOCAL,),  # no ClusterQueue
        (msgspec.structs.replace(LOCAL, unclear=UNCLEAR), SHARED),
        (LOCAL, msgspec.structs.replace(SHARED, unclear=UNCLEAR)),
        (msgspec.structs.replace(LOCAL, namespace="other"), SHARED),
    ],
)
def test_what_waits_is_unknown_if_a_queue_of_the_pod_was_not_read(
    queues: tuple[Queue, ...],
) -> None:
    """X4: some queues were read, so desched may read them."""
    assert kueue(*queues).reason == "queue_unknown"


def test_a_pod_without_the_name_of_its_queue_stays() -> None:
    assert kueue(LOCAL, SHARED, labels={MANAGED: "true"}).finding() == (
        "queue_unknown",
        "a queue of Kueue: no label names it",
    )


def test_without_the_right_pods_move_as_before_and_the_plan_says_what_is_not_read() -> None:
    one = kueue()
    assert one.reason is None
    assert "waits again in LocalQueue apps/main (Kueue); desched does not read" in told(one)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {QUEUE_NAME: "main"},  # of a Job, whose Workload it shares
        OF_KUEUE | {"kueue.x-k8s.io/pod-group-name": "web"},  # as of a StatefulSet
    ],
)
def test_pods_that_share_a_workload_do_not_wait_again(labels: dict[str, str]) -> None:
    """kueue pkg/controller/jobs/pod/pod_controller.go:381, 1371-1377."""
    one = kueue(LOCAL, msgspec.structs.replace(SHARED, waiting=3), RESEARCH, labels=labels)
    if "kueue.x-k8s.io/pod-group-name" in labels:
        one.annotate("kueue.x-k8s.io/pod-group-total-count", "1")
    assert one.reason is None
    assert told(one) == ""


def test_only_pods_of_the_same_queue_stay() -> None:
    """A tenant who keeps Workloads waiting stops nobody else."""
    busy = msgspec.structs.replace(SHARED, waiting=1_000)
    other = Queue("Kueue", "apps", "other", cluster_queue="team-b")
    queues = LOCAL, busy, other, Queue("Kueue", "", "team-b")
    assert kueue(*queues).reason == "queue_busy"
    assert kueue(*queues, labels=OF_KUEUE | {QUEUE_NAME: "other"}).reason is None
    assert kueue(*queues, labels={}).reason is None


def test_the_policy_can_ignore_queues() -> None:
    one = kueue(LOCAL, msgspec.structs.replace(SHARED, waiting=3))
    context = one.context()
    policy = msgspec.structs.replace(context.policy, plugins=house(Queues(QueueMode.IGNORE)))
    terms = msgspec.structs.replace(context.terms, policy=policy)
    ignoring = msgspec.structs.replace(context, terms=terms)
    the_pod = context.cluster.pods[0]
    assert refuse(the_pod, context) is not None
    assert refuse(the_pod, ignoring) is None
    assert "others could take its share: 3 Workloads" in requeued(the_pod, ignoring)


def test_a_pod_of_volcano_stays_while_a_group_waits_in_its_queue() -> None:
    """volcano pkg/scheduler/plugins/gang/gang.go:139-161: the replacement comes after it."""
    assert volcano(RESEARCH, groups=(OWN, OTHER)).finding() == (
        "queue_busy",
        "queue research (Volcano): 1 PodGroup waits there: train/llama",
    )
    elsewhere = msgspec.structs.replace(OTHER, queue="sales")
    assert volcano(RESEARCH, groups=(OWN, elsewhere)).reason is None


def test_a_pod_without_a_node_waits_in_the_queue_of_its_group() -> None:
    """Its PodGroup is Running already: pkg/scheduler/framework/session.go:599-606."""
    running = msgspec.structs.replace(OTHER, waits=False)
    pending = pod("llama-9", namespace="train", phase="Pending", annotations={GROUP_NAME: "llama"})
    started = msgspec.structs.replace(pending, node="n2", phase="Running")
    found = []
    for others in (), (pending,), (started,):
        one = volcano(RESEARCH, groups=(OWN, running))
        one.others = others
        found.append(one.reason)
    assert found == [None, "queue_busy", None]


def test_the_default_queue_of_volcano_has_a_name() -> None:
    unnamed = (msgspec.structs.replace(OWN, queue=""), msgspec.structs.replace(OTHER, queue=""))
    found = volcano(Queue("Volcano", "", "default"), groups=unnamed).detail
    assert found == "queue default (Volcano): 1 PodGroup waits there: train/llama"


@pytest.mark.parametrize(
    ("queue", "groups", "why"),
    [
        (Queue("Volcano", "", "default"), (OWN,), "queue research (Volcano): it was not read"),
        (RESEARCH, (), "a queue of Volcano: the PodGroup of the pod was not read"),
    ],
)
def test_what_volcano_does_is_unknown_without_the_queue_or_the_group(
    queue: Queue, groups: tuple[DeclaredGroup, ...], why: str
) -> None:
    assert volcano(queue, groups=groups).finding() == ("queue_unknown", why)


def test_a_queue_of_volcano_that_is_not_open_keeps_its_pods() -> None:
    """volcano pkg/scheduler/plugins/proportion/proportion.go:404-438."""
    closed = msgspec.structs.replace(RESEARCH, closed="it admits nothing (Closed)")
    assert volcano(closed).finding() == (
        "queue_busy",
        "queue research (Volcano): it admits nothing (Closed)",
    )


def test_podgroups_alone_refuse_nothing() -> None:
    """Who may read PodGroups only has no new refusals."""
    assert volcano(groups=(OWN, OTHER)).reason is None


def test_the_queue_of_kai_is_named_and_not_read() -> None:
    one = Candidate(labels={"app": "web", KAI_QUEUE: "team"}, scheduler="kai-scheduler")
    assert one.reason is None
    assert "queue team (KAI); desched does not read what else waits there" in told(one)


def test_a_fresh_look_judges_by_the_queues_of_the_cycle() -> None:
    """Just before an eviction only the groups of the pod itself are read again."""
    one = volcano(RESEARCH, groups=(OWN, OTHER))
    context = one.context()
    the_pod: Pod = context.cluster.pods[0]
    owner = context.cluster.workload_of(the_pod)
    look = FreshPod(the_pod, node("n1"), owner, None, (), extras=GangObjects((OWN,)).extras)
    found = refuse(the_pod, context.with_fresh([look], NOW))
    assert found is not None
    assert found.reason == "queue_busy"


def test_a_plan_has_the_queue_of_each_move() -> None:
    pods = [pod(name, on="hot", labels={"app": "web"} | OF_KUEUE) for name in "ab"]
    used = load({"hot": (0.9, 0.1), "cool": (0.0, 0.0)}, dict.fromkeys("ab", (0.9, 0.1)))
    nodes = [node("hot"), node("cool")]
    seen = snapshot(
        nodes, pods, used, [workload("web", 4)], extras=QueueObjects((LOCAL, SHARED)).extras
    )
    (move,) = planned(seen).evictions
    assert "ClusterQueue team-a (Kueue), where nothing else waits now" in move.queue
