"""Reads the state of a cluster in pages, and one pod with what decides on its eviction."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from desched.adapters.bounded_http import Deadline
from desched.adapters.kubernetes.client.access import GET_POD
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.api_types.status import Version
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import Reading, UnreadKinds
from desched.adapters.kubernetes.objects.autoscalers import AUTOSCALERS, scaling_by_target
from desched.adapters.kubernetes.objects.bounded_constraints import is_reduced, without_uncounted
from desched.adapters.kubernetes.objects.budgets import (
    BUDGETS,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICES,
)
from desched.adapters.kubernetes.objects.declared_owners import (
    OwnerKind,
    read_declared_owner,
    read_declared_owners,
)
from desched.adapters.kubernetes.objects.device_counts import DeviceObjects, with_devices
from desched.adapters.kubernetes.objects.nodes import NODES
from desched.adapters.kubernetes.objects.pods import pods_kind
from desched.adapters.kubernetes.objects.resource_claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    DEVICE_KINDS,
    RESOURCE_CLAIMS,
    SLICES,
    TAINT_RULES,
)
from desched.adapters.kubernetes.objects.storage import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES
from desched.adapters.kubernetes.objects.vertical_autoscalers import (
    VERTICAL_AUTOSCALERS,
    sizing_by_target,
)
from desched.adapters.kubernetes.objects.volcano_scheduler import read_configuration
from desched.adapters.kubernetes.objects.workloads import (
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Controllers,
    owners_by_controller,
    selectors_by_controller,
    workloads_by_controller,
)
from desched.api_objects.access import Access
from desched.api_objects.decoding import Decoder
from desched.api_objects.kinds import Kind, Lists
from desched.api_objects.memory_bounds import TooLarge
from desched.errors import ObservationError, ObservationSource
from desched.model.cluster import (
    ClusterState,
    LargeObjects,
    Node,
    Owner,
    Pod,
    PodRef,
    ServerHealth,
)
from desched.model.extras import Extras, Objects
from desched.model.snapshot import FreshPod, Room
from desched.plugins.kinds import PLUGIN_KINDS, siblings_decide
from desched.ports import MaybeFreshPod, PodToRead

W = TypeVar("W")
V = TypeVar("V")

NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"
"""The label that each namespace has."""

PAGE_SIZE = 500
CLUSTER_DEADLINE_SECONDS = 240.0
"""For all lists together: a cycle should end before the next one is due."""


KINDS: tuple[Kind[Any, Any], ...] = (
    NODES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    JOBS,
    AUTOSCALERS,
    VERTICAL_AUTOSCALERS,
    BUDGETS,
    PRIORITY_CLASSES,
    NAMESPACES,
    CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    SERVICES,
    *DEVICE_KINDS,
    *(kind for plugin_kinds in PLUGIN_KINDS for kind in plugin_kinds.kinds),
)
"""All kinds that the state of the cluster is made from, beside pods."""


class ServerFacts(NamedTuple):
    """The API server's version, its clock at its earliest and latest answer, and its health."""

    version: str
    times: tuple[datetime, datetime]
    health: ServerHealth


