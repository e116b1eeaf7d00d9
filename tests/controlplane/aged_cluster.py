"""A real API server with a chosen load, whose first objects seem to be an hour older."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.model.cluster import ClusterState, Node, Pod
from desched.model.load import ClusterLoad, PodUsage
from desched.model.report import CycleReport, Mode
from desched.model.snapshot import FreshPod, Room
from desched.model.state import State
from desched.policy.policy import Policy
from desched.ports import ChoosePods, MaybeFreshPod, PodToRead, World, all_pods
from desched.service.process.clock import SystemClock
from tests.builders import load

Aged = TypeVar("Aged", Pod, Node)

AN_HOUR = timedelta(hours=1)


class AgedCluster:
    """The ports of a cycle, with a chosen load.

    What is there at first seems to be an hour older.
    """

    def __init__(self, account: Path, namespace: str, by: Policy) -> None:
        connection = connect(account, None)
        self._reader = KubernetesReader(connection)
        self._namespace = namespace
        self._by = by
        self._steerer = KubernetesSteerer(connection)
        self._clock = SystemClock()
        self.evictor = KubernetesEvictor(connection, EventWriter(connection, self._clock))
        self.ratios: Mapping[str, float] = {}
        self.state = State()
        self.cycles = 0
        self._first: set[str] = set()

    def members(self) -> list[Pod]:
        pods = self.read_cluster().pods
        return sorted((p for p in pods if p.namespace == self._namespace), key=lambda p: p.name)

    def is_settled(self) -> bool:
        """Whether all controllers have noticed that their pods are Ready."""
        return all(
            each.ready_replicas == each.desired_replicas
            and not each.rolling_out
            and not each.scaling
            for each in self.read_cluster().workloads.values()
        )

    def cycle(self) -> CycleReport:
        world = World(self, self, self._clock, self.evictor, steerer=self._steerer)
        info = CycleInfo(1, Mode.EVICT, "test", taints_last_seconds=AN_HOUR.total_seconds())
        report, _ = run_cycle(world, self._by, self.state, info)
        self.state = report.state
        self.cycles += 1
        return report

    def read_cluster(self, *named: Sequence[str]) -> ClusterState:
        found = self._reader.read_cluster(*named)
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
