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
    nodes: Sequence[Node], pods: Sequence[Pod], objects: DeviceObjects
) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    """The nodes with the devices that pods may get, and the pods with those that they request."""
    if not any(pod.claim_templates for pod in pods):
        return tuple(nodes), tuple(pods)
    counts = _Counts(objects)
    counted = tuple(counts.pod(pod) if pod.claim_templates else pod for pod in pods)
    free = counts.free_by_node()
    return tuple(_plus(node, free.get(node.name)) for node in nodes), counted


class _Counts:
    """Counts the devices of pods; after all of them, those of nodes."""

    def __init__(self, objects: DeviceObjects) -> None:
        self._classes = {device_class.name: device_class for device_class in objects.classes}
        self._sets = {
            device_class.selects
            for device_class in objects.classes
            if device_class.selects is not None
        }
        self._templates = {
            (template.namespace, template.name): template for template in objects.templates
        }
        self._claims = grouped(((each.namespace, each.pod), each) for each in objects.claims)
        self._doubts = dict(sorted(_doubts(objects), reverse=True))
        self._places = dict(_places(objects.slices))
        self._taken = {device for claim in objects.claims for device in claim.devices}
        self._asking: dict[tuple[int, Amounts], SchedulingClass] = {}

    def pod(self, pod: Pod) -> Pod:
        """The pod; its requests have its devices if these are certain."""
        try:
            asked = self._asked(pod)
            if pod.node and not pod.finished:
                self._taken -= self._held(pod, asked)
        except UncertainDevices as doubt:
            return replace(pod, uncounted_claims=str(doubt), claim_templates=())
        requests = _sum(
            pod.scheduling.requests, {device.resource: n for device, n in asked.items()}
        )
        key = id(pod.scheduling), requests
        if key not in self._asking:  # pods of one class stay of one class
            self._asking[key] = replace(pod.scheduling, requests=requests)
        return replace(pod, scheduling=self._asking[key], uncounted_claims="", claim_templates=())

    def free_by_node(self) -> Mapping[str, Counter[str]]:
        """The devices that are free or that counted pods hold, by the name of the node."""
        free: dict[str, Counter[str]] = {}
        for device, place in self._places.items():
            if device not in self._taken:
                of_node = free.setdefault(place.node, Counter())
                sets = {DeviceSet(device.driver), DeviceSet(device.driver, place.type)}
                of_node.update(device_set.resource for device_set in sets & self._sets)
        return free

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
        device_class = self._classes.get(class_name)
        if device_class is None or device_class.selects is None:
            raise UncertainDevices(
                device_class.doubt if device_class else f"DeviceClass {class_name} is not known"
            )
        driver, of_type = device_class.selects
        doubt = self._doubts.get(driver) or self._doubts.get(EVERY_DRIVER)
        if doubt:
            raise UncertainDevices(doubt)
        if not of_type and any(
            device_set.driver == driver and device_set.type for device_set in self._sets
        ):
            raise UncertainDevices(
                f"DeviceClass {class_name}: other classes select a part of its devices"
            )
        return device_class.selects

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


def _doubts(objects: DeviceObjects) -> Iterator[tuple[str, str]]:
    """The drivers whose devices cannot be counted, each with the reason."""
    yield COMPUTE_DOMAINS, "the pods of a ComputeDomain share their channels"
    typed = {
        device_class.selects.driver
        for device_class in objects.classes
        if device_class.selects and device_class.selects.type
    }
    for device_slice in objects.slices:
        if device_slice.doubt:
            yield device_slice.driver, device_slice.doubt
        elif device_slice.driver in typed and not all(
            device.type for device in device_slice.devices
        ):
            yield (
                device_slice.driver,
                f"pool {device_slice.pool} of {device_slice.driver} has a device without a type",
            )
    for rule in objects.rules:
        if rule.driver is not None:
            yield rule.driver, f"desched does not evaluate DeviceTaintRule {rule.name}"
    for claim in objects.claims:
        if claim.doubt:
            yield EVERY_DRIVER, claim.doubt


def _places(slices: Iterable[DeviceSlice]) -> Iterator[tuple[DeviceId, _Place]]:
    """The devices of complete pools that a new claim may get."""
    for (driver, pool), every in grouped(((s.driver, s.pool), s) for s in slices).items():
        newest = max(device_slice.generation for device_slice in every)
        current = [device_slice for device_slice in every if device_slice.generation == newest]
        devices = [
            (device_slice.node, device)
            for device_slice in current
            for device in device_slice.devices
        ]
        is_valid = len({device.name for _, device in devices}) == len(devices)
        if is_valid and all(device_slice.slices == len(current) for device_slice in current):
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
