"""The past of nodes and pods as arrays, and the overload to expect from it.

The past of a node is the load that it would have had with the pods that are on it now: what was
measured, without the pods that have left or are leaving, and with those that have arrived since.
Other load that came and went, such as that of Jobs, is part of it: it comes again.
Of Jobs that run now, only what is expected to last counts: an eviction would come too late.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np

from desched.model.cluster import Pod
from desched.model.load import PodPast
from desched.model.resources import Resource
from desched.model.state import State
from desched.planning.arrays import Floats, Mask
from desched.planning.overload.forecast import (
    AHEAD_SECONDS,
    STEPS_AHEAD,
    expected_minutes,
    expected_minutes_above,
    running_share,
)
from desched.planning.overload.huge_pages import huge_page_bytes, ordinary_ratio
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import UsageBook

STARTING_SECONDS = 300
"""What a node does in its first minutes, while its own pods start, says nothing of later load."""

_STEP_SECONDS = AHEAD_SECONDS / STEPS_AHEAD


class Pasts:
    """The pasts by which a plan forecasts: points of all nodes and pods at the same times.

    `ages_seconds` has the age of each point, oldest first; the last one is now. Arrays of a past
    have the shape (points, resources), in the order of `resources`.
    """

    def __init__(self, book: UsageBook, state: State) -> None:
        self._book = book
        self._load = book.snapshot.load
        self.resources: tuple[Resource, ...] = tuple(book.windows)
        self._windows = np.array([book.windows[r][0] for r in self.resources], dtype=float)
        self._starting = np.maximum(self._windows, STARTING_SECONDS)
        self._predecessors = dict(_predecessors(state))
        histories = (h for of_node in self._load.history.values() for h in of_node.values())
        ages = next((history.ages_seconds for history in histories), [0])
        self.ages_seconds = np.array(ages, dtype=float)
        self._departed = _departed(state, book.now)

    def of_node(self, loaded: LoadedNode) -> Floats:
        """The past of a node with the pods that are on it now, as ratios."""
        name, count = loaded.node.name, len(self.ages_seconds)
        past = np.full((count, len(self.resources)), np.nan)
        histories = self._load.history.get(name, {})
        pressures = {pressure.resource: pressure for pressure in loaded.verdict.pressures}
        for source in loaded.sources:
            column = past[:, self.resources.index(source.resource)]
            present = max(basis.ratios[0] for basis in source.bases)
            history = histories.get(source.resource)
            if history is None or len(history.ratios) != count:
                column[:] = present
                continue
            ratios = history.ratios
            if source.resource is Resource.MEMORY and huge_page_bytes(loaded.node):
                ratios = tuple(r and ordinary_ratio(loaded.node, r) for r in ratios)
            column[:] = np.array(ratios, dtype=float)
            pressure = pressures[source.resource]
            # What the node's own figure does not show: the pods' sum beside it, load left out.
            column += present + pressure.departed_ratio - pressure.measured[0][1]
            column[-1] = present
        age_seconds = (self._book.now - loaded.node.created_at).total_seconds()
        past[:-1][self._begins(age_seconds, self._starting)] = np.nan
        denominators = np.array(_denominators(loaded, self.resources))
        measured = np.isfinite(past).any(axis=-1)
        oldest_seconds = float(self.ages_seconds[measured.argmax()]) if measured.any() else 0.0
        if (gone := self._gone(name)) is not None:
            past[:-1] -= (gone / denominators)[:-1]
        if (arrived := self._arrived(name, oldest_seconds)) is not None:
            past += arrived / denominators
        past -= self._ending(name) / denominators
        usage: Floats = np.maximum(past, 0.0)
        return usage

    def lasting(self, pod: Pod) -> Floats:
        """The past of a pod, as far as it lasts: a Job's pod ends, see `running_share`."""
        share = running_share(self._age_seconds(pod)) if pod.of_job else 1.0
        usage: Floats = share * self.of_pod(pod)
        return usage

    def of_pod(self, pod: Pod) -> Floats:
        """What the pod used, in millicores, bytes, devices, or 1 for a pod.

        Where it is not known, the past of the pod that it replaced counts, else a constant: what it
        uses now, or what is expected of it.
        """
        own = self._load.pod_pasts.get((pod.namespace, pod.name))
        before = self._before(pod)
        points = self._stacked(own) if own is not None else np.full_like(before, np.nan)
        for i, resource in enumerate(self.resources):
            if used := self._book.relief(pod, resource):
                points[-1, i] = used[0]
        points[:-1][self._begins(self._age_seconds(pod), self._windows)] = np.nan
        unknown = np.isnan(points)
        points[unknown] = before[unknown]
        return points

    def measured(self, pod: Pod, resource: Resource) -> float:
        """The highest usage over the windows, 0 if it was not measured."""
        return max(self._book.measured(pod, resource), default=0.0)

    def has_own(self, pod: Pod) -> bool:
        """Return whether any load of the pod itself was measured."""
        return (pod.namespace, pod.name) in self._load.pod_pasts

    def predecessor(self, pod: Pod) -> tuple[str, str] | None:
        """Return the pod that it replaced in a move of desched, as (namespace, name), or None."""
        return self._predecessors.get(pod.uid)

    def _before(self, pod: Pod) -> Floats:
        """Return the past that counts for the time before the pod."""
        replaced = self._load.pod_pasts.get(self._predecessors.get(pod.uid, ("", "")))
        points = np.full((len(self.ages_seconds), len(self.resources)), np.nan)
        if replaced is not None:
            points = self._stacked(replaced)
        for i, resource in enumerate(self.resources):
            unknown = np.isnan(points[:, i])
            if unknown.any():
                points[unknown, i] = self._usual(pod, resource)
        return points

    def _usual(self, pod: Pod, resource: Resource) -> float:
        used = self._book.relief(pod, resource)
        if used and self._book.seen_share(pod, self._book.windows[resource][0]) >= 1.0:
            return used[0]
        return self._book.expected(pod, resource)

    def _stacked(self, past: PodPast) -> Floats:
        found = np.full((len(self.ages_seconds), len(self.resources)), np.nan)
        for resource, points in (
            (Resource.CPU, past.cpu_millicores),
            (Resource.MEMORY, past.memory_bytes),
        ):
            if resource in self.resources and len(points) == len(found):
                found[:, self.resources.index(resource)] = np.array(points, dtype=float)
        return found

    def _age_seconds(self, pod: Pod) -> float:
        return (self._book.now - (pod.started_at or pod.created_at)).total_seconds()

    def _begins(self, age_seconds: float, least_seconds: Floats) -> Mask:
        """The earlier points at which what is so old now had existed for less than this time.

        A rate of something that began within its window is too low.
        """
        mask: Mask = self.ages_seconds[:-1, None] + least_seconds > age_seconds
        return mask

    def _share_since(self, age_seconds: float) -> Floats:
        """The share of the window of each point that is later than this age."""
        windows = np.maximum(self._windows, 1.0)
        share: Floats = np.clip((age_seconds - self.ages_seconds[:, None]) / windows, 0.0, 1.0)
        return share

    def _gone(self, node: str) -> Floats | None:
        """Return the use of pods that have left the node or are leaving it, or None."""
        if not any(node in pods for pods in (self._leaving, self._departed, self._replaced)):
            return None
        total = np.zeros((len(self.ages_seconds), len(self.resources)))
        for replaced in self._replaced.get(node, ()):
            total += np.nan_to_num(self._stacked(replaced))
        for pod in self._leaving.get(node, ()):
            total += self.of_pod(pod) * self._share_since(self._age_seconds(pod))
        for move in self._departed.get(node, ()):
            past = self._load.pod_pasts.get(move.pod)
            used = np.array([move.usage.get(r, 0.0) for r in self.resources])
            used = np.broadcast_to(used, total.shape).copy()
            if past is not None:
                stacked = self._stacked(past)
                used = np.where(np.isnan(stacked), used, stacked)
            total += used * (1.0 - self._share_since(move.left_seconds))
        return total

    def _ending(self, node: str) -> Floats:
        """Return the part of the use of Jobs on the node that is expected to end."""
        total = np.zeros((len(self.ages_seconds), len(self.resources)))
        for pod in self._jobs.get(node, ()):
            ran = self._share_since(self._age_seconds(pod))
            total += ran * (self.of_pod(pod) - self.lasting(pod))
        return total

    @cached_property
    def _jobs(self) -> Mapping[str, Sequence[Pod]]:
        """The running pods of Jobs by node."""
        by_node: dict[str, list[Pod]] = {}
        for pod in self._book.snapshot.cluster.pods:
            if pod.of_job and not (pod.deleting or pod.finished):
                by_node.setdefault(pod.node, []).append(pod)
        return by_node

    @cached_property
    def _leaving(self) -> Mapping[str, Sequence[Pod]]:
        moved = {move.uid for moves in self._departed.values() for move in moves}
        by_node: dict[str, list[Pod]] = {}
        for pod in self._book.snapshot.cluster.leaving_pods:
            ends = not (pod.finished or pod.lingers(self._book.now))
            if pod.node and pod.uid not in moved and ends:
                by_node.setdefault(pod.node, []).append(pod)
        return by_node

    @cached_property
    def _replaced(self) -> Mapping[str, Sequence[PodPast]]:
        """The pasts, by node, of pods that have left it without desched and do not come again.

        Where only the name of a pod is left, its workload is one that still runs other pods.
        """
        cluster = self._book.snapshot.cluster
        moved = {move.pod for moves in self._departed.values() for move in moves}
        ended = {(p.namespace, p.name): p for p in cluster.leaving_pods if p.finished}
        lasting = {(w.namespace, w.name) for w in cluster.workloads.values() if w.kind != "Job"}
        present = {
            node: {(pod.namespace, pod.name) for pod in cluster.pods_by_node.get(node, ())}
            for node in {past.node for past in self._load.pod_pasts.values()}
        }
        by_node: dict[str, list[PodPast]] = {}
        for key, past in self._load.pod_pasts.items():
            if key in moved or key in present[past.node]:
                continue
            pod = ended.get(key)
            by_name = not lasting.isdisjoint(_workloads_named_in(key))
            if by_name if pod is None else not pod.of_job:
                by_node.setdefault(past.node, []).append(past)
        return by_node

    @cached_property
    def _arrivals(self) -> Mapping[str, Sequence[Pod]]:
        """The pods by node that are younger than the oldest point."""
        since = self._book.now - timedelta(
            seconds=float(self.ages_seconds[0]) + float(self._windows.max(initial=0.0))
        )
        by_node: dict[str, list[Pod]] = {}
        for node, pods in self._book.snapshot.cluster.pods_by_node.items():
            young = [p for p in pods if (p.started_at or p.created_at) > since and not p.deleting]
            if young:
                by_node[node] = young
        return by_node

    def _arrived(self, node: str, oldest_seconds: float) -> Floats | None:
        """Return what pods of now would have used before they came, or None if nothing.

        Points older than `oldest_seconds` are not known anyway.
        """
        young = [
            pod
            for pod in self._arrivals.get(node, ())
            if self._age_seconds(pod) < oldest_seconds + self._windows.max(initial=0.0)
        ]
        if not young:
            return None
        total = np.zeros((len(self.ages_seconds), len(self.resources)))
        for pod in young:
            used = self._before(pod) * (1.0 - self._share_since(self._age_seconds(pod)))
            if pod.of_job:  # the node's past has others like it
                used[:-1] = 0.0
            total += used
        return total


