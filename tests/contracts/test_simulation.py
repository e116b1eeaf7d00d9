"""The simulated cluster behaves as the contract says."""

from collections.abc import Callable

import pytest

from desched.lab.budgets import SimulatedBudget
from desched.lab.template import PodTemplate
from desched.lab.world import Simulation
from desched.model.cluster import (
    Effect,
    HostPort,
    PodAffinityTerm,
    SchedulingClass,
    SpreadConstraint,
    Taint,
)
from desched.model.resources import Amounts
from desched.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from tests.contracts.cluster_contract import EASY_GOING, ZONE_LABEL, ClusterContract, Manners

LONGEST_SECONDS = 60
MIB = 1024**2


def of_app(app: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (app,)),))


def behaving(name: str, requests: Amounts, manners: Manners) -> SchedulingClass:
    def near(app: str, weight: int = 0) -> tuple[PodAffinityTerm, ...]:
        return (PodAffinityTerm(ZONE_LABEL, of_app(app), weight=weight),) if app else ()

    apart_from = of_app(manners.apart_from or name)
    zone = Requirement(ZONE_LABEL, Operator.IN, (manners.likes_zone,))
    return SchedulingClass(
        requests,
        preferred_node_affinity=((100, NodeSelectorTerm((zone,))),) if manners.likes_zone else (),
        pod_affinity=near(manners.near),
        pod_anti_affinity=(PodAffinityTerm(manners.apart_by, apart_from),)
        if manners.apart_by
        else (),
        preferred_pod_affinity=near(manners.drawn_to, 100) + near(manners.pushed_from, -100),
        spread=(SpreadConstraint(manners.even_by, 1, manners.hard, of_app(name)),)
        if manners.even_by
        else (),
        host_ports=(HostPort(manners.host_port),) if manners.host_port else (),
    )


class SimulatedLab:
    namespace = "lab"

    def __init__(self) -> None:
        self._simulation = Simulation()
        self._cluster = self._simulation.cluster
        self._cluster.add_namespace(self.namespace)
        self.reader = self._cluster
        self.evictor = self._simulation.evictor

    def add_node(self, name: str, *, zone: str = "", soft_taint: bool = False) -> None:
        self._cluster.add_node(name, labels={"topology.kubernetes.io/zone": zone} if zone else {})
        if soft_taint:
            taints = (Taint("lab", Effect.PREFER_NO_SCHEDULE),)
            self._cluster.change_node(name, taints=taints)

    def cordon(self, *names: str, on: bool = True) -> None:
        for name in names:
            self._cluster.change_node(name, unschedulable=on)

    def add_deployment(
        self, name: str, replicas: int, cpu_millicores: int, manners: Manners = EASY_GOING
    ) -> None:
        requests = Amounts(cpu_millicores=cpu_millicores, memory_bytes=128 * MIB, pods=1)
        template = PodTemplate(scheduling=behaving(name, requests, manners), labels={"app": name})
        self._cluster.add_deployment(self.namespace, name, replicas, template)

    def add_budget(self, name: str, app: str, **spec: int | str) -> None:
        selector = of_app(app)
        self._cluster.add_budget(
            SimulatedBudget(
                self.namespace,
                name,
                selector,
                min_available=spec.get("minAvailable"),
                max_unavailable=spec.get("maxUnavailable"),
            )
        )

    def eventually(self, description: str, predicate: Callable[[], object]) -> None:
        for _ in range(LONGEST_SECONDS):
            if predicate():
                return
            self._simulation.clock.advance(1)
        raise AssertionError(f"not within {LONGEST_SECONDS} virtual seconds: {description}")


class TestSimulation(ClusterContract):
    @pytest.fixture
    def lab(self) -> SimulatedLab:
        return SimulatedLab()
