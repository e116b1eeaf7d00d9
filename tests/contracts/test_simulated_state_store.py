"""The simulated state behaves as the contract says."""

import pytest

from tests.contracts.state_store_contract import StateStoreContract
from tests.simulated_state_store import SimulatedConfigMap, SimulatedStateStore


class SimulatedLab:
    def __init__(self) -> None:
        self._place = SimulatedConfigMap()
        self.write = self._place.write

    def store(self) -> SimulatedStateStore:
        return SimulatedStateStore(self._place)

    def set_aside(self) -> str:
        return self._place.set_aside


class TestSimulatedMemoryStore(StateStoreContract):
    @pytest.fixture
    def lab(self) -> SimulatedLab:
        return SimulatedLab()