class Outlook:
    """The expected overload of the known nodes in the next hour, in minutes."""

    def __init__(self, pasts: Pasts, nodes: Iterable[LoadedNode]) -> None:
        nodes = tuple(nodes)
        self.pasts = pasts
        self._position = {loaded.node.name: i for i, loaded in enumerate(nodes)}
        shape = (len(pasts.ages_seconds), len(pasts.resources))
        self.past = np.stack([pasts.of_node(n) for n in nodes]) if nodes else np.zeros((0, *shape))
        self.targets = np.array([_targets(n, pasts.resources) for n in nodes])
        self.targets = self.targets.reshape(len(nodes), shape[1])
        bases = [_denominators(n, pasts.resources) for n in nodes]
        self._bases = np.array(bases, dtype=float).reshape(len(nodes), shape[1])
        self.minutes = expected_minutes(self.past, pasts.ages_seconds, self.targets)

    @property
    def names(self) -> Iterable[str]:
        """The known nodes."""
        return self._position

    def bases_of(self, node: str) -> Floats:
        """Return the amounts that count as 1.0 in a pod's past, shape (resources,)."""
        bases: Floats = self._bases[self._position[node]]
        return bases

    def of(self, node: str) -> float:
        """The expected overload of a known node; a minute far above a target counts for more."""
        return float(self.minutes[self._position[node]])

    def past_of(self, node: str) -> Floats:
        """The past of a known node, shape (points, resources)."""
        past: Floats = self.past[self._position[node]]
        return past

    def targets_of(self, node: str) -> Floats:
        """The targets of a known node, shape (resources,)."""
        targets: Floats = self.targets[self._position[node]]
        return targets

    def target_of(self, node: str, resource: Resource) -> float:
        """The target of a known node, infinite if the resource has none there."""
        return float(self.targets_of(node)[self.pasts.resources.index(resource)])

    def quantiles(self, nodes: Sequence[str], resource: Resource, share: float) -> Floats:
        """The loads that these known nodes exceeded for all but this share of the last hour."""
        if not nodes:
            return np.zeros(0)
        recent = self.pasts.ages_seconds < AHEAD_SECONDS
        rows, column = [self._position[n] for n in nodes], self.pasts.resources.index(resource)
        loads = self.past[rows][:, recent, column]
        whole = np.isfinite(loads).all(axis=1)
        loads_at = np.empty(len(nodes))
        loads_at[whole] = np.quantile(loads[whole], share, axis=1)
        loads_at[~whole] = np.nanquantile(loads[~whole], share, axis=1)  # far slower
        return loads_at

    def minutes_above(self, node: str) -> float:
        """How many minutes of the next hour the node is expected to be above a target."""
        past, targets = self.past_of(node), self.targets_of(node)
        return float(expected_minutes_above(past, self.pasts.ages_seconds, targets))

    def minutes_above_before(self, node: str) -> float:
        """For how many minutes of the last hour the pods of now would have been above a target.

        What is not known was not above it.
        """
        ages = self.pasts.ages_seconds
        lasted = -np.diff(ages, prepend=ages[:1] + _STEP_SECONDS)
        above = (self.past_of(node) > self.targets_of(node)).any(axis=-1)
        minutes = float(lasted[above & (ages < AHEAD_SECONDS)].sum()) / 60
        return min(minutes, AHEAD_SECONDS / 60)

    def resources_above(self, node: str) -> frozenset[Resource]:
        """The resources that were above their target in the last hour."""
        recent = self.pasts.ages_seconds < AHEAD_SECONDS
        above: list[bool] = np.any(
            self.past_of(node)[recent] > self.targets_of(node), axis=0
        ).tolist()
        return frozenset(
            r for r, is_above in zip(self.pasts.resources, above, strict=True) if is_above
        )

    def with_node(self, loaded: LoadedNode) -> "Outlook":
        """Return a copy with another judgement of one node."""
        changed: Outlook = copy.copy(self)
        i = self._position[loaded.node.name]
        changed.past, changed.minutes = self.past.copy(), self.minutes.copy()
        changed.past[i] = self.pasts.of_node(loaded)
        ages, targets = self.pasts.ages_seconds, self.targets[i]
        changed.minutes[i] = float(expected_minutes(changed.past[i], ages, targets))
        return changed


