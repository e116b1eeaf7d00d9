"""A gang on a real API server leaves as one, with the shipped rights, or not at all."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import ClusterLoad, PodUsage
from desched.model.report import CycleReport, EvictionVerdict, Mode
from desched.model.snapshot import FreshPod, Room
from desched.model.state import SUCCESSES, State
from desched.policy.compatibility import GangMode
from desched.policy.policy import Policy
from desched.ports import ChoosePods, MaybeFreshPod, PodToRead, World, all_pods
from desched.service.process.clock import SystemClock
from tests.builders import load, policy, rule
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.installation import DEPLOY
from tests.controlplane.manifests import VOLCANO_GROUPS, Object, deployment, volcano_group
from tests.controlplane.test_deploy import install

Aged = TypeVar("Aged", Pod, Node)

SIZE = 4
AN_HOUR = timedelta(hours=1)
BY = policy(rule(), gang_mode=GangMode.WHOLE)


class Cluster:
    """The ports of a cycle, with a chosen load.

    What is there at first seems to be an hour older.
    """

    def __init__(self, account: Path, namespace: str) -> None:
        connection = connect(account, None)
        self._reader = KubernetesReader(connection)
        self._namespace = namespace
        self._clock = SystemClock()
        self.evictor = KubernetesEvictor(connection, EventWriter(connection, self._clock))
        self.ratios: Mapping[str, float] = {}
        self.state = State()
        self.cycles = 0
        self._first: set[str] = set()

    def members(self) -> list[Pod]:
        pods = self.read_cluster().pods
        return sorted((p for p in pods if p.namespace == self._namespace), key=lambda p: p.name)

    def cycle(self) -> CycleReport:
        world = World(self, self, self._clock, self.evictor)
        info = CycleInfo(1, Mode.EVICT, "test")
        report, _ = run_cycle(world, BY, self.state, info)
        self.state = report.state
        self.cycles += 1
        return report

    def read_cluster(self, declared_kinds: Sequence[str] = ()) -> ClusterState:
        found = self._reader.read_cluster(declared_kinds)
        return replace(found, pods=self._older(found.pods), nodes=self._older(found.nodes))

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        return [
            replace(
                look,
                pod=self._older([look.pod])[0],
                siblings=self._older(look.siblings),
                node=self._older([look.node])[0] if look.node else None,
                room=Room(self._older([look.room.node])[0], look.room.pods) if look.room else None,
            )
            if isinstance(look, FreshPod)
            else look
            for look in self._reader.read_around(pods)
        ]

    def _older(self, found: Iterable[Aged]) -> tuple[Aged, ...]:
        """All that was there before the first cycle began an hour earlier."""
        first = {each.uid for each in found} if self.cycles == 0 else self._first
        self._first |= first
        return tuple(_older(each) if each.uid in first else each for each in found)

    def read_load(
        self,
        cluster: ClusterState,
        policy: Policy,  # noqa: ARG002 (port)
        choose: ChoosePods = all_pods,  # noqa: ARG002 (port)
    ) -> ClusterLoad:
        usage = {(p.namespace, p.name): PodUsage((2000.0,), (2.0**28,)) for p in cluster.pods}
        return replace(load({n: (ratio, 0.1) for n, ratio in self.ratios.items()}), pods=usage)


def _older(found: Aged) -> Aged:
    times = ("created_at", "started_at")
    earlier = {name: at - AN_HOUR for name in times if (at := getattr(found, name, None))}
    return replace(found, **earlier)


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Cluster:
    """Four ranks on a node each, of which one is overloaded, and two idle nodes."""
    nodes = [f"te{i}" for i in range(1, 7)]
    control_plane.add_node(*nodes)
    install(control_plane, "overlays/evict-without-steering")
    control_plane.serve(VOLCANO_GROUPS)
    control_plane.apply((DEPLOY / "pod-groups" / "volcano.yaml").read_text())
    namespace = control_plane.create_namespace()
    ranks = deployment("llama", SIZE, "2", namespace, cpu_request="2500m")
    marks = ranks["spec"]["template"]["metadata"]["annotations"]
    marks["scheduling.k8s.io/group-name"] = "llama"
    control_plane.apply(volcano_group(namespace, "llama", SIZE), ranks)
    control_plane.wait_for_ready_pods(namespace, SIZE, "app=llama")
    found = Cluster(control_plane.kubeconfig_for("desched-system", "desched"), namespace)
    on = [pod.node for pod in found.members()]
    found.ratios = dict.fromkeys(nodes, 0.1) | dict.fromkeys(on, 0.5) | {on[0]: 0.95}
    return found


def test_a_gang_leaves_as_one_and_is_followed_up_as_one(
    control_plane: ControlPlane, cluster: Cluster
) -> None:
    before = cluster.members()
    report = cluster.cycle()
    assert [o.verdict for o in report.outcomes] == [EvictionVerdict.EVICTED] * SIZE, report.plan
    namespace = before[0].namespace
    assert {e.gang for e in report.plan.evictions} == {f"gang {namespace}/llama (Volcano)"}
    assert len(report.state.in_flight) == SIZE

    old = {pod.uid for pod in before}

    def replaced() -> bool:
        now = cluster.members()
        return len(now) == SIZE and all(p.ready and p.uid not in old for p in now)

    control_plane.wait_for("another pod for each", replaced)
    cluster.ratios = dict.fromkeys(cluster.ratios, 0.3)
    settled = cluster.cycle().settled
    assert len(settled) == SIZE
    assert {record.result for record in settled} <= SUCCESSES


def refusing(pod: str) -> list[Object]:
    """An admission policy that forbids the eviction of this pod, dry or not."""
    name = {"name": "no-eviction"}
    rules = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    return [
        kind
        | {
            "kind": "ValidatingAdmissionPolicy",
            "metadata": name,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rules]},
                "validations": [
                    {"expression": f"request.name != '{pod}'", "message": "it saves its work"}
                ],
            },
        },
        kind
        | {
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": name,
            "spec": {"policyName": name["name"], "validationActions": ["Deny"]},
        },
    ]


def test_no_pod_leaves_if_admission_refuses_one(
    control_plane: ControlPlane, cluster: Cluster
) -> None:
    before = cluster.members()
    third = before[2]
    control_plane.apply(*refusing(third.name))

    def refused() -> bool:
        answer = cluster.evictor.would_evict(third.ref, "to see whether the policy holds")
        return answer.verdict is EvictionVerdict.FORBIDDEN

    control_plane.wait_for("the admission policy holds", refused)
    report = cluster.cycle()
    verdicts = {outcome.pod.name: outcome.verdict for outcome in report.outcomes}
    assert verdicts.pop(third.name) is EvictionVerdict.FORBIDDEN
    assert [*verdicts.values()] == [EvictionVerdict.NOT_CONFIRMED] * (SIZE - 1)
    assert all("it saves its work" in outcome.detail for outcome in report.outcomes)
    assert report.state.in_flight == ()
    now = cluster.members()
    assert [(pod.uid, pod.deleting) for pod in now] == [(pod.uid, False) for pod in before]
