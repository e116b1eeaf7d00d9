"""GPUs and drains as metrics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from desched.model.state import State
from desched.plugins.gpus.drains.drain import Drains
from desched.plugins.gpus.facts import ClusterGpus, GpuAnswer, GpusLeftOut
from desched.wording.plugin_views import Gauge

_HELP_TEXTS: Mapping[str, str] = {
    "desched_gpus": "Whole GPUs of the nodes that are not left out.",
    "desched_unknown_gpu_nodes": "Nodes with GPUs of unknown load, if gpu has a target.",
    "desched_idle_gpus": "Whole GPUs that no pod holds.",
    "desched_fragmented_gpus": "Idle GPUs that an average pod of the cluster could not use.",
    "desched_gpu_places": "Pods with so many GPUs on one node that would find them idle.",
    "desched_gpu_nodes_left_out": "Nodes whose GPUs are not counted, by reason.",
    "desched_gpu_pods": "Pods that hold whole GPUs.",
    "desched_movable_gpu_pods": "Pods that hold whole GPUs and may move, although they do.",
    "desched_pods_waiting_for_gpus": "Pods that find no GPUs, by what keeps them from them.",
    "desched_node_idle_gpus": "Whole GPUs of a node that no pod holds.",
    "desched_node_fragmented_gpus": "Idle GPUs of a node that an average pod could not use.",
    "desched_domain_idle_gpus": "Whole GPUs of a placement domain that no pod holds.",
    "desched_domain_gpu_places": "Places in a placement domain for pods with so many GPUs.",
    "desched_drains_under_way": "Drains for pods that wait for GPUs, or for reserves.",
    "desched_drained_nodes": "Nodes that drains under way hold.",
}


def gpu_gauges(gpus: ClusterGpus) -> Iterator[Gauge]:
    """The numbers of the cluster, of its nodes and of its placement domains."""
    yield _number("desched_gpus", gpus.gpus)
    if gpus.unknown_nodes is not None:
        yield _number("desched_unknown_gpu_nodes", gpus.unknown_nodes)
    yield _number("desched_idle_gpus", gpus.idle)
    yield _number("desched_fragmented_gpus", gpus.fragmented)
    yield _number("desched_gpu_pods", gpus.pods)
    yield _number("desched_movable_gpu_pods", gpus.movable_pods)
    places = (([str(size)], number) for size, number in gpus.places.items())
    yield _gauge("desched_gpu_places", ["gpus"], places)
    left_out = Counter(node.left_out for node in gpus.nodes)
    values = (([reason.value], left_out[reason]) for reason in GpusLeftOut)
    yield _gauge("desched_gpu_nodes_left_out", ["reason"], values)
    waits = Counter[GpuAnswer]()
    for wait in gpus.waits:
        waits[wait.answer] += len(wait.pods)
    answers = (([answer.value], waits[answer]) for answer in GpuAnswer)
    yield _gauge("desched_pods_waiting_for_gpus", ["answer"], answers)
    counted = [node for node in gpus.nodes if node.left_out is None]
    idle = (([node.node], node.idle) for node in counted)
    yield _gauge("desched_node_idle_gpus", ["node"], idle)
    fragmented = (([node.node], node.fragmented) for node in counted)
    yield _gauge("desched_node_fragmented_gpus", ["node"], fragmented)
    domains = [([domain.level, domain.domain], domain) for domain in gpus.domains]
    of_domains = ((labels, domain.idle) for labels, domain in domains)
    yield _gauge("desched_domain_idle_gpus", ["level", "domain"], of_domains)
    of_sizes = (
        ([*labels, str(size)], number)
        for labels, domain in domains
        for size, number in domain.places.items()
    )
    yield _gauge("desched_domain_gpu_places", ["level", "domain", "gpus"], of_sizes)


def drain_gauges(state: State) -> Iterator[Gauge]:
    """How many drains are under way, and how many nodes they hold."""
    under_way = Drains.of(state.extras).under_way
    yield _number("desched_drains_under_way", len(under_way))
    yield _number("desched_drained_nodes", len({n for drain in under_way for n in drain.nodes}))


def _number(name: str, number: float) -> Gauge:
    return _gauge(name, (), [((), number)])


def _gauge(
    name: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> Gauge:
    return Gauge(name, _HELP_TEXTS[name], labels, samples)
