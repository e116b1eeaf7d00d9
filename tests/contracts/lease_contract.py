"""What desched relies on in a stored lease, stated once for the fake and for the real thing."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec
import pytest

from desched.ports import Lease, LeaseRecord

SINCE = datetime(2026, 1, 10, 8, 0, 0, 120_000, tzinfo=UTC)
LATER = SINCE + timedelta(seconds=2)
FIRST = LeaseRecord("a", 15, 0, SINCE, SINCE)


class LeaseLab(Protocol):
    """A lease that does not exist yet, and others who meddle with it."""

    lease: Lease

    def delete(self) -> None:
        """Delete it, as a person does."""

    def touch(self) -> None:
        """Write to it without a change of the record."""


def changed(record: LeaseRecord | None, **fields: object) -> LeaseRecord:
    assert record is not None
    return msgspec.structs.replace(record, **fields)


class LeaseContract:
    """Inherited by a class with the fixture `lab`."""

    @pytest.fixture
    def lease(self, lab: LeaseLab) -> Lease:
        return lab.lease

    def test_what_does_not_exist_is_read_as_none(self, lease: Lease) -> None:
        assert lease.read() is None

    def test_a_created_record_is_read_as_it_was_written(self, lease: Lease) -> None:
        stored = lease.create(FIRST)
        assert changed(stored, version="") == FIRST
        assert stored is not None
        assert stored.version
        assert lease.read() == stored

    def test_only_the_first_record_is_created(self, lease: Lease) -> None:
        first = lease.create(FIRST)
        assert lease.create(changed(FIRST, holder="b")) is None
        assert lease.read() == first

    def test_a_replacement_is_read_as_it_was_written_and_has_another_version(
        self, lease: Lease
    ) -> None:
        first = lease.create(FIRST)
        second = changed(
            first,
            holder="b",
            transitions=1,
            duration_seconds=20,
            acquired_at=LATER,
            renewed_at=LATER,
        )
        stored = lease.replace(second)
        assert changed(stored, version=second.version) == second
        assert changed(stored).version != changed(first).version
        assert lease.read() == stored

    def test_of_two_replacements_of_one_version_the_first_wins(self, lease: Lease) -> None:
        first = lease.create(FIRST)
        renewed = lease.replace(changed(first, renewed_at=LATER))
        assert lease.replace(changed(first, holder="b")) is None
        assert lease.read() == renewed

    def test_a_released_lease_has_no_holder(self, lease: Lease) -> None:
        released = lease.replace(changed(lease.create(FIRST), holder=""))
        assert changed(lease.read()).holder == ""
        assert lease.read() == released

    def test_any_write_by_others_makes_another_version(self, lab: LeaseLab) -> None:
        first = lab.lease.create(FIRST)
        lab.touch()
        touched = changed(lab.lease.read())
        assert touched.version != changed(first).version
        assert changed(touched, version="") == FIRST
        assert lab.lease.replace(changed(first, holder="b")) is None

    def test_what_was_deleted_is_not_replaced(self, lab: LeaseLab) -> None:
        first = lab.lease.create(FIRST)
        lab.delete()
        assert lab.lease.replace(changed(first, renewed_at=LATER)) is None
        assert lab.lease.read() is None

    def test_a_version_does_not_come_back_after_a_deletion(self, lab: LeaseLab) -> None:
        first = lab.lease.create(FIRST)
        lab.delete()
        again = lab.lease.create(FIRST)
        assert changed(again).version != changed(first).version
        assert lab.lease.replace(changed(first, holder="b")) is None
        assert lab.lease.read() == again
