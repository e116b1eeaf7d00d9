"""The pods and nodes of the past, put together from what kube-state-metrics recorded."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from desched.errors import ObservationError, ObservationSource
from desched.lab.prometheus.block import Grid
from desched.lab.prometheus.loads import Steps
from desched.lab.prometheus.nodes import SeenNodes
from desched.lab.prometheus.pods import (
    ByName,
    Classes,
    SeenPod,
    Workloads,
    add_created,
    add_finished,
    add_requests,
    seen_pods,
)
from desched.lab.prometheus.queries import SEEN_SECONDS, KubeState
from desched.lab.prometheus.range_queries import RangeQueries, Read
from desched.lab.recorded_past import Caveat, Doubt, PastNode, PastPod
from desched.model.cluster import Effect, Pod, Toleration
from desched.policy.policy import Policy

LONG_STEP_SECONDS = 3600
"""The length of the steps in which pods and controllers are read."""

GONE_AFTER_SECONDS = 180
"""A pod that is not seen for longer, while others are, has ended."""

HIGHEST_PRIORITY = 1_000_000_000
"""The highest that users may define; for classes whose value is not recorded."""

_HARD = frozenset({Effect.NO_SCHEDULE, Effect.NO_EXECUTE})
_REVISION_LABEL = "pod-template-hash"


class Stretch(NamedTuple):
    """The time to read: steps of equal length between two times in Unix seconds."""

    begin: int
    end: int
    step_seconds: int

    @property
    def steps(self) -> Steps:
        """The steps."""
        return Steps(self.begin, self.step_seconds, (self.end - self.begin) // self.step_seconds)

    @property
    def grid(self) -> Grid:
        """The ends of the steps."""
        return Grid(self.begin + self.step_seconds, self.end, self.step_seconds)

    @property
    def long_grids(self) -> tuple[Grid, ...]:
        """The ends of long steps that cover the time: full hours, and the end."""
        first = (self.begin // LONG_STEP_SECONDS + 1) * LONG_STEP_SECONDS
        last = self.end // LONG_STEP_SECONDS * LONG_STEP_SECONDS
        hours = (Grid(first, last, LONG_STEP_SECONDS),) if first <= last else ()
        rest = (Grid(self.end, self.end, LONG_STEP_SECONDS),) if last < self.end else ()
        return hours + rest


class ObjectReads(NamedTuple):
    """What to read about objects."""

    first_seen: Read
    last_seen: Read
    finished: Read
    created: Read
    requests: Read
    replica_set_owners: Read
    capacity: Read
    allocatable: Read
    node_info: Read
    node_created: Read
    node_labels: Read
    ready: Read
    cordoned: Read
    taints: Read


def plan_objects(queries: RangeQueries, state: KubeState, stretch: Stretch) -> ObjectReads:
    """Plan the reads.

    Raises:
        ObservationError: Prometheus did not answer, or has no kube-state-metrics.
    """
    first_seen = queries.plan(state.pods_first_seen(), *stretch.long_grids)
    if not first_seen.chunks:
        raise ObservationError(
            ObservationSource.PROMETHEUS,
            "Prometheus has no kube_pod_info in this time, so it is not known which pod ran where; "
            "a backtest needs kube-state-metrics. If it has another job than usual, name it with "
            "--kube-state-metrics, such as 'job=\"ksm\"'.",
        )
    return ObjectReads(
        first_seen,
        *(
            queries.plan(expression, *stretch.long_grids)
            for expression in (
                state.pods_last_seen(),
                state.pods_finished(),
                state.pods_created(),
                state.requests(),
                state.replica_set_owners(),
                state.node_capacity(),
                state.node_allocatable(),
                state.node_info(),
                state.node_created(),
                state.node_labels(),
            )
        ),
        *(
            queries.plan(expression, stretch.grid)
            for expression in (state.node_ready(), state.node_cordoned(), state.node_taints())
        ),
    )


class Objects(NamedTuple):
    """Pods and nodes, and what is not known of them."""

    nodes: tuple[PastNode, ...]
    pods: tuple[PastPod, ...]
    doubts: tuple[Doubt, ...]


def read_objects(
    queries: RangeQueries, reads: ObjectReads, stretch: Stretch, policies: Sequence[Policy]
) -> Objects:
    """The pods and nodes.

    Raises:
        ObservationError: Prometheus did not answer, or lacks what the policies select by.
    """
    seen_nodes = _seen_nodes(queries, reads, policies)
    nodes = tuple(seen_nodes.past_nodes(stretch.begin, stretch.step_seconds))
    if not nodes:
        raise ObservationError(
            ObservationSource.PROMETHEUS,
            "Prometheus has no kube_node_status_capacity in this time, so the size of the nodes "
            "is not known; let kube-state-metrics show its metrics of nodes.",
        )
    blocks = queries.blocks
    pods = list(seen_pods(blocks(reads.first_seen), blocks(reads.last_seen)).values())
    by_name = ByName(pods)
    add_finished(by_name, blocks(reads.finished))
    add_created(by_name, blocks(reads.created))
    add_requests(by_name, blocks(reads.requests))
    kinds = {kind for policy in policies for kind in policy.protections.understood_owner_kinds}
    workloads = Workloads(blocks(reads.replica_set_owners), kinds)
    made = _Pods(nodes, workloads, stretch, policies)
    past_pods = tuple(made.of(pods))
    return Objects(nodes, past_pods, tuple(made.doubts(pods, policies)))


def _seen_nodes(queries: RangeQueries, reads: ObjectReads, policies: Sequence[Policy]) -> SeenNodes:
    keys = {key for policy in policies for key in _node_keys(policy)}
    nodes = SeenNodes(keys)
    blocks = queries.blocks
    nodes.add_amounts(blocks(reads.capacity))
    nodes.add_amounts(blocks(reads.allocatable), allocatable=True)
    nodes.add_info(blocks(reads.node_info))
    nodes.add_created(blocks(reads.node_created))
    nodes.add_labels(blocks(reads.node_labels))
    nodes.add_ready(blocks(reads.ready))
    nodes.add_cordoned(blocks(reads.cordoned))
    nodes.add_taints(blocks(reads.taints))
    return nodes


def _node_keys(policy: Policy) -> Iterator[str]:
    """The keys of node labels that a policy selects by."""
    selectors = (policy.node_selector, policy.destination_selector)
    for selector in (*selectors, *(pool.selector for pool in policy.pools)):
        yield from (requirement.key for requirement in selector.requirements)


class _Pods:
    """Makes the pods of the model from those that were seen."""

    def __init__(
        self,
        nodes: Sequence[PastNode],
        workloads: Workloads,
        stretch: Stretch,
        policies: Sequence[Policy],
    ) -> None:
        self._nodes = {node.node.name: node.node for node in nodes}
        self._workloads = workloads
        self._stretch = stretch
        self._classes = Classes()
        self._labels: dict[str, dict[str, str]] = {}
        thresholds = (policy.protections.priority_threshold for policy in policies)
        self._protects = any(t.value is not None or t.class_name is not None for t in thresholds)

    def of(self, seen: Sequence[SeenPod]) -> Iterator[PastPod]:
        """The pods that ran on known nodes in the time, by when they began."""
        newest = max((pod.last_seen for pod in seen), default=0.0)
        tolerations = self._tolerations(seen)
        row = 0
        for pod in sorted(seen, key=lambda pod: (pod.first_seen, pod.name)):
            ended = _ended(pod, newest)
            first, last = self._span(pod.first_seen, ended)
            if pod.node not in self._nodes or first >= last:
                continue
            tolerated = tolerations.get(_group(pod), ())
            yield PastPod(
                pod=self._pod(pod, tolerated),
                began=_time(pod.first_seen),
                ended=_time(ended) if ended is not None else None,
                workload=self._workloads.of(pod),
                first_row=row,
                first_step=first,
                levels=last - first,
            )
            row += last - first + 1

    def doubts(self, seen: Sequence[SeenPod], policies: Sequence[Policy]) -> Iterator[Doubt]:
        """What is not known of the pods."""
        yield Doubt(Caveat.CONSTRAINTS_UNKNOWN)
        if any(self._tolerations(seen).values()):
            yield Doubt(Caveat.TOLERATIONS_GUESSED)
        elsewhere = sum(pod.node not in self._nodes for pod in seen)
        if elsewhere:
            yield Doubt(Caveat.NODES_WITHOUT_SIZE, f"{elsewhere} pods")
        if not any(pod.requests for pod in seen):
            yield Doubt(Caveat.REQUESTS_UNKNOWN)
        classes = sum(pod.has_unknown_priority for pod in seen)
        if classes and self._protects:
            yield Doubt(Caveat.PRIORITIES_UNKNOWN, f"{classes} pods")
        rules = (policy.protections for policy in policies)
        if any(r.labels.requirements or r.namespace_labels.requirements for r in rules):
            yield Doubt(Caveat.LABELS_UNKNOWN)

    def _pod(self, seen: SeenPod, tolerations: tuple[Toleration, ...]) -> Pod:
        namespace, name, uid = seen.name
        owner = seen.owner
        # All pods of a controller share these objects, and with them what is computed of them.
        labels = self._labels.setdefault(
            owner.uid if owner else uid, {_REVISION_LABEL: owner.uid} if owner else {}
        )
        began_here = seen.first_seen > self._stretch.begin + SEEN_SECONDS
        started = seen.first_seen if began_here else seen.created or seen.first_seen
        unknown = self._protects and seen.has_unknown_priority
        return Pod(
            namespace=namespace,
            name=name,
            uid=uid or f"{namespace}/{name}/{seen.node}",
            scheduling=self._classes.of(seen, tolerations),
            created_at=_time(min(started, seen.created or started)),
            labels=labels,
            owner=owner,
            node=seen.node,
            started_at=_time(started),
            priority=HIGHEST_PRIORITY if unknown else seen.priority,
        )

    def _span(self, began: float, ended: float | None) -> tuple[int, int]:
        """The first step of a pod, and the one after its last."""
        begin, end, step_seconds = self._stretch
        first = max(0, math.floor((began - begin) / step_seconds))
        last = math.ceil((min(ended or end, end) - begin) / step_seconds)
        return first, min(last, (end - begin) // step_seconds)

    def _tolerations(self, seen: Sequence[SeenPod]) -> dict[str, tuple[Toleration, ...]]:
        """What the pods of each controller tolerate: the taints of nodes that they were on."""
        tolerations: dict[str, set[Toleration]] = {}
        for pod in seen:
            node = self._nodes.get(pod.node)
            for taint in node.taints if node else ():
                if taint.effect in _HARD:
                    tolerated = Toleration(taint.key, "Equal", taint.value, taint.effect)
                    tolerations.setdefault(_group(pod), set()).add(tolerated)
        order = {group: sorted(each, key=repr) for group, each in tolerations.items()}
        return {group: tuple(each) for group, each in order.items()}


def _group(pod: SeenPod) -> str:
    return pod.owner.uid if pod.owner else "/".join(pod.name)


def _ended(pod: SeenPod, newest: float) -> float | None:
    """When the pod ended, None if it was seen as long as any."""
    gone = pod.last_seen + GONE_AFTER_SECONDS < newest
    ends = [pod.last_seen] if gone else []
    if pod.finished is not None:
        ends.append(pod.finished)
    return min(ends, default=None)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
