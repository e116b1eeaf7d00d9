"""A probe ends an automatic pause: one careful move must succeed before others follow."""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.state import Pause, PauseScope, State
from desched.planning.selection.one_node import Move, OverloadedNode

Chosen = tuple[OverloadedNode, Move]


class Probing(msgspec.Struct, frozen=True):
    """The moves that pauses allow, and the pods that wait, with the reason.

    `probes` has the uids of the pods whose moves are probes.
    """

    moves: list[Chosen]
    waiting: list[tuple[Pod, Finding[RefusalReason]]]
    probes: frozenset[str]


def cut_to_probes(
    moves: Iterable[Chosen], state: State, spare: Callable[[Pod], int], now: datetime
) -> Probing:
    """Keep one move of those that a pause affects: the workload with most replicas to spare.

    While an earlier probe is under way, none is kept. Each move is safe without the others. `spare`
    returns how many replicas the workload of a pod can spare.
    """
    kept = list(moves)
    waiting: list[tuple[Pod, Finding[RefusalReason]]] = []
    probes: set[str] = set()
    for pause in state.pauses:
        if pause.by or pause.lasts(now) or pause.scope is PauseScope.WORKLOAD:
            continue
        affected = [c for c in kept if _affects(pause, c[0].loaded.verdict.pool)]
        probe = None
        if not any(r.probe and _affects(pause, r.pool) for r in state.in_flight):
            probe = max(affected, key=lambda chosen: spare(chosen[1].candidate.pod), default=None)
        for chosen in affected:
            pod = chosen[1].candidate.pod
            if chosen is probe:
                probes.add(pod.uid)
            else:
                kept.remove(chosen)
                finding = Finding(RefusalReason.PROBE_FIRST, _waits_for(pause, probe))
                waiting.append((pod, finding))
    return Probing(kept, waiting, frozenset(probes & {c.candidate.pod.uid for _, c in kept}))


def _affects(pause: Pause, pool: str) -> bool:
    return pause.scope is PauseScope.EVERYTHING or pause.subject == pool


def _waits_for(pause: Pause, probe: Chosen | None) -> str:
    if probe is None:
        return f"{pause}: its probe is under way"
    return f"{pause}: {probe[1].candidate.pod.ref} goes first as the probe"