def _denominators(loaded: LoadedNode, resources: Sequence[Resource]) -> list[float]:
    denominators = {source.resource: source.bases[-1].denominator for source in loaded.sources}
    return [denominators.get(resource, np.inf) for resource in resources]


def _targets(loaded: LoadedNode, resources: Sequence[Resource]) -> list[float]:
    target_of = {source.resource: source.thresholds.target_ratio for source in loaded.sources}
    return [target_of.get(resource, np.inf) for resource in resources]


def _workloads_named_in(pod: tuple[str, str]) -> Iterable[tuple[str, str]]:
    """Return the workloads that may have given a pod its name, perhaps by a ReplicaSet."""
    namespace, name = pod
    for _ in range(2):
        name = name.rpartition("-")[0]
        yield namespace, name


class _Departed(NamedTuple):
    """A pod that desched has moved away, as (namespace, name), and how long ago it left."""

    pod: tuple[str, str]
    uid: str
    usage: Mapping[Resource, float]
    left_seconds: float


def _departed(state: State, now: datetime) -> dict[str, list[_Departed]]:
    """The moved pods by the node that they left, or are leaving."""
    departed: dict[str, list[_Departed]] = {}
    for record in state.evictions:
        left = record.left_at or now
        usage: Mapping[Resource, float] = {
            resource: record.usage(resource)
            for resource in Resource
            if resource is not Resource.PODS
        }
        departed.setdefault(record.node, []).append(
            _Departed(
                (record.pod.namespace, record.pod.name),
                record.pod.uid,
                usage,
                (now - left).total_seconds(),
            )
        )
    seen = {move.uid for moves in departed.values() for move in moves}
    for move in state.moves:
        if move.pod is None or move.pod.uid in seen:
            continue
        departed.setdefault(move.node, []).append(
            _Departed(
                (move.pod.namespace, move.pod.name),
                move.pod.uid,
                {Resource.CPU: move.cpu_millicores, Resource.MEMORY: move.memory_bytes},
                (now - (move.left_at or move.at)).total_seconds(),
            )
        )
    return departed


def _predecessors(state: State) -> Iterable[tuple[str, tuple[str, str]]]:
    """The uid of each replacement with the pod that it replaced."""
    for move in state.moves:
        if move.pod is not None and move.replacement_uid:
            yield move.replacement_uid, (move.pod.namespace, move.pod.name)
    for record in state.evictions:
        if record.replacement is not None:
            yield record.replacement.uid, (record.pod.namespace, record.pod.name)
