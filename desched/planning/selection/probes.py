"""A probe ends an automatic pause: one careful move must succeed before others follow."""

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from desched.model.cluster import Pod
from desched.model.plan import Finding, RefusalReason
from desched.model.state import PauseScope, namespace_of
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.selection.outcomes import Chosen


class Probing(msgspec.Struct, frozen=True):
    """The moves that pauses allow, and the pods that wait, with the reason.

    `probes` has the uids of the pods whose moves are probes.
    """

    moves: list[Chosen]
    waiting: list[tuple[Pod, Finding[RefusalReason]]]
    probes: frozenset[str]


def cut_to_probes(moves: Iterable[Chosen], eligibility: Eligibility) -> Probing:
    """Keep one of the moves that a pause affects: that of the workload with most replicas to spare.

    Workloads without failures go first, among them workloads of namespaces without failures;
    otherwise users who cause failures could prolong a pause. If all have failed, the one that
    failed longest ago goes; otherwise no probe would end the pause. While an earlier probe is under
    way, none is kept. Each move is safe without the others.
    """
    state, now = eligibility.context.state, eligibility.context.now
    failed = state.failed_workloads
    failed_namespaces = {namespace_of(workload) for workload in failed}
    last_failure = {
        f.workload: f.at for f in sorted(state.failures, key=lambda failure: failure.at)
    }

    def workload(chosen: Chosen) -> str:
        return eligibility.workload(chosen[1].candidate.pod)

    def prospects(chosen: Chosen) -> tuple[bool, bool, timedelta, int]:
        pod, owner = chosen[1].candidate.pod, workload(chosen)
        ago = now - last_failure[owner] if owner in last_failure else timedelta.max
        spare = eligibility.spare(pod)
        return owner not in failed, pod.namespace not in failed_namespaces, ago, spare

    kept = list(moves)
    waiting: list[tuple[Pod, Finding[RefusalReason]]] = []
    probes: set[str] = set()
    for pause in state.pauses:
        if pause.by or pause.lasts(now) or pause.scope is PauseScope.WORKLOAD:
            continue
        affected = [c for c in kept if pause.covers(workload(c), c[0].verdict.pool)]
        under_way = any(r.probe and pause.covers(r.workload, r.pool) for r in state.in_flight)
        probe = None if under_way else max(affected, key=prospects, default=None)
        for chosen in affected:
            pod = chosen[1].candidate.pod
            if chosen is probe:
                probes.add(pod.uid)
            else:
                kept.remove(chosen)
                finding = Finding(RefusalReason.PROBE_FIRST, f"{pause}: {_waits_for(probe)}")
                waiting.append((pod, finding))
    return Probing(kept, waiting, frozenset(probes & {c.candidate.pod.uid for _, c in kept}))


def _waits_for(probe: Chosen | None) -> str:
    if probe is None:
        return "its probe is under way"
    return f"{probe[1].candidate.pod.ref} goes first as the probe"
