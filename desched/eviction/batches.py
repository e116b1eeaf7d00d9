"""The results of pods that left together: they count once."""

from collections.abc import Iterable

from msgspec.structs import replace

from desched.model.state import FAILURES, SUCCESSES, EvictionRecord, MoveResult


def counted_once(
    settled: Iterable[EvictionRecord], *, by_workload: bool = False
) -> list[EvictionRecord]:
    """One record for each batch, or for each of its workloads, with its worst result."""
    records = list(settled)
    worst: dict[object, MoveResult | None] = {}
    for record in sorted(records, key=_badness):
        worst[record.batch] = record.result
    counted: dict[object, EvictionRecord] = {}
    for record in records:
        if record.batch:
            key = (record.batch, record.workload_uid if by_workload else "")
            counted.setdefault(key, replace(record, result=worst[record.batch]))
        else:
            counted[record.pod] = record
    return list(counted.values())


def _badness(record: EvictionRecord) -> int:
    return (record.result not in SUCCESSES) + (record.result in FAILURES)
