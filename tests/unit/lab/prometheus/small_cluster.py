"""The recordings of a small cluster: two hours in steps of five minutes."""

from collections.abc import Sequence
from datetime import UTC, datetime

from desched.adapters.prometheus.queries import (
    CADVISOR_SCOPE,
    EXPORTER_SCOPE,
    NODE_SOURCES,
    pod_usage,
)
from desched.lab.prometheus.objects import LONG_STEP_SECONDS
from desched.lab.prometheus.queries import KUBE_STATE_SCOPE, KubeState
from desched.model.resources import Resource
from tests.unit.adapters.prometheus.fake_server import FakePrometheus
from tests.unit.lab.prometheus.recording import Recording, Value, between

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
STEP = 300
BEGIN = int(datetime(2026, 5, 1, 8, tzinfo=UTC).timestamp())
END = BEGIN + 2 * 3600
STEPS = 24
GIB = 2**30
OLD = BEGIN - 100_000

STATE = KubeState(KUBE_STATE_SCOPE, LONG_STEP_SECONDS)
EXPORTER_CPU, ROOT_CPU = NODE_SOURCES[Resource.CPU]
NODE_CPU = EXPORTER_CPU.ratio(STEP, EXPORTER_SCOPE)
POD_CPU = pod_usage(Resource.CPU, STEP, CADVISOR_SCOPE)


def at(step: float) -> float:
    return BEGIN + step * STEP


def time(step: float) -> datetime:
    return datetime.fromtimestamp(at(step), UTC)


class SmallCluster(Recording):
    """Nodes a and b with 4 cores and 16 GiB, of which a share is in use."""

    def __init__(self, fake: FakePrometheus, loads: Sequence[float] = (0.5, 0.5)) -> None:
        super().__init__(fake)
        for name, load in zip("ab", loads, strict=True):
            self.add_node(name, load)
        self.add(
            STATE.replica_set_owners(),
            namespace="shop",
            replicaset="web-1",
            owner_kind="Deployment",
            owner_name="web",
        )

    def add_node(self, name: str, load: Value = 0.5, ready: Value = 1.0) -> None:
        for query in (STATE.node_capacity(), STATE.node_allocatable()):
            self.add(query, 4, node=name, resource="cpu")
            self.add(query, 16 * GIB, node=name, resource="memory")
            self.add(query, 110, node=name, resource="pods")
            self.add(query, 8, node=name, resource="nvidia_com_gpu")
        self.add(STATE.node_info(), node=name, internal_ip=f"10.0.0.{ord(name)}")
        self.add(STATE.node_created(), OLD, node=name)
        self.add(STATE.node_ready(), ready, node=name)
        self.add(NODE_CPU, load, instance=name)

    def add_pod(
        self,
        name: str,
        node: str = "a",
        *,
        seen: tuple[float, float] = (OLD, END),
        cores: Value = 1.0,
        **labels: str,
    ) -> None:
        """A pod that is seen between two times."""
        of_pod = {"namespace": "shop", "pod": name, "uid": f"u-{name}"}
        info = {"node": node, "created_by_kind": "ReplicaSet", "created_by_name": "web-1"}
        self.add(STATE.pods_first_seen(), _seen(*seen, first=True), **of_pod | info | labels)
        self.add(STATE.pods_last_seen(), _seen(*seen, first=False), **of_pod | info | labels)
        self.add(STATE.pods_created(), seen[0], **of_pod)
        for resource, amount in (("cpu", 0.25), ("memory", float(GIB)), ("nvidia_com_gpu", 1.0)):
            self.add(STATE.requests(), amount, **of_pod, resource=resource)
        used = between(seen[0], seen[1] + STEP, cores) if isinstance(cores, float) else cores
        self.add(POD_CPU, used, namespace="shop", pod=name, node=node)


def _seen(begin: float, end: float, *, first: bool) -> Value:
    """When a pod was seen in the hour before each time."""

    def value(now: float) -> float | None:
        low, high = max(begin, now - LONG_STEP_SECONDS + 60), min(end, now)
        if low > high:
            return None
        return low if first else high

    return value
