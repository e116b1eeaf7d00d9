"""The load of a real cluster's pods: replacements take over the load of the pods they replace."""

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.day import CAPACITY
from desched.lab.closed_loop import Day, LoopMove, LoopResult, Pace, landed
from desched.lab.history import IDLE, Floats, LoadHistory, UsageSeries, host_of
from desched.model.cluster import PodRef
from tests.controlplane.manifests import Object, usage

Objects = Sequence[Object]


@dataclass
class _Role:
    """A pod and what it uses; `node` is empty until it runs."""

    ref: PodRef
    workload: str
    series: UsageSeries
    node: str = ""
    leaving: bool = False


class LiveLoad:
    """What pods use at each time, and where.

    Times are seconds of the day, of which `speed` pass in a second; the day begins with `begin`.
    Something must ask often for `with_usage`: that is how the pods are followed.
    `longest_gap_seconds` is the longest time of the day from one question to the next.
    """

    def __init__(self, day: Day, speed: float) -> None:
        self.longest_gap_seconds = 0.0
        self._day = day
        self._speed = speed
        self._began: float | None = None
        self._asked_at = 0.0
        self._history = LoadHistory()
        for node in day.nodes:
            self._history.begin(host_of(node), node, IDLE, 0.0)
        self._roles: dict[str, _Role] = {}
        self._vacant: dict[str, deque[tuple[int, UsageSeries]]] = {}
        self._moves: list[LoopMove] = []
        self._replicas: Counter[str] = Counter()
        self._answer: tuple[Objects, int, Objects] = ((), -1, ())

    @property
    def now(self) -> float:
        """The time of the day, 0 before it begins."""
        return 0.0 if self._began is None else (time.monotonic() - self._began) * self._speed

    def begin(self, pods: Iterable[tuple[Object, UsageSeries]]) -> None:
        """Begin the day with these pods and what each of them uses."""
        for pod, series in pods:
            role = _role(pod, series)
            self._roles[role.ref.uid] = role
            self._replicas[role.workload] += 1
        self._began = time.monotonic()

    def with_usage(self, pods: Objects) -> Objects:
        """The pods with annotations of what they use now, for the exporter of the tests."""
        if self._began is None:
            return pods
        now = self.now
        self.longest_gap_seconds = max(self.longest_gap_seconds, now - self._asked_at)
        self._asked_at = now
        before, step, answer = self._answer
        current = int(now // self._step_seconds)
        if pods is not before:
            self.see(now, pods)
        if pods is not before or current != step:
            answer = tuple(self._annotated(pod, now) for pod in pods)
            self._answer = pods, current, answer
        return answer

    @property
    def _step_seconds(self) -> float:
        return next(iter(self._roles.values())).series.bank.step_seconds

    def _annotated(self, pod: Object, at: float) -> Object:
        metadata = pod["metadata"]
        role = self._roles.get(metadata["uid"])
        if role is None:
            return pod
        cpu_millicores, memory_bytes = level_at(role.series, at)
        annotations = usage(f"{round(cpu_millicores)}m", f"{round(memory_bytes)}")
        return {**pod, "metadata": {**metadata, "annotations": annotations}}

    def see(self, at: float, pods: Objects) -> None:
        """Follow what has happened until this time: pods leave, are replaced, and start."""
        present = {pod["metadata"]["uid"]: pod for pod in pods}
        for uid, role in list(self._roles.items()):
            pod = present.get(uid)
            if not role.leaving and (pod is None or "deletionTimestamp" in pod["metadata"]):
                self._leave(role, at)
            if pod is None:
                self._history.end(uid, at)
                del self._roles[uid]
        for uid, pod in present.items():
            if uid not in self._roles:
                self._replace(pod)
            if pod["status"].get("phase") == "Running" and (found := self._roles.get(uid)):
                self._start(found, pod["spec"]["nodeName"], at)

    def _leave(self, role: _Role, at: float) -> None:
        role.leaving = True
        self._vacant.setdefault(role.workload, deque()).append((len(self._moves), role.series))
        self._moves.append(LoopMove(at, role.workload, role.ref.uid, role.node, "", ref=role.ref))

    def _replace(self, pod: Object) -> None:
        vacant = self._vacant.get(_owner_of(pod))
        if vacant and "deletionTimestamp" not in pod["metadata"]:
            position, series = vacant.popleft()
            role = self._roles[pod["metadata"]["uid"]] = _role(pod, series)
            self._moves[position] = self._moves[position]._replace(replacement=role.ref.uid)

    def _start(self, role: _Role, node: str, at: float) -> None:
        if not role.node:
            role.node = node
            self._history.begin(role.ref.uid, node, role.series, at)

    def result(self, targets: Floats, pace: Pace, seconds: float) -> LoopResult:
        """The result from the pace's begin on, for so many seconds, as of a simulation."""
        names, step = list(self._day.nodes), pace.step_seconds
        begins = pace.begins_at + np.arange(int(seconds // step)) * step
        used = [self._history.of_nodes(names, begin, begin + step) for begin in begins]
        load = np.stack(used, axis=1) / CAPACITY
        overloaded = dict(zip(names, np.any(load > targets, axis=2), strict=True))
        moves = [
            landed(move, self._history, overloaded, pace)
            for move in self._moves
            if move.at < pace.begins_at + seconds
        ]
        return LoopResult(load, targets, moves, seconds, self._replicas, step)


def level_at(series: UsageSeries, at: float) -> Floats:
    """What a series uses at a time: millicores and bytes."""
    bank = series.bank
    level = int(np.clip((at - series.begins_at) // bank.step_seconds, 0, series.levels - 1))
    first = series.first + level
    found: Floats = (bank.before[first + 1] - bank.before[first]) / bank.step_seconds
    return found


def _role(pod: Object, series: UsageSeries) -> _Role:
    metadata = pod["metadata"]
    ref = PodRef(metadata["namespace"], metadata["name"], metadata["uid"])
    return _Role(ref, _owner_of(pod), series)


def _owner_of(pod: Object) -> str:
    owners: list[Object] = pod["metadata"].get("ownerReferences") or []
    return str(owners[0]["uid"]) if owners else ""
