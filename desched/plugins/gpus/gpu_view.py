"""GPUs of a cluster as people see them: what is idle, what it is good for, and who waits."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from desched.model.groups import grouped
from desched.plugins.gpus.facts import (
    SIZES,
    ClusterGpus,
    GpuAnswer,
    GpusLeftOut,
    GpuWait,
    NodeGpus,
    PodInTheWay,
)
from desched.wording.formatting import count, first_names, percent
from desched.wording.reasons import describe, sentence_of
from desched.wording.section import Cell, CellMap, Section, Tile

MOST_NAMES = 3
LARGEST_FIRST = SIZES[::-1]
SHADES = 4
"""Colours of nodes of which some GPUs are idle, by their share."""


_KEY = (
    ("0", "none"),
    ("1", "few"),
    ("4", "most"),
    ("5", "all"),
    ("unknown", "not known, or the node takes no pods"),
)


class GpuView:
    """What is measured of GPUs, as it is shown."""

    def __init__(self, gpus: ClusterGpus) -> None:
        self.gpus = gpus

    @property
    def sections(self) -> Sequence[Section]:
        """The cluster as a whole, its placement domains, and the pods that wait for GPUs."""
        return (
            Section("GPUs", list(self.lines), self.map),
            Section("GPUs by placement domain", self.domains),
            Section("Pods that wait for GPUs", self.waits),
        )

    @property
    def lines(self) -> Iterator[str]:
        """The cluster as a whole."""
        gpus = self.gpus
        if not gpus.nodes:
            yield "No node has any."
            return
        yield f"{gpus.idle} of {count(gpus.gpus, 'GPU')} are idle; {_places(gpus.places)}."
        if gpus.idle:
            share = percent(gpus.fragmented / gpus.idle)
            yield (
                f"Fragmentation: {gpus.fragmented:.1f} of the idle ones ({share} %) are of no use "
                "to an average pod of this cluster."
            )
        if gpus.pods:
            stay = ", ".join(f"{group.pods} {group.reason}" for group in gpus.staying)
            others = f"; the others: {stay}" if stay else ""
            yield f"{gpus.movable_pods} of {count(gpus.pods, 'pod')} with GPUs may move{others}."
        for reason, number in sorted(self.left_out.items()):
            yield f"{count(number, 'node is', 'nodes are')} left out: {sentence_of(reason)}"

    @cached_property
    def left_out(self) -> Mapping[GpusLeftOut, int]:
        """The number of nodes that are left out, by reason."""
        return Counter(node.left_out for node in self.gpus.nodes if node.left_out)

    @property
    def domains(self) -> Sequence[str]:
        """The placement domains, those with the most places for large pods first."""
        ranked = sorted(
            self.gpus.domains,
            key=lambda it: ([-it.places[size] for size in LARGEST_FIRST], it.level, it.domain),
        )
        return [
            f"{each.level}={each.domain}: {each.idle} of {each.gpus} idle, {_places(each.places)}"
            for each in ranked
        ]

    @property
    def waits(self) -> Sequence[str]:
        """The pods that wait for GPUs, with what keeps them from getting some."""
        return list(map(describe_wait, self.gpus.waits))

    @property
    def tiles(self) -> Iterator[Tile]:
        """How many GPUs are idle, and how many pods wait for some."""
        yield Tile(str(self.gpus.idle), "idle GPUs")
        if waiting := sum(len(wait.pods) for wait in self.gpus.waits):
            yield Tile(str(waiting), "pods wait for GPUs", "warn")

    @property
    def map(self) -> CellMap:
        """The nodes with GPUs; each row is the narrowest placement domain of its nodes."""
        nodes = sorted(self.gpus.nodes, key=lambda gpu_node: (gpu_node.domain, gpu_node.node))
        rows = grouped((node.domain or "in no placement domain", _cell(node)) for node in nodes)
        return CellMap("gpus", "Idle GPUs of each node:", _KEY, list(rows.items()))


def _cell(node: NodeGpus) -> Cell:
    """How many GPUs of a node are idle, coloured by their share."""
    title = f"{node.node}: {describe_gpus(node)}"
    if node.left_out:
        return Cell("?", "unknown", title)
    shade = SHADES + 1 if node.idle == node.gpus else -(-node.idle * SHADES // node.gpus)
    return Cell(str(node.idle), str(shade), title)


def describe_gpus(node: NodeGpus) -> str:
    """What is idle of the GPUs of a node, without a period."""
    if node.left_out:
        return f"its GPUs do not count: {sentence_of(node.left_out).removesuffix('.')}"
    return f"{node.idle} of {count(node.gpus, 'GPU')} idle, {_places(node.places)}"


def describe_wait(wait: GpuWait) -> str:
    """Who waits for GPUs, and which nodes are closest to having them."""
    demand = f"{count(wait.gpus, 'GPU')} ({wait.resource}) on one node"
    if wait.gang:
        who = f"{wait.gang} waits for {demand}, for each of {count(len(wait.pods), 'pod')}"
    elif len(wait.pods) > 1:
        who = f"{wait.pods[0]} and {len(wait.pods) - 1} alike wait for {demand} for each"
    else:
        who = f"{wait.pods[0]} waits for {demand}"
    if wait.answer is not GpuAnswer.PODS_IN_THE_WAY:
        where = f" ({', '.join(node.node for node in wait.nodes)})" if wait.nodes else ""
        detail = f" ({wait.detail})" if wait.detail and not wait.nodes else ""
        return f"{who}: {sentence_of(wait.answer).removesuffix('.')}{where}{detail}."
    names = first_names([node.node for node in wait.nodes], MOST_NAMES)
    closest = "is closest" if len(wait.nodes) == 1 else "are closest"
    inside = f" in {wait.detail}" if wait.detail else ""
    return f"{who}; {names} {closest}{inside}: {_in_the_way(wait.leaving)}."


def in_the_way(wait: GpuWait) -> Mapping[str, tuple[str, ...]]:
    """The pods that would have to leave each of the closest nodes, and which of them may."""
    return {
        f"On {node.node}, for {count(node.places, 'pod')}": tuple(
            map(_pod_in_the_way, node.leaving)
        )
        for node in wait.nodes
    }


def _pod_in_the_way(pod: PodInTheWay) -> str:
    holds = f"{pod.pod} with {count(pod.gpus, 'GPU')}"
    if pod.reason is None:
        return f"{holds} may leave"
    return f"{holds} stays, {pod.reason}: {describe(pod.reason, pod.detail)}"


def _in_the_way(pods: Sequence[PodInTheWay]) -> str:
    """The pods that would have to leave, as in `3 pods would leave, 2 may, a not: bare_pod`."""
    would = f"{count(len(pods), 'pod')} would leave"
    staying = grouped((pod.reason, str(pod.pod)) for pod in pods if pod.reason is not None)
    may = len(pods) - sum(map(len, staying.values()))
    if not staying:
        return f"{would}, and may"
    parts = [f"{first_names(names, MOST_NAMES)} not: {reason}" for reason, names in staying.items()]
    return f"{would}, {may or 'none'} may, {'; '.join(parts)}"


def _places(places: Mapping[int, int]) -> str:
    """How many pods would find so many GPUs, as in `places for 1/2/4/8 GPUs: 9/4/2/1`."""
    sizes, numbers = ("/".join(map(str, each)) for each in (places, places.values()))
    return f"places for {sizes} GPUs: {numbers}"
