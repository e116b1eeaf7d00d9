"""A cycle between two ticks, as soon as a node has been overloaded for long enough.

Without it such a node would wait for the next tick as well. The limits per cycle count from tick to
tick, so an early cycle evicts only what they have left.
"""

from datetime import datetime, timedelta

from desched.model.report import CycleReport

LEAST_PAUSE = timedelta(seconds=60)
"""Between an early cycle and the cycles before and after it."""


def early_cycle_at(report: CycleReport, now: datetime, tick: datetime) -> datetime | None:
    """When a cycle should begin before the next tick, by the report of the last one.

    None if no node will have been overloaded for long enough by then, or only shortly before.
    """
    sustained_at = report.plan.next_sustained_at
    if report.plan.hold is not None or sustained_at is None:
        return None
    at = max(sustained_at, now + LEAST_PAUSE)
    return at if at <= tick - LEAST_PAUSE else None
