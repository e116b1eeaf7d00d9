"""The journal: it records each eviction in the state before the request."""

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from desched.model.plan import PlannedEviction
from desched.model.state import EvictionRecord, State
from desched.policy.follow_up import FollowUpRules
from desched.ports import Clock

# A record takes over what a planned eviction has by the same name.
_KNOWN_FROM_PLAN = {*EvictionRecord.__struct_fields__} & {*PlannedEviction.__struct_fields__}


class Journal:
    """Records evictions as they begin; `keep` stores the state, `state` is the latest one."""

    def __init__(
        self, state: State, keep: Callable[[State], None], rules: FollowUpRules, clock: Clock
    ) -> None:
        self.state = state
        self._keep = keep
        self._patience = timedelta(seconds=rules.patience_seconds)
        self._clock = clock

    def remember(self, *evictions: PlannedEviction) -> None:
        """Record the evictions as in flight, in one write.

        Raises:
            StopActing: they could not be recorded.
        """
        state, now = self.state, self._clock.now()
        for eviction in evictions:
            state = state.with_eviction(_record(eviction, now, self._patience))
            if eviction.undertaking is not None:
                state = eviction.undertaking.with_move(state)
        self._keep(state)
        self.state = state

    def forget(self, *evictions: PlannedEviction) -> None:
        """Remove evictions that did not begin; the next write stores the removal."""
        for eviction in evictions:
            state = self.state.without_eviction(eviction.pod)
            if eviction.undertaking is not None:
                state = eviction.undertaking.without_move(state)
            self.state = state

    def hand_over(self, eviction: PlannedEviction) -> None:
        """Record at once that a webhook performs it: the pod may stay for a long time.

        Raises:
            StopActing: it could not be recorded.
        """
        self._note(eviction, taken_over=True)
        self._keep(self.state)

    def doubt(self, eviction: PlannedEviction) -> None:
        """Record that the response is missing or unclear; the next write stores it."""
        self._note(eviction, unanswered=True)

    def _note(self, eviction: PlannedEviction, **changes: bool) -> None:
        records = tuple(
            replace(record, **changes) if record.pod == eviction.pod else record
            for record in self.state.evictions
        )
        self.state = replace(self.state, evictions=records)


def _record(eviction: PlannedEviction, now: datetime, patience: timedelta) -> EvictionRecord:
    judged_by = now + timedelta(seconds=eviction.grace_period_seconds) + patience
    of_plan = {name: getattr(eviction, name) for name in _KNOWN_FROM_PLAN}
    return EvictionRecord(evicted_at=now, judged_by=judged_by, **of_plan)
