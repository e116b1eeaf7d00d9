"""The simulated memory behaves as the contract says."""

import pytest

from desched.simulation.memory_store import SimulatedConfigMap, SimulatedMemoryStore
from tests.contracts.memory_store_contract import MemoryStoreContract


class SimulatedLab:
    def __init__(self) -> None:
        self._place = SimulatedConfigMap()
        self.write = self._place.write

    def store(self) -> SimulatedMemoryStore:
        return SimulatedMemoryStore(self._place)

    def set_aside(self) -> str:
        return self._place.set_aside


class TestSimulatedMemoryStore(MemoryStoreContract):
    @pytest.fixture
    def lab(self) -> SimulatedLab:
        return SimulatedLab()
