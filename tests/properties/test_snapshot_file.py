"""A snapshot file gives the plan of the live run, without what the plan does not need."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from desched.decision import decide
from desched.errors import ConfigurationError
from desched.lab.clock import VirtualClock
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.plan import Plan
from desched.model.snapshot import Snapshot
from desched.observation import observe
from desched.policy.policy import Policy
from desched.policy_file.loading import parse_policy
from desched.ports import ChoosePods, MaybeFreshPod, World, all_pods
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.document import decode, encode
from desched.snapshot_file.load_check import own_policy
from desched.snapshot_file.report import report_of
from desched.snapshot_file.taken import Redaction, take_snapshot
from desched.views.explained.explain import explain
from desched.views.explained.subject import Subject, SubjectKind
from desched.views.explanation import explanation_blocks
from desched.views.rendering import rendered
from tests.builders import NOW
from tests.properties.mutations import mutated
from tests.properties.outputs import every_output, harmless
from tests.properties.rich_clusters import HIDDEN, MARK, POLICY, RichCluster
from tests.shown import text_of

slow = settings(deadline=None, suppress_health_check=list(HealthCheck))
seeds = st.integers(0, 10**6)
KEPT = Redaction()
BY = parse_policy(*POLICY).policy


class Live:
    """A cluster that is read, and that only looks."""

    def __init__(self, seed: int) -> None:
        cluster = RichCluster(seed)
        self.seen, self.state = cluster.snapshot(), cluster.state()
        self.world = World(self, self, VirtualClock(NOW), None)

    def read_cluster(self, *_: Sequence[str]) -> ClusterState:
        return self.seen.cluster

    def read_around(self, *_: object) -> Sequence[MaybeFreshPod]:
        raise AssertionError("a snapshot looks at no single pod")

    def read_load(
        self,
        cluster: ClusterState,  # noqa: ARG002 (port)
        policy: Policy,  # noqa: ARG002 (port)
        choose: ChoosePods = all_pods,  # noqa: ARG002 (port)
    ) -> ClusterLoad:
        return self.seen.load

    def plan(self) -> Plan:
        return decide(observe(self.world, BY), BY, self.state).plan

    def taken(self, redaction: Redaction = KEPT) -> SnapshotContent:
        return take_snapshot(self.world, POLICY, self.state, "test", redaction)


def planned(content: SnapshotContent) -> Plan:
    return report_of(content, own_policy(content, "file"), VirtualClock(NOW)).plan


def test_the_clusters_have_something_to_decide() -> None:
    plans = [Live(seed).plan() for seed in range(90)]

    assert sum(bool(plan.evictions) for plan in plans) > 10
    assert len({refusal.reason for plan in plans for refusal in plan.refusals}) > 12
    assert sum(plan.hold is not None for plan in plans) < 30


@slow
@given(seeds)
def test_a_file_gives_the_plan_of_the_live_run(seed: int) -> None:
    live = Live(seed)

    text = encode(live.taken())

    assert planned(decode(text, "file")) == live.plan()
    assert MARK not in text.decode()


@slow
@given(seeds)
def test_reading_and_writing_a_file_changes_nothing(seed: int) -> None:
    content = Live(seed).taken(Redaction(all_labels=True))

    again = decode(encode(content), "file")

    assert again == content
    assert encode(again) == encode(content)


def shape(plan: Plan, seen: Snapshot) -> object:
    """The plan with positions in place of names, and without texts."""
    nodes = {node.name: i for i, node in enumerate(seen.cluster.nodes)}
    pods = {pod.ref: i for i, pod in enumerate(seen.cluster.pods)}
    return (
        plan.hold,
        {nodes[v.node]: (v.node_class, v.reason, v.pressures, v.pool) for v in plan.nodes},
        [
            (
                pods[e.pod],
                nodes[e.node],
                nodes[e.expected_node],
                [(nodes[chance.node], chance.probability) for chance in e.landing],
                [nodes[name] for name in e.steered],
                (e.cost, e.landing_risk, e.relief, e.destinations, e.probe, e.priority),
            )
            for e in plan.evictions
        ],
        {pods[refusal.pod]: refusal.reason for refusal in plan.refusals},
        [nodes[taint.node] for taint in plan.taints],
    )


@slow
@given(seeds)
def test_new_names_change_nothing_but_names(seed: int) -> None:
    live = Live(seed)

    text = encode(live.taken(Redaction(hash_names=True)))
    content = decode(text, "file")

    assert shape(planned(content), content.snapshot) == shape(live.plan(), live.seen)
    assert HIDDEN not in text.decode().replace('"acme-red"', "")
    assert MARK not in text.decode()
    assert "bob" not in text.decode()


@slow
@given(seeds)
def test_all_labels_can_be_kept(seed: int) -> None:
    live = Live(seed)

    content = live.taken(Redaction(all_labels=True))

    assert planned(content) == live.plan()
    assert [pod.labels for pod in content.snapshot.cluster.pods] == [
        pod.labels for pod in live.seen.cluster.pods
    ]


DOCUMENTS = [json.loads(encode(Live(seed).taken())) for seed in range(8)]


@slow
@given(st.sampled_from(DOCUMENTS).flatmap(mutated))
def test_a_damaged_file_gives_a_report_or_an_error_of_desched(document: Any) -> None:
    with suppress(ConfigurationError):
        content = decode(msgspec.json.encode(document), "hostile.gz")
        policy = own_policy(content, "hostile.gz")
        every_output(report_of(content, policy, VirtualClock(NOW)))
        decision = decide(content.snapshot, policy, content.state)
        for pod in content.snapshot.cluster.pods[:5]:
            with suppress(ConfigurationError):  # two objects may have one name now
                subject = Subject(SubjectKind.POD, pod.name, pod.namespace)
                harmless(text_of(explanation_blocks(explain(subject, decision, "file"))))
        for node in content.snapshot.cluster.nodes:
            subject = Subject(SubjectKind.NODE, node.name)
            harmless(rendered(explain(subject, decision, "file"), (), "json"))