@dataclass
class KubernetesReader:
    """The ClusterReader for a real API server.

    `own_pod` is where desched itself runs, None outside the cluster. `deadline_seconds` is for each
    request with its retries.
    """

    connection: KubernetesConnection
    _: KW_ONLY
    own_pod: PodRef | None = None
    page_size: int = PAGE_SIZE
    deadline_seconds: float = DEADLINE_SECONDS
    cluster_deadline_seconds: float = CLUSTER_DEADLINE_SECONDS
    unread: UnreadKinds = field(default_factory=UnreadKinds)
    _owner_kinds: Mapping[str, OwnerKind] = field(default_factory=dict, init=False)

    def read_cluster(
        self, declared_kinds: Sequence[str] = (), volcano_configurations: Sequence[str] = ()
    ) -> ClusterState:
        """All that planning needs, in a few consistent lists."""
        read = self._reading(self.cluster_deadline_seconds)
        state = cluster_state(read, lambda: _facts(read, self._version()), self.own_pod)
        return self.with_named(state, declared_kinds, volcano_configurations)

    def with_named(
        self, state: ClusterState, kinds: Sequence[str], volcano_configurations: Sequence[str]
    ) -> ClusterState:
        """The same state with what the policy names, read now.

        These are the controllers of the declared kinds, and configurations of Volcano. Looks at
        single pods read again the controllers of the kinds of the last call.
        """
        read = self._reading(self.cluster_deadline_seconds)
        owners = read_declared_owners(read, kinds)
        self._owner_kinds = owners.kinds
        return replace(
            state,
            declared_owners=owners.annotations,
            unread_kinds=owners.unread,
            volcano_configurations={
                place: read_configuration(read, place) for place in volcano_configurations
            },
        )

    def read_server(self) -> ServerFacts:
        """The version and the time of the API server, in one request that has to succeed.

        Only /version may be forbidden.
        """
        answer = self._version()
        if answer.status != HTTPStatus.OK and not answer.is_from_server(HTTPStatus.FORBIDDEN):
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"The API server does not work: status {answer.status}: {answer.explanation}.",
            )
        return _facts(self._reading(self.deadline_seconds), answer)

    def served_versions(self, kinds: Iterable[Access]) -> list[frozenset[str] | None]:
        """The versions of each kind's API group that the server has, None if that is not known."""
        read = self._reading(self.deadline_seconds)
        return [read.served_versions(kind) for kind in kinds]

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        """The pods of these namespaces and names with their surroundings.

        Each is read by a thread of its own, so the caller bounds their number.
        """
        if len(pods) <= 1:
            return [self._looked(pod) for pod in pods]
        with ThreadPoolExecutor(len(pods)) as pool:
            return list(pool.map(self._looked, pods))

    def _looked(self, at: PodToRead) -> MaybeFreshPod:
        try:
            return self._look(at)
        except ObservationError as error:
            return error

    def _look(self, at: PodToRead) -> FreshPod | None:
        """One pod; None if there is none.

        Five or six requests within one deadline, one more for a controller of a declared kind, two
        for a node with room, up to four for what a plugin reads again, and four or five for
        ResourceClaims. Other pods are read only if they decide, then all of the namespace, or for a
        pod with claims, then those of its namespace on its node. No right is needed beyond those of
        `read_cluster` and `get pods`. Budgets are read last, so that what protects the pod is the
        newest. VerticalPodAutoscalers are not read again: what they recommend changes over hours.
        """
        ref, read = at.pod, self._reading(self.deadline_seconds)
        pod = read.one(pods_kind()._replace(access=GET_POD), ref.name, ref.namespace)
        if pod is None:
            return None
        node = read.named(NODES, pod.node) if pod.node else None
        workload = controller_owner = annotations = None
        if pod.owner is not None and pod.controller is not None:
            controllers = _controllers_of(read, pod.owner, pod.namespace)
            scaling = scaling_by_target(read.all(AUTOSCALERS, pod.namespace))
            # By uid: a later controller of the same name is not the pod's.
            workload = workloads_by_controller(controllers, scaling, {}).get(pod.controller)
            controller_owner = owners_by_controller(controllers).get(pod.controller)
            owner = controller_owner or pod.owner
            annotations = read_declared_owner(read, owner, pod.namespace, self._owner_kinds)
        room = _room(read, at.room_on) if at.room_on else None
        pod, room = _with_devices(read, pod, room)
        extras: dict[str, Objects] = {}
        for kinds in PLUGIN_KINDS:
            objects = kinds.around(read, pod, workload)
            extras |= objects.extras if objects else {}
        siblings: tuple[Pod, ...] = ()
        of_all = at.siblings and siblings_decide(pod, workload, extras)
        if of_all or pod.may_share_claims:
            siblings = read.all(pods_kind(), pod.namespace, on_node="" if of_all else pod.node)
        budgets = read.all(BUDGETS, pod.namespace)
        return FreshPod(
            *(pod, node, workload, controller_owner, budgets, room, siblings),
            owner_annotations=annotations,
            too_large=next(map(str, read.too_large), ""),
            extras=extras,
        )

    def _reading(self, seconds: float) -> Reading:
        deadline = Deadline(seconds)
        read = Reading(self.connection, self.page_size, self.deadline_seconds, deadline)
        read.unread = self.unread
        return read

    def _version(self) -> Answer:
        return self.connection.get("/version", deadline_seconds=self.deadline_seconds)


def cluster_state(
    read: Lists, server: Callable[[], ServerFacts], own_pod: PodRef | None
) -> ClusterState:
    """The state of the cluster, made from lists of all its objects.

    Budgets and controllers are read after the pods, so that what protects pods is newest.
    """
    # Plans find nodes by name. A server that lists one twice is broken, and must break no plan.
    nodes = tuple({node.name: node for node in read.all(NODES)}.values())
    pods = read.all(pods_kind())
    controllers = Controllers(
        read.all(DEPLOYMENTS), read.all(REPLICA_SETS), read.all(STATEFUL_SETS), read.all(JOBS)
    )
    scaling = scaling_by_target(read.all(AUTOSCALERS))
    sizing = sizing_by_target(read.all(VERTICAL_AUTOSCALERS))
    reduced = [pod for pod in pods if pod.scheduling.unevaluated and is_reduced(pod.scheduling)]
    nodes, pods = with_devices(without_uncounted(nodes, reduced), pods, _device_objects(read))
    state = ClusterState(
        nodes=nodes,
        pods=pods,
        workloads=workloads_by_controller(controllers, scaling, sizing),
        sized_owners=frozenset(sizing),
        controller_selectors=selectors_by_controller(controllers),
        controller_owners=owners_by_controller(controllers),
        budgets=read.all(BUDGETS),
        priority_classes=dict(read.all(PRIORITY_CLASSES)),
        namespaces=dict(read.all(NAMESPACES)),
        claims={(claim.namespace, claim.name): claim for claim in read.all(CLAIMS)},
        volumes={volume.name: volume for volume in read.all(VOLUMES)},
        storage_classes={
            storage_class.name: storage_class for storage_class in read.all(STORAGE_CLASSES)
        },
        csi_nodes={node.name: node for node in read.all(CSI_NODES)},
        services=read.all(SERVICES),
        extras=_extras(read, nodes),
        own_pod=own_pod,
    )
    facts = server()
    large = {item.name for item in read.too_large if item.kind == NAMESPACES.wire.__name__}
    return replace(
        state,
        server_version=facts.version,
        server_times=facts.times,
        server_health=facts.health,
        too_large=_large_objects(read.too_large, reduced),
        namespaces={**state.namespaces, **{name: {NAME_OF_NAMESPACE: name} for name in large}},
    )


