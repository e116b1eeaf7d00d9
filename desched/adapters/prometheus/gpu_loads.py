"""The load of the GPUs of each node, from DCGM's exporter: how much of the time they are busy."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from desched.adapters.prometheus.client import Labels, Series
from desched.adapters.prometheus.cycle_queries import CycleQueries, Query
from desched.adapters.prometheus.data_quality import (
    Key,
    NodeEvidence,
    Sighting,
    WindowEvidence,
    judge,
)
from desched.adapters.prometheus.nodes import NodeIndex
from desched.adapters.prometheus.queries import DCGM, GPU_SOURCES, scope_of
from desched.errors import ObservationError
from desched.model.cluster import ClusterState, Node
from desched.model.devices import has_nvidia_gpu
from desched.model.load import Measured, Unknown, UnknownReason
from desched.policy.policy import MetricsSource

_ABSENT = f"no series of {DCGM} belongs to this node"
_QUESTIONS = ("age", "covered", "load")

_Values = Mapping[Key, float]
"""By the labels of a GPU's series."""


def read_gpus(
    queries: CycleQueries,
    index: NodeIndex,
    metrics: MetricsSource,
    cluster: ClusterState,
    window_seconds: int,
) -> dict[str, Measured | Unknown]:
    """The mean load of the GPUs of each node that has some; the loads of other resources need none.

    If Prometheus has no complete answer, those of all nodes are unknown.
    """
    nodes = [node for node in cluster.nodes if has_nvidia_gpu(node.allocatable)]
    if not nodes:
        return {}
    try:
        answers = queries.vectors(_parts(metrics, window_seconds))
    except ObservationError as error:
        return _unknown(nodes, str(error))
    if queries.warnings:
        return _unknown(nodes, next(iter(queries.warnings)))
    found = [
        _by_node(index, *(answers[f"{name}_{each}"] for each in _QUESTIONS)) for name in GPU_SOURCES
    ]
    return {node.name: judge(_evidence(node, found, queries, window_seconds)) for node in nodes}


def _unknown(nodes: Iterable[Node], why: str) -> dict[str, Measured | Unknown]:
    return {node.name: Unknown(UnknownReason.ABSENT, why) for node in nodes}


def _parts(metrics: MetricsSource, window_seconds: int) -> dict[str, Query]:
    parts = {}
    for name, source in GPU_SOURCES.items():
        scope = scope_of(metrics, "node_gpu", source.scope)
        parts[f"{name}_age"] = Query(source.age(scope))
        parts[f"{name}_covered"] = Query(source.covered_checkpoints(window_seconds, scope))
        parts[f"{name}_load"] = Query(source.ratio(window_seconds, scope))
    return parts


class _Gpus:
    """The GPUs of one node by one metric."""

    def __init__(self) -> None:
        self.ages: dict[Key, float] = {}
        self.covered: _Values = {}
        self.loads: _Values = {}


def _by_node(
    index: NodeIndex,
    ages: Sequence[Series[Labels]],
    covered: Sequence[Series[Labels]],
    loads: Sequence[Series[Labels]],
) -> dict[str, _Gpus]:
    """The GPUs of each node whose series have not ended."""
    found: dict[str, _Gpus] = {}
    values = [{frozenset(s.labels.items()): s.value for s in some} for some in (covered, loads)]
    for series in ages:
        node = index.resolve(series.labels)
        if node is not None:
            gpus = found.setdefault(node, _Gpus())
            gpus.ages[frozenset(series.labels.items())] = series.value
            gpus.covered, gpus.loads = values
    return found


def _evidence(
    node: Node, found: Sequence[Mapping[str, _Gpus]], queries: CycleQueries, window_seconds: int
) -> NodeEvidence:
    """The evidence of the metric that has most of the node's GPUs, as if of one series.

    Age and coverage are those of the worst GPU.
    """
    none = _Gpus()
    gpus = max((each.get(node.name, none) for each in found), key=lambda each: len(each.ages))
    key: Key = frozenset({("node", node.name)})
    at = queries.evaluated_at
    if not gpus.ages or at is None:
        return NodeEvidence(
            [WindowEvidence(window_seconds, (), {})], {}, 0.0, absent_detail=_ABSENT
        )
    loads = [gpus.loads.get(gpu, float("nan")) for gpu in gpus.ages]
    covered = min(gpus.covered.get(gpu, 0.0) for gpu in gpus.ages)
    window = WindowEvidence(window_seconds, [Sighting(key, fmean(loads))], {key: covered})
    age_seconds = (at - node.created_at).total_seconds()
    return NodeEvidence([window], {key: max(gpus.ages.values())}, age_seconds)
