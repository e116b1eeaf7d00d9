"""How far apart the pods of each gang are, and how many nodes hold the models that pods need."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from msgspec.structs import replace

from desched.model.cluster import Pod
from desched.model.groups import grouped
from desched.model.model_caches import CachedModel
from desched.model.plan import NodeClass, NodeVerdict
from desched.model.report import GangSpread, ModelNodes
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.placement.network_levels import NetworkLevels

MOST_GANGS = 50
"""Gangs of which the spread is known; those on overloaded nodes first."""

MOST_MODELS = 20
"""Models whose nodes are counted. Tenants decide how many there are, so each namespace takes its
turn."""

MOST_CHARACTERS = 80
"""Of the name of a model, which tenants write."""


class Locality(NamedTuple):
    """Where gangs and models are."""

    gangs: tuple[GangSpread, ...]
    models: tuple[ModelNodes, ...]

    @classmethod
    def of(cls, context: EligibilityContext, nodes: Sequence[NodeVerdict]) -> "Locality":
        """That of a cluster; `nodes` are the verdicts of a plan."""
        hot = {each.node for each in nodes if each.node_class is NodeClass.OVERLOADED}
        return cls(tuple(_spreads(context, hot)), tuple(_model_nodes(context)))


def _spreads(context: EligibilityContext, hot: set[str]) -> Iterator[GangSpread]:
    gangs: dict[str, dict[str, Pod]] = {}
    for pod in chain.from_iterable(context.members.values()):
        for group in context.gangs_of(pod) if pod.node else ():
            gangs.setdefault(str(replace(group, part="")), {})[pod.uid] = pod
    found = {name: [p.node for p in pods.values()] for name, pods in gangs.items() if len(pods) > 1}
    ranked = sorted(found, key=lambda name: (hot.isdisjoint(found[name]), name))
    if not ranked:
        return
    arrays = NodeArrays(context.cluster.nodes)
    network = NetworkLevels(arrays, context.cluster, context.policy.domains.rungs)
    for name in ranked[:MOST_GANGS]:
        on = [arrays.index[node] for node in found[name] if node in arrays.index]
        spread = network.spread(on)
        nodes = len(set(found[name]))
        yield GangSpread(name, len(found[name]), nodes, *spread, not hot.isdisjoint(found[name]))


def _model_nodes(context: EligibilityContext) -> Iterator[ModelNodes]:
    workloads: dict[object, Pod] = {}
    for pod in context.cluster.pods:
        if pod.node and not pod.finished:
            workloads.setdefault((pod.namespace, pod.controller or pod.uid), pod)
    needed = grouped(
        (pod.namespace, model) for pod in workloads.values() for model in context.models_of(pod)
    )
    users = Counter(model for models in needed.values() for model in models if model.is_named)
    for model in islice(_in_turn(needed, users), MOST_MODELS):
        held = sum(map(model.is_on, context.cluster.nodes))
        yield ModelNodes(model.name[:MOST_CHARACTERS], held, users[model])


def _in_turn(
    needed: Mapping[str, Sequence[CachedModel]], users: Mapping[CachedModel, int]
) -> Iterator[CachedModel]:
    """The models, those of most workloads first, so that no namespace leaves others without."""
    by_namespace = [
        sorted({m for m in models if m in users}, key=lambda m: (-users[m], m.name, m.label))
        for _, models in sorted(needed.items())
    ]
    names = set[str]()
    for model in chain.from_iterable(zip_longest(*by_namespace)):
        if model is not None and model.name[:MOST_CHARACTERS] not in names:
            names.add(model.name[:MOST_CHARACTERS])
            yield model
