"""A movable pod; tests change it in one or several ways, and check the refusal."""

from typing import Any

import msgspec

from desched.model.cluster import (
    ClusterState,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
)
from desched.model.load import PodUsage
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, MoveResult, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import refuse
from desched.planning.overload.pod_usage import UsageBook
from desched.plugins import HOUSE
from desched.policy.policy import EvictionLimits, Protections
from tests.builders import (
    GIB,
    NOW,
    certain,
    load,
    node,
    pod,
    policy,
    with_readable_owners,
    workload,
)


class Candidate:
    """A pod `web-1` of a Deployment of three Ready replicas; the parts are there to be changed."""

    def __init__(self, **pod_fields: Any) -> None:
        self.pod: dict[str, Any] = {"on": "n1", "annotations": {}, "volumes": ()} | pod_fields
        self.workload: dict[str, Any] = {"replicas": 3}
        self.protections: dict[str, Any] = {}
        self.budgets: tuple[PodDisruptionBudget, ...] = ()
        self.nodes: tuple[Node, ...] = (node("n1"), node("n2"))
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.cluster: dict[str, Any] = {}
        self.others: tuple[Pod, ...] = ()
        self.state = State()
        self.measured = True
        self.plugins = HOUSE

    def annotate(self, key: str, value: str) -> "Candidate":
        self.pod["annotations"] = {key: value} | self.pod["annotations"]
        return self

    def add_volume(self, volume: object) -> "Candidate":
        self.pod["volumes"] = (*self.pod["volumes"], volume)
        return self

    def add_claim(self, name: str, volume: PersistentVolume | None = None, of: str = "") -> None:
        """A claim, bound to the volume (without one: not bound)."""
        self.claims[name] = PersistentVolumeClaim("apps", name, of, volume.name if volume else "")
        if volume is not None:
            self.volumes[volume.name] = volume

    def evict_before(self, result: MoveResult | None = MoveResult.LANDED_ELSEWHERE) -> None:
        """Another pod of the workload has just been evicted; without a result it is under way."""
        one = pod("web-0").ref
        self.remember(
            evictions=(EvictionRecord(one, "n1", "uid-web", NOW, certain("n2"), result=result),)
        )

    def remember(self, **parts: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **parts)

    def context(self) -> EligibilityContext:
        one = pod("web-1", **self.pod)
        usage = {(one.namespace, one.name): PodUsage((500.0,), (float(GIB),))}
        owner = workload("web", **({"namespace": one.namespace} | self.workload))
        loaded = ClusterState(
            self.nodes,
            (one, *self.others),
            **(
                {
                    "workloads": {(owner.namespace, owner.uid): owner},
                    "budgets": self.budgets,
                    "claims": {(one.namespace, name): c for name, c in self.claims.items()},
                    "volumes": self.volumes,
                }
                | self.cluster
            ),
        )
        of_load = msgspec.structs.replace(load({}), pods=usage if self.measured else {})
        seen = Snapshot(with_readable_owners(loaded), of_load, NOW)
        chosen = policy(
            protections=Protections(**self.protections),
            limits=EvictionLimits(in_flight_workload=1),
            plugins=self.plugins,
        )
        return EligibilityContext.of(UsageBook(seen, chosen, NOW), self.state)

    def finding(self) -> tuple[str, str] | None:
        """Reason and detail of the refusal."""
        context = self.context()
        found = refuse(context.cluster.pods[0], context)
        return (found.reason.value, found.detail) if found else None

    @property
    def reason(self) -> str | None:
        found = self.finding()
        return found[0] if found else None

    @property
    def detail(self) -> str:
        found = self.finding()
        return found[1] if found else ""
