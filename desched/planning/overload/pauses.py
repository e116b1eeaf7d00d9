"""Pools that are paused, and nodes that are left alone because moves did not relieve them."""

from datetime import datetime

from desched.model.state import Pause, PauseScope, State


def pool_pause(pool: str, state: State, now: datetime) -> Pause | None:
    """The pause of a pool that lasts, if there is one."""
    pauses = (p for p in state.pauses if p.scope is PauseScope.POOL and p.lasts(now))
    return next((pause for pause in pauses if pause.subject == pool), None)


def cooling_down_until(node: str, state: State, now: datetime) -> datetime | None:
    """Until when a node is left alone that moves did not relieve, None if it is not."""
    found = next((each for each in state.nodes if each.node == node), None)
    until = found.cooling_down_until if found else None
    return until if until is not None and now < until else None
