"""A lease in memory, held to the contract in tests/contracts/lease_contract.py."""

import itertools

import msgspec

from desched.errors import LeaseError
from desched.ports import LeaseRecord


class FakeLease:
    """The Lease port; `broken` is what every call fails with, if anything."""

    def __init__(self) -> None:
        self.stored: LeaseRecord | None = None
        self.broken: Exception | None = None
        self._versions = itertools.count(1)

    def read(self) -> LeaseRecord | None:
        self._answer()
        return self.stored

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        self._answer()
        return self._store(record) if self.stored is None else None

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        self._answer()
        if self.stored is None or self.stored.version != record.version:
            return None
        return self._store(record)

    def delete(self) -> None:
        self.stored = None

    def touch(self) -> None:
        """A write by somebody else that leaves the record as it is."""
        if self.stored is not None:
            self._store(self.stored)

    def refuse(self, why: str = "connection refused") -> None:
        self.broken = LeaseError(why)

    def _answer(self) -> None:
        if self.broken is not None:
            raise self.broken

    def _store(self, record: LeaseRecord) -> LeaseRecord:
        self.stored = msgspec.structs.replace(record, version=str(next(self._versions)))
        return self.stored
