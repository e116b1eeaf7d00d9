"""What desched leaves alone for a while, taken from the state for every kind of output."""

from datetime import datetime
from typing import NamedTuple

from desched.model.state import CoolDown, NodeRounds, Pause, State
from desched.model.stored_state import is_done


class OnHold(NamedTuple):
    """What desched does not move now, sorted by name so that equal states read the same.

    `awaiting_probe` are pauses whose time is over but that still need their probe.
    """

    cool_downs: tuple[CoolDown, ...]
    cooling_nodes: tuple[NodeRounds, ...]
    pauses: tuple[Pause, ...]
    awaiting_probe: tuple[Pause, ...]


def on_hold(state: State, now: datetime) -> OnHold:
    """What desched leaves alone at this time according to the state."""
    cool_downs = sorted(state.cool_downs, key=lambda each: (each.workload, each.workload_uid))
    nodes = sorted(state.nodes, key=lambda rounds: rounds.node)
    pauses = sorted(state.pauses, key=lambda pause: (pause.scope, pause.subject))
    return OnHold(
        tuple(each for each in cool_downs if now < each.until),
        tuple(n for n in nodes if n.cooling_down_until and now < n.cooling_down_until),
        tuple(pause for pause in pauses if pause.lasts(now)),
        tuple(pause for pause in pauses if not (pause.lasts(now) or is_done(pause, now))),
    )
