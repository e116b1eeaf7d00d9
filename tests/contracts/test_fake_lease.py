"""The lease in memory behaves as the contract says."""

import pytest

from tests.contracts.lease_contract import LeaseContract
from tests.fake_lease import FakeLease


class FakeLab:
    def __init__(self) -> None:
        self.lease = FakeLease()
        self.delete = self.lease.delete
        self.touch = self.lease.touch


class TestFakeLease(LeaseContract):
    @pytest.fixture
    def lab(self) -> FakeLab:
        return FakeLab()
