"""After a pause that began by itself, a single careful move has to go well before others follow."""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.state import Pause, PauseScope, State
from desched.planning.selection.one_node import Move, OverloadedNode

Chosen = tuple[OverloadedNode, Move]


class Probing(msgspec.Struct, frozen=True):
    """The moves that may be made while probes are due, and why the others wait.

    `probes` holds the uids of the pods among the moves that are probes.
    """

    moves: list[Chosen]
    waiting: list[tuple[Pod, Finding[RefusalReason]]]
    probes: frozenset[str]


def cut_to_probes(
    moves: Iterable[Chosen], state: State, spare: Callable[[Pod], int], now: datetime
) -> Probing:
    """Of the moves that a pause concerns keep one, that of the workload with most to spare.

    None is kept while an earlier probe is under way.

    Args:
        moves: all moves of a plan in the order of acting; any of them is safe alone.
        state: the pauses, and what is under way.
        spare: how many replicas the workload of a pod can do without.
        now: the time of the decision.
    """
    kept = list(moves)
    waiting: list[tuple[Pod, Finding[RefusalReason]]] = []
    probes: set[str] = set()
    for pause in state.pauses:
        if pause.by or pause.lasts(now) or pause.scope is PauseScope.WORKLOAD:
            continue
        concerned = [c for c in kept if _concerns(pause, c[0].loaded.verdict.pool)]
        probe = None
        if not any(r.probe and _concerns(pause, r.pool) for r in state.in_flight):
            probe = max(concerned, key=lambda chosen: spare(chosen[1].candidate.pod), default=None)
        for chosen in concerned:
            pod = chosen[1].candidate.pod
            if chosen is probe:
                probes.add(pod.uid)
            else:
                kept.remove(chosen)
                finding = Finding(RefusalReason.PROBE_FIRST, _waits_for(pause, probe))
                waiting.append((pod, finding))
    return Probing(kept, waiting, frozenset(probes & {c.candidate.pod.uid for _, c in kept}))


def _concerns(pause: Pause, pool: str) -> bool:
    return pause.scope is PauseScope.EVERYTHING or pause.subject == pool


def _waits_for(pause: Pause, probe: Chosen | None) -> str:
    if probe is None:
        return f"{pause}: the move that tries it out is under way"
    return f"{pause}: {probe[1].candidate.pod.ref} goes first to try it out"
