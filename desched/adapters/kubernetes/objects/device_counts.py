"""Adds the devices of ResourceClaims to what pods request and what nodes have.

Only a pod whose devices are certain requests them, and what any other claim holds is not on its
node. A node has the devices of the newest generation of its pools, if all slices of that are known.
Tainted devices count for nothing.

Source: GatherPools in k8s.io/dynamic-resource-allocation/structured, at v1.36.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from desched.adapters.kubernetes.objects.resource_claims import (
    EVERY_DRIVER,
    ClaimTemplate,
    DeviceClaim,
    DeviceClass,
    DeviceId,
    DeviceSet,
    DeviceSlice,
    TaintRule,
    UncertainDevices,
)
from desched.model.cluster import Node, Pod, SchedulingClass
from desched.model.groups import grouped
from desched.model.resources import Amounts

COMPUTE_DOMAINS = "compute-domain.nvidia.com"
"""The driver of the channels that the pods of a ComputeDomain share."""


class DeviceObjects(NamedTuple):
    """All objects that say which devices are free."""

    slices: Sequence[DeviceSlice]
    claims: Sequence[DeviceClaim]
    templates: Sequence[ClaimTemplate]
    classes: Sequence[DeviceClass]
    rules: Sequence[TaintRule]


class _Place(NamedTuple):
    """The node of a device, and its type."""

    node: str
    type: str


def with_devices(
    nodes: Sequence[Node], pods: Sequence[Pod], found: DeviceObjects
) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    """The nodes with the devices that pods may get, and the pods with those that they request."""
    if not any(pod.claim_templates for pod in pods):
        return tuple(nodes), tuple(pods)
    counts = _Counts(found)
    counted = tuple(counts.pod(pod) if pod.claim_templates else pod for pod in pods)
    free = counts.free_by_node()
    return tuple(_plus(node, free.get(node.name)) for node in nodes), counted


class _Counts:
    """Counts the devices of pods; after all of them, those of nodes."""

    def __init__(self, found: DeviceObjects) -> None:
        self._classes = {each.name: each for each in found.classes}
        self._sets = {each.selects for each in found.classes if each.selects is not None}
        self._templates = {(each.namespace, each.name): each for each in found.templates}
        self._claims = grouped(((each.namespace, each.pod), each) for each in found.claims)
        self._doubts = dict(sorted(_doubts(found), reverse=True))
        self._places = dict(_places(found.slices))
        self._taken = {device for claim in found.claims for device in claim.devices}
        self._asking: dict[tuple[int, Amounts], SchedulingClass] = {}

    def pod(self, pod: Pod) -> Pod:
        """The pod; its requests have its devices if these are certain."""
        try:
            asked = self._asked(pod)
            if pod.node and not pod.finished:
                self._taken -= self._held(pod, asked)
        except UncertainDevices as why:
            return replace(pod, uncounted_claims=str(why), claim_templates=())
        requests = _sum(pod.scheduling.requests, {each.resource: n for each, n in asked.items()})
        key = id(pod.scheduling), requests
        if key not in self._asking:  # pods of one class stay of one class
            self._asking[key] = replace(pod.scheduling, requests=requests)
        return replace(pod, scheduling=self._asking[key], uncounted_claims="", claim_templates=())

    def free_by_node(self) -> Mapping[str, Counter[str]]:
        """The devices that are free or that counted pods hold, by the name of the node."""
        found: dict[str, Counter[str]] = {}
        for device, place in self._places.items():
            if device not in self._taken:
                of_node = found.setdefault(place.node, Counter())
                sets = {DeviceSet(device.driver), DeviceSet(device.driver, place.type)}
                of_node.update(each.resource for each in sets & self._sets)
        return found

    def _asked(self, pod: Pod) -> Counter[DeviceSet]:
        """What the claims of the pod's replacement request.

        Raises:
            UncertainDevices: it is not certain which devices can satisfy them.
        """
        asked = Counter[DeviceSet]()
        for name in pod.claim_templates:
            template = self._templates.get((pod.namespace, name))
            if template is None:
                raise UncertainDevices(f"ResourceClaimTemplate {name} is not known")
            if template.doubt:
                raise UncertainDevices(template.doubt)
            for class_name, count in template.requests:
                asked[self._selected(class_name)] += count
        return asked

    def _selected(self, class_name: str) -> DeviceSet:
        found = self._classes.get(class_name)
        if found is None or found.selects is None:
            raise UncertainDevices(
                found.doubt if found else f"DeviceClass {class_name} is not known"
            )
        driver, of_type = found.selects
        doubt = self._doubts.get(driver) or self._doubts.get(EVERY_DRIVER)
        if doubt:
            raise UncertainDevices(doubt)
        if not of_type and any(each.driver == driver and each.type for each in self._sets):
            raise UncertainDevices(
                f"DeviceClass {class_name}: other classes select a part of its devices"
            )
        return found.selects

    def _held(self, pod: Pod, asked: Counter[DeviceSet]) -> set[DeviceId]:
        """The devices that the pod holds for itself alone.

        Raises:
            UncertainDevices: it has others than its template requests, or they are not counted.
        """
        claims = self._claims.get((pod.namespace, pod.uid), ())
        for claim in claims:
            if any(uid != pod.uid for uid in claim.reserved_for):
                raise UncertainDevices(f"others use its claim {claim.name}")
        devices = {device for claim in claims for device in claim.devices}
        held = Counter[DeviceSet]()
        for device in devices:
            place = self._places.get(device)
            if place is None or place.node != pod.node:
                raise UncertainDevices(
                    f"its device {device} is not counted: tainted, or in a changing pool"
                )
            of_type = DeviceSet(device.driver, place.type)
            held[of_type if of_type in asked else DeviceSet(device.driver)] += 1
        if held != asked:
            raise UncertainDevices("its claims do not hold what their templates request")
        return devices


def _doubts(found: DeviceObjects) -> Iterator[tuple[str, str]]:
    """The drivers whose devices cannot be counted, each with the reason."""
    yield COMPUTE_DOMAINS, "the pods of a ComputeDomain share their channels"
    typed = {each.selects.driver for each in found.classes if each.selects and each.selects.type}
    for each in found.slices:
        if each.doubt:
            yield each.driver, each.doubt
        elif each.driver in typed and not all(device.type for device in each.devices):
            yield each.driver, f"pool {each.pool} of {each.driver} has a device without a type"
    for rule in found.rules:
        if rule.driver is not None:
            yield rule.driver, f"desched does not evaluate DeviceTaintRule {rule.name}"
    for claim in found.claims:
        if claim.doubt:
            yield EVERY_DRIVER, claim.doubt


def _places(slices: Iterable[DeviceSlice]) -> Iterator[tuple[DeviceId, _Place]]:
    """The devices of complete pools that a new claim may get."""
    for (driver, pool), every in grouped(((s.driver, s.pool), s) for s in slices).items():
        newest = max(each.generation for each in every)
        current = [each for each in every if each.generation == newest]
        devices = [(each.node, device) for each in current for device in each.devices]
        is_valid = len({device.name for _, device in devices}) == len(devices)
        if is_valid and all(each.slices == len(current) for each in current):
            for node, device in devices:
                if not device.tainted:
                    yield DeviceId(driver, pool, device.name), _Place(node, device.type)


def _plus(node: Node, devices: Mapping[str, int] | None) -> Node:
    if not devices:
        return node
    return replace(node, allocatable=_sum(node.allocatable, devices))


def _sum(amounts: Amounts, devices: Mapping[str, int]) -> Amounts:
    extended = Counter(dict(amounts.extended)) + Counter(devices)
    return replace(amounts, extended=tuple(sorted(extended.items())))
