"""What became of evictions, and what is left alone because of it."""

from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from desched.eviction.cool_downs import cooled_down
from desched.eviction.forecast_checks import checked
from desched.eviction.judging import settle_evictions
from desched.eviction.node_cool_downs import rounds_of_nodes
from desched.eviction.pauses import with_pauses
from desched.eviction.present_load import PresentLoad
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.policy.policy import Policy


class FollowUp(NamedTuple):
    """The state after a follow-up, and the evictions whose result became known, oldest first."""

    state: State
    settled: tuple[EvictionRecord, ...]


def follow_up(state: State, snapshot: Snapshot, policy: Policy, now: datetime) -> FollowUp:
    """Judge the evictions in flight; pure, and the same for any order of the snapshot's objects.

    Args:
        state: as of the snapshot (`State.observed`).
        snapshot: what was seen.
        policy: how long to wait, and for how long to leave alone what went wrong.
        now: the time of the decision.
    """
    load = PresentLoad(snapshot, policy, state, now)
    evictions = settle_evictions(state.evictions, load)
    known = {record.pod for record in state.evictions if not record.in_flight}
    settled = sorted(
        (r for r in evictions if not r.in_flight and r.pod not in known),
        key=lambda record: (record.evicted_at, record.pod),
    )
    state = replace(
        state,
        evictions=evictions,
        nodes=rounds_of_nodes(state, load),
        cool_downs=cooled_down(state.cool_downs, settled, policy.follow_up, now),
        forecasts=checked(state.forecasts, settled, now),
    )
    return FollowUp(with_pauses(state, settled, policy, now), tuple(settled))
