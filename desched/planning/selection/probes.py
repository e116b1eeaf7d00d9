"""After a pause that began by itself, a single careful move has to go well before others follow."""

from collections.abc import Callable, Iterable
from datetime import datetime

from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.model.state import Pause, PauseScope, State
from desched.planning.overload.node_load import LoadedNode
from desched.planning.selection.one_node import Move

Chosen = tuple[LoadedNode, Move]


def cut_to_probes(
    moves: Iterable[Chosen], state: State, spare: Callable[[Pod], int], now: datetime
) -> tuple[list[Chosen], list[tuple[Pod, RefusalReason, str]], frozenset[str]]:
    """The moves that may be made while probes are due, why the others wait, and which are probes.

    Of the moves that a pause concerns only one stays, that of the workload with most replicas to
    spare; none while an earlier probe is under way. The third part holds the uids of probes.

    Args:
        moves: all moves of a plan in the order of acting; any of them is safe alone.
        state: the pauses, and what is under way.
        spare: how many replicas the workload of a pod can do without.
        now: the time of the decision.
    """
    kept = list(moves)
    denied: list[tuple[Pod, RefusalReason, str]] = []
    probes: set[str] = set()
    for pause in state.pauses:
        if pause.by or pause.lasts(now) or pause.scope is PauseScope.WORKLOAD:
            continue
        concerned = [chosen for chosen in kept if _concerns(pause, chosen[0].verdict.pool)]
        probe = None
        if not any(r.probe and _concerns(pause, r.pool) for r in state.in_flight):
            probe = max(concerned, key=lambda chosen: spare(chosen[1].candidate.pod), default=None)
        for chosen in concerned:
            pod = chosen[1].candidate.pod
            if chosen is probe:
                probes.add(pod.uid)
            else:
                kept.remove(chosen)
                denied.append((pod, RefusalReason.PROBE_FIRST, _waits_for(pause, probe)))
    return kept, denied, frozenset(probes & {c.candidate.pod.uid for _, c in kept})


def _concerns(pause: Pause, pool: str) -> bool:
    return pause.scope is PauseScope.EVERYTHING or pause.subject == pool


def _waits_for(pause: Pause, probe: Chosen | None) -> str:
    if probe is None:
        return f"{pause}: the move that tries it out is under way"
    return f"{pause}: {probe[1].candidate.pod.ref} goes first to try it out"
