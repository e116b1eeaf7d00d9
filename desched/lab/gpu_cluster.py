"""A GPU cluster as data: 16 nodes in 4 racks and 2 blocks, of which the first rack is overloaded.

The demonstration and the tests build it in memory, another test on a real API server.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from desched.gangs.objects import DeclaredGroup, GangObjects
from desched.gangs.pod_groups import VOLCANO_GROUP
from desched.gangs.topology import GroupTopology
from desched.lab.history import Usage
from desched.lab.template import PodTemplate
from desched.model.cluster import PodVolume, SchedulingClass, VolumeKind
from desched.model.networks import INTERFACES, amounts_of_networks, interfaces_text, networks_of
from desched.model.resources import Amounts
from desched.model.selectors import NodeSelectorTerm, Operator, Requirement
from desched.network.objects import HyperNode, NetworkObjects

MIB = 1024**2
CPU_MILLICORES = 8000
BLOCK = "cloud.google.com/gce-topology-block"
RACK = "cloud.google.com/gce-topology-subblock"
PLACEMENT_GROUP = "cloud.google.com/gke-placement-group"
ACCELERATOR = "cloud.google.com/gke-accelerator"
GPU = "nvidia.com/gpu"
NETWORKS = ("vpc1", "vpc2", "vpc3", "vpc4")

RACKS: Mapping[str, Sequence[str]] = {
    "r1": ("te1", "te2", "te3", "te4"),
    "r2": ("te5", "te6", "te7", "te8"),
    "r3": ("te9", "te10", "te11", "te12"),
    "r4": ("te13", "te14", "te15", "te16"),
}
OVERLOADED_RACK, RIGHT_RACK = "r1", "r2"
_BLOCKS = {"r1": "b1", "r2": "b1", "r3": "b2", "r4": "b2"}
CACHE_KEY, CACHE_LABEL = "desched.io/cache-key", "cache.desched.io/"
"""The annotation of pods that need a model, and the prefix of the label of nodes that hold it."""

_MODELS = {"llama-70b": ("te4", "te9"), "mistral-7b": ("te3", "te7", "te8")}

HYPER_NODES = (
    *(HyperNode(rack, 1, "rack", tuple(nodes)) for rack, nodes in RACKS.items()),
    HyperNode("b1", 2, "block", (), ("r1", "r2")),
    HyperNode("b2", 2, "block", (), ("r3", "r4")),
)
"""The racks and blocks, as Volcano knows them."""

_IN_A_RACK = GroupTopology(hard=True, highest_tier=1)
GANG = DeclaredGroup("Volcano", "train", "llama", 8, topology=_IN_A_RACK)
"""The PodGroup of the training: all eight ranks in one rack."""

EXTRAS = {**NetworkObjects(HYPER_NODES).extras, **GangObjects((GANG,)).extras}


class AiNode(NamedTuple):
    """A node with its labels and its devices."""

    name: str
    labels: Mapping[str, str]
    devices: Mapping[str, int]


class AiWorkload(NamedTuple):
    """A Deployment with a replica on each of these nodes, or a bare pod.

    `about` says what it is; `annotations` are those of the Deployment.
    """

    about: str
    namespace: str
    template: PodTemplate
    nodes: Sequence[str]
    annotations: Mapping[str, str] = {}
    bare: bool = False

    @property
    def name(self) -> str:
        """The value of the label `app` of its pods."""
        return self.template.labels["app"]


def ai_nodes() -> list[AiNode]:
    """All nodes; only those of the first block have the fast networks."""
    return [_node(name, rack) for rack, names in RACKS.items() for name in names]


def ai_workloads() -> list[AiWorkload]:
    """All workloads; inference may move in spite of its GPUs, training may not."""
    return [*_training(), *_inference()]


def _training() -> Iterator[AiWorkload]:
    ranks = [name for name in RACKS[OVERLOADED_RACK] for _ in range(2)]
    yield AiWorkload(
        "a gang of 8 ranks in one rack that needs all 8 (Volcano)", "train", _rank(), ranks
    )
    lone = "a pod that nothing creates again (SkyPilot)"
    yield AiWorkload(lone, "research", _sky_head(), ("te3",), bare=True)
    tuning = _template("finetune", 2000, 6000, gpus=4)
    yield AiWorkload("trainings", "train", tuning, [*RACKS["r3"], *RACKS["r4"]])


def _inference() -> Iterator[AiWorkload]:
    opt_in = {"desched.io/evict": "true"}
    chat = "te1", *RACKS[RIGHT_RACK][:3]
    about = "inference: 3 of its 4 pods are needed (Koordinator)"
    yield AiWorkload(about, "serve", _chat(), chat, opt_in)
    about = "inference with the four networks of GPUDirect-TCPX"
    yield AiWorkload(about, "serve", _embed(), ("te2", "te5"), opt_in)
    for app, model, usage_millicores, nodes in (
        ("mistral", "mistral-7b", 1200, ("te3", "te8")),
        ("llama-chat", "llama-70b", 1000, ("te4", "te9")),
    ):
        about = f"inference with {model}, cached on {', '.join(_MODELS[model])}"
        yield AiWorkload(about, "serve", _cached(app, model, usage_millicores), nodes, opt_in)
    for app in ("tokenizer", "gateway"):
        yield AiWorkload("requests without a GPU", "web", _template(app, 500, 500), ("te4", "te6"))


def _node(name: str, rack: str) -> AiNode:
    block = _BLOCKS[rack]
    models = {CACHE_LABEL + model: "true" for model, on in _MODELS.items() if name in on}
    labels = {
        BLOCK: block,
        RACK: rack,
        PLACEMENT_GROUP: f"pg-{block}",
        ACCELERATOR: "nvidia-h100-80gb",
        **models,
    }
    networks = amounts_of_networks(NETWORKS).extended if block == "b1" else ()
    return AiNode(name, labels, {GPU: 8, **dict(networks)})


def _rank() -> PodTemplate:
    """A rank of a training, whose PodGroup needs all of them."""
    ranks = _template(GANG.name, 2400, 2000, {VOLCANO_GROUP: GANG.name}, gpus=2)
    return replace(ranks, scheduler="volcano")


def _sky_head() -> PodTemplate:
    """A pod of SkyPilot, which nothing creates again."""
    head = _template("sky-head", 800, 500)
    return replace(head, labels={**head.labels, "skypilot-cluster-name": "sky"})


def _chat() -> PodTemplate:
    """A server whose gang needs three of its four pods."""
    gang = "gang.scheduling.koordinator.sh"
    marks = {f"{gang}/name": "chat", f"{gang}/min-available": "3"}
    return _template("chat", 2000, 1000, marks, gpus=1)


def _embed() -> PodTemplate:
    """A server with the fast networks of GPUDirect-TCPX and the paths that these need."""
    networks = {INTERFACES: interfaces_text(("default", *NETWORKS))}
    template = _template("embed", 2000, 1000, networks, gpus=2)
    volumes = (
        PodVolume(VolumeKind.HOST_PATH, path="/home/kubernetes/bin/nvidia"),
        PodVolume(VolumeKind.HOST_PATH, path="/run/tcpx"),
        PodVolume(VolumeKind.EMPTY_DIR, in_memory=True),
    )
    return replace(template, volumes=volumes)


def _cached(app: str, model: str, usage_millicores: int) -> PodTemplate:
    """A server of a model that only some nodes hold, which it prefers."""
    template = _template(app, usage_millicores, 1000, {CACHE_KEY: model}, gpus=2)
    warm = NodeSelectorTerm((Requirement(CACHE_LABEL + model, Operator.EXISTS),))
    scheduling = replace(template.scheduling, preferred_node_affinity=((100, warm),))
    return replace(template, scheduling=scheduling)


def _template(
    app: str,
    usage_millicores: int,
    request_millicores: int,
    annotations: Mapping[str, str] | None = None,
    gpus: int = 0,
) -> PodTemplate:
    """A pod with this CPU, and little memory."""
    annotations = annotations or {}
    networks = amounts_of_networks(networks_of(annotations) or ()).extended
    devices = (*networks, *([(GPU, gpus)] if gpus else []))
    requests = Amounts(request_millicores, 256 * MIB, pods=1, extended=devices)
    return PodTemplate(
        scheduling=SchedulingClass(requests),
        usage=Usage(usage_millicores, 256 * MIB),
        labels={"app": app},
        annotations=annotations,
    )
