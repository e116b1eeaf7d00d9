"""The simulated soft taints behave as the contract says."""

from collections.abc import Iterable

import pytest

from desched.lab.world import Simulation
from desched.model.cluster import Node, Taint
from tests.contracts.steerer_contract import SteererContract


class SimulatedSteeringLab:
    def __init__(self) -> None:
        simulation = Simulation()
        self._cluster = simulation.cluster
        self.steerer = simulation.steerer

    def add_node(self, name: str, taints: Iterable[Taint] = ()) -> None:
        self._cluster.add_node(name)
        self._cluster.change_node(name, taints=tuple(taints))

    def node(self, name: str) -> Node:
        return self._cluster.read_cluster().node_by_name[name]


class TestSimulatedSteerer(SteererContract):
    @pytest.fixture
    def steering_lab(self) -> SimulatedSteeringLab:
        return SimulatedSteeringLab()
