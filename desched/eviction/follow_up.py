"""What became of evictions, and what is left alone because of it."""

from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from desched.eviction.cool_downs import cooled_down
from desched.eviction.forecast_checks import checked
from desched.eviction.judging import judged
from desched.eviction.parking import rounds_of_nodes
from desched.eviction.pauses import with_pauses
from desched.eviction.present_load import PresentLoad
from desched.model.memory import EvictionRecord, Memory
from desched.model.snapshot import Snapshot
from desched.policy.policy import Policy


class FollowUp(NamedTuple):
    """The memory after a follow-up, and the evictions whose result became known, oldest first."""

    memory: Memory
    settled: tuple[EvictionRecord, ...]


def follow_up(memory: Memory, snapshot: Snapshot, policy: Policy, now: datetime) -> FollowUp:
    """Judge the evictions in flight; pure, and the same for any order of the snapshot's objects.

    Args:
        memory: as of the snapshot (`Memory.observed`).
        snapshot: what was seen.
        policy: how long to wait, and for how long to leave alone what went wrong.
        now: the time of the decision.
    """
    load = PresentLoad(snapshot, policy, memory, now)
    evictions = judged(memory.evictions, load)
    known = {record.pod for record in memory.evictions if not record.in_flight}
    settled = sorted(
        (r for r in evictions if not r.in_flight and r.pod not in known),
        key=lambda record: (record.evicted_at, record.pod),
    )
    memory = replace(
        memory,
        evictions=evictions,
        nodes=rounds_of_nodes(memory, load),
        cool_downs=cooled_down(memory.cool_downs, settled, policy.follow_up, now),
        forecasts=checked(memory.forecasts, settled, now),
    )
    return FollowUp(with_pauses(memory, settled, policy, now), tuple(settled))