def _extras(read: Lists, nodes: Sequence[Node]) -> Extras:
    """What plugins keep of their objects."""
    extras: dict[str, Objects] = {}
    for kinds in PLUGIN_KINDS:
        extras |= kinds.build(read, nodes).extras
    return extras


def _large_objects(items: Iterable[TooLarge], reduced: Iterable[Pod]) -> Mapping[str, LargeObjects]:
    """What is not kept, by namespace."""
    large: dict[str, LargeObjects] = {}
    for item in items:
        large_objects = large.get(item.namespace, LargeObjects(example=str(item)))
        large[item.namespace] = replace(large_objects, objects=large_objects.objects + 1)
    for pod in reduced:
        example = f"Pod {pod.name}: {pod.scheduling.unevaluated[0]}"
        large_objects = large.get(pod.namespace, LargeObjects(example=example))
        large[pod.namespace] = replace(large_objects, pods=large_objects.pods + 1)
    return large


def _device_objects(read: Lists) -> DeviceObjects:
    return DeviceObjects(
        read.all(SLICES),
        read.all(RESOURCE_CLAIMS),
        read.all(CLAIM_TEMPLATES),
        read.all(DEVICE_CLASSES),
        read.all(TAINT_RULES),
    )


def _with_devices(read: Reading, pod: Pod, room: Room | None) -> tuple[Pod, Room | None]:
    """The pod with its devices, and what is free of them where an earlier move made room."""
    if not pod.claim_templates:
        return pod, room
    nodes = (pod.node,) if room is None else (pod.node, room.node.name)
    slices = [device_slice for name in nodes for device_slice in read.all(SLICES, on_node=name)]
    claims = read.all(RESOURCE_CLAIMS, pod.namespace if room is None else "")
    templates = read.all(CLAIM_TEMPLATES, pod.namespace if room is None else "")
    # Rules that taint devices are not read again: they change rarely.
    objects = DeviceObjects(slices, claims, templates, read.all(DEVICE_CLASSES), ())
    if room is None:
        return with_devices((), (pod,), objects)[1][0], None
    (node,), (pod, *others) = with_devices((room.node,), (pod, *room.pods), objects)
    return pod, Room(node, tuple(others))


def _room(read: Reading, name: str) -> Room | None:
    node = read.named(NODES, name)
    if node is None:
        return None
    pods = read.all(pods_kind(), on_node=name)
    (node,) = without_uncounted((node,), pods)
    return Room(node, pods)


def _controllers_of(read: Reading, owner: Owner, namespace: str) -> Controllers:
    """The pod's controller, and a ReplicaSet's Deployment; empty if the kind is not supported."""
    match owner.kind:
        case "ReplicaSet":
            owners = _named(read, REPLICA_SETS, owner, namespace)
            above = owners[0].owner if owners else None
            if above is None or above.kind != "Deployment":
                return Controllers(replica_sets=owners)
            return Controllers(_named(read, DEPLOYMENTS, above, namespace), owners)
        case "StatefulSet":
            return Controllers(stateful_sets=_named(read, STATEFUL_SETS, owner, namespace))
        case "Job":
            return Controllers(jobs=_named(read, JOBS, owner, namespace))
        case _:
            return Controllers()


def _named(read: Reading, kind: Kind[W, W], owner: Owner, namespace: str) -> Sequence[W]:
    item = read.named(kind, owner.name, namespace)
    return () if item is None else (item,)


def _facts(read: Reading, answer: Answer) -> ServerFacts:
    """The version, empty if it is not known: only forecasts use it; and the times so far."""
    if answer.date is not None:
        read.dates.append(answer.date)
    times, health = _server_times(read), read.connection.reads.health()
    if answer.status != HTTPStatus.OK:
        return ServerFacts("", times, health)
    return ServerFacts(Decoder(Version, lambda it: it.git_version).one(answer.body), times, health)


def _server_times(read: Reading) -> tuple[datetime, datetime]:
    if not read.dates:
        raise ObservationError(
            ObservationSource.CLUSTER,
            "No answer of the API server has its time, so ages are unknown; configure the proxies "
            "between to pass the header Date on.",
        )
    return min(read.dates), max(read.dates)
