"""What is left alone for a while, picked out of the state for every kind of output."""

from datetime import datetime
from typing import NamedTuple

from desched.model.state import CoolDown, NodeRounds, Pause, State


class OnHold(NamedTuple):
    """What is not moved now; `awaiting_probe` are pauses whose time is over, but not their cause.

    All are sorted by name, so that equal states read the same.
    """

    cool_downs: tuple[CoolDown, ...]
    cooling_nodes: tuple[NodeRounds, ...]
    pauses: tuple[Pause, ...]
    awaiting_probe: tuple[Pause, ...]


def on_hold(state: State, now: datetime) -> OnHold:
    """What the state says is to be left alone at this time."""
    pauses = sorted(state.pauses, key=lambda pause: (pause.scope, pause.subject))
    return OnHold(
        cool_downs=tuple(
            sorted(
                (each for each in state.cool_downs if now < each.until),
                key=lambda cool_down: (cool_down.workload, cool_down.workload_uid),
            )
        ),
        cooling_nodes=tuple(
            sorted(
                (
                    each
                    for each in state.nodes
                    if each.cooling_down_until and now < each.cooling_down_until
                ),
                key=lambda rounds: rounds.node,
            )
        ),
        pauses=tuple(pause for pause in pauses if pause.lasts(now)),
        awaiting_probe=tuple(p for p in pauses if not p.lasts(now) and not p.by),
    )
