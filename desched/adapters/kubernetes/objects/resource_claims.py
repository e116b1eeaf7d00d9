"""Devices, the classes that select them, and the claims to them (resource.k8s.io/v1).

desched evaluates no CEL. A class is understood if it compares `device.driver`, and at most the
attribute `type`, with a text. A field that is not known makes what has it uncertain.
"""

import re
from collections.abc import Callable, Sequence
from sys import intern
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from desched.adapters.kubernetes.client import access
from desched.adapters.kubernetes.client.api_types import resource_claims as wire
from desched.adapters.kubernetes.objects.metadata import controller_of
from desched.api_objects.access import Access
from desched.api_objects.decoding import UNDECODABLE, RawDecoder
from desched.api_objects.kinds import Kind
from desched.api_objects.metadata import Named
from desched.model.resources import DEVICES
from desched.model.text import shortened

V = TypeVar("V")

_ABSENT = frozenset({b"null", b"false", b"[]", b"{}", b'""'})
_NO_TAINT = "None"
_SIMPLE = r"(['\"])([A-Za-z0-9._-]+)"
_DRIVER = re.compile(rf"device\.driver\s*==\s*{_SIMPLE}\1")
_TYPE = re.compile(rf"device\.attributes\[{_SIMPLE}\1\]\.type\s*==\s*(['\"])([A-Za-z0-9._-]+)\3")

_FIELDS = RawDecoder(wire.Fields)
_DEVICES = RawDecoder(list[wire.Fields])
_NAME = RawDecoder(str)
_COUNT = RawDecoder(int)
_POOL = RawDecoder(wire.ResourcePool)
_ATTRIBUTES = RawDecoder(dict[str, wire.DeviceAttribute])
_TAINTS = RawDecoder(list[wire.DeviceTaint])
_CLASS = RawDecoder(wire.DeviceClassSpec)
_TEMPLATE = RawDecoder(wire.ClaimTemplateSpec)
_REQUESTS = RawDecoder(list[wire.DeviceRequest])
_RULE = RawDecoder(wire.DeviceTaintRuleSpec)
_STATUS = RawDecoder(wire.ClaimStatus)

MOST_REQUESTS = 32
"""The API server takes no more in a claim."""

EVERY_DRIVER = ""


class DeviceId(NamedTuple):
    """What identifies a device in the cluster."""

    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


class DeviceSet(NamedTuple):
    """The devices of a driver, only those of a type if it is given; as a class selects them."""

    driver: str
    type: str = ""

    @property
    def resource(self) -> str:
        """The name of these devices among amounts."""
        return f"{DEVICES}{self.driver}{'/' * bool(self.type)}{self.type}"


class Device(msgspec.Struct, frozen=True, gc=False):
    """A device of a slice; `type` is empty if it has none."""

    name: str
    type: str
    tainted: bool


class DeviceSlice(msgspec.Struct, frozen=True, gc=False):
    """The devices of a ResourceSlice, or why those of its driver cannot be counted.

    `slices` is how many slices its generation of the pool has.
    """

    driver: str
    pool: str = ""
    generation: int = 0
    slices: int = 0
    node: str = ""
    devices: tuple[Device, ...] = ()
    doubt: str = ""


class DeviceClass(msgspec.Struct, frozen=True, gc=False):
    """What a class selects, or why that is not known."""

    name: str
    selects: DeviceSet | None = None
    doubt: str = ""


class ClaimTemplate(msgspec.Struct, frozen=True, gc=False):
    """How many devices of each class a claim from this template requests, or why not known."""

    namespace: str
    name: str
    requests: tuple[tuple[str, int], ...] = ()
    doubt: str = ""


class DeviceClaim(msgspec.Struct, frozen=True, gc=False):
    """The devices that a claim holds, and for which pods; `pod` is that which it was made for."""

    namespace: str
    name: str
    pod: str = ""
    devices: tuple[DeviceId, ...] = ()
    reserved_for: tuple[str, ...] = ()
    doubt: str = ""


class TaintRule(msgspec.Struct, frozen=True, gc=False):
    """A rule that may taint devices of this driver, or of every one; None if it taints none."""

    name: str
    driver: str | None


class UncertainDevices(ValueError):  # noqa: N818  (an answer, as StopIteration is)
    """Something that desched does not evaluate."""


def _slice(item: wire.ResourceSlice) -> DeviceSlice:
    driver = EVERY_DRIVER
    try:
        fields = _FIELDS(item.spec) or {}
        driver = intern(_NAME(fields["driver"]) or EVERY_DRIVER)
        _know(fields, "driver", "pool", "nodeName", "devices")
        pool = _POOL(fields["pool"]) or wire.ResourcePool("", 0, 0)
        node = intern(_NAME(fields["nodeName"]) or "")
        listed = _DEVICES(fields.get("devices", Raw())) or ()
        devices = tuple(_device(device, driver) for device in listed)
    except (*UNDECODABLE, KeyError, UncertainDevices) as error:
        return DeviceSlice(driver, doubt=_doubt("ResourceSlice", item, error))
    counts = pool.generation, pool.resource_slice_count
    return DeviceSlice(driver, intern(pool.name), *counts, node, devices)


def _device(fields: wire.Fields, driver: str) -> Device:
    _know(fields, "name", "attributes", "capacity", "taints")
    attributes = _ATTRIBUTES(fields.get("attributes", Raw())) or {}
    kind = attributes.get("type") or attributes.get(f"{driver}/type") or wire.DeviceAttribute()
    taints = _TAINTS(fields.get("taints", Raw())) or ()
    tainted = any(taint.effect != _NO_TAINT for taint in taints)
    return Device(intern(_NAME(fields["name"]) or ""), intern(kind.string or ""), tainted)


def _class(item: wire.DeviceClass) -> DeviceClass:
    try:
        spec = _CLASS(item.spec) or wire.DeviceClassSpec()
        return DeviceClass(item.metadata.name, _selected(spec))
    except (*UNDECODABLE, UncertainDevices) as error:
        return DeviceClass(item.metadata.name, doubt=_doubt("DeviceClass", item, error))


def _selected(spec: wire.DeviceClassSpec) -> DeviceSet:
    """The devices that match all selectors.

    Raises:
        UncertainDevices: it takes CEL to say which.
    """
    drivers, types = set(), set()
    for selector in spec.selectors or ():
        for part in (selector.cel.expression if selector.cel else "").split("&&"):
            if by_driver := _DRIVER.fullmatch(part.strip()):
                drivers.add(by_driver[2])
            elif by_type := _TYPE.fullmatch(part.strip()):
                types.add((by_type[2], by_type[4]))
            else:
                raise UncertainDevices(f"desched does not evaluate its selector {part.strip()}")
    if len(drivers) != 1 or len(types) > 1 or {domain for domain, _ in types} - drivers:
        raise UncertainDevices("it does not select the devices of one driver")
    return DeviceSet(*drivers, *(kind for _, kind in types))


def _template(item: wire.ResourceClaimTemplate) -> ClaimTemplate:
    metadata = item.metadata
    try:
        template = _TEMPLATE(item.spec)
        spec = template.spec if template else {}
        _know(spec, "devices")
        devices = _FIELDS(spec.get("devices", Raw())) or {}
        _know(devices, "requests")
        requests = _all_requested(_REQUESTS(devices.get("requests", Raw())) or ())
    except (*UNDECODABLE, KeyError, UncertainDevices) as error:
        doubt = _doubt("ResourceClaimTemplate", item, error)
        return ClaimTemplate(metadata.namespace, metadata.name, doubt=doubt)
    return ClaimTemplate(metadata.namespace, metadata.name, requests)


def _all_requested(requests: Sequence[wire.DeviceRequest]) -> tuple[tuple[str, int], ...]:
    if len(requests) > MOST_REQUESTS:
        raise UncertainDevices(f"it has {len(requests)} requests")
    return tuple(map(_requested, requests))


def _requested(request: wire.DeviceRequest) -> tuple[str, int]:
    """The class and the number of devices.

    Raises:
        UncertainDevices: it requests something else.
    """
    if request.exactly is None:
        raise UncertainDevices(f"its request {request.name} has alternatives")
    fields = request.exactly
    _know(fields, "deviceClassName", "allocationMode", "count")
    mode = _NAME(fields.get("allocationMode", Raw())) or "ExactCount"
    if mode != "ExactCount":
        raise UncertainDevices(f"its request {request.name} has allocationMode {mode}")
    return intern(_NAME(fields["deviceClassName"]) or ""), _COUNT(fields.get("count", Raw())) or 1


def _claim(item: wire.ResourceClaim) -> DeviceClaim:
    place = item.metadata.namespace, item.metadata.name
    owner = controller_of(item.metadata.owner_references)
    pod = owner.uid if owner is not None and owner.kind == "Pod" else ""
    try:
        status = _STATUS(item.status) or wire.ClaimStatus()
    except UNDECODABLE as error:
        return DeviceClaim(*place, doubt=_doubt("ResourceClaim", item, error))
    allocated = status.allocation and status.allocation.devices
    devices = (
        DeviceId(intern(result.driver), intern(result.pool), intern(result.device))
        for result in (allocated and allocated.results) or ()
        if not result.admin_access  # such a claim leaves the device free
    )
    reserved = tuple(consumer.uid for consumer in status.reserved_for or ())
    return DeviceClaim(*place, pod, tuple(devices), reserved)


def _rule(item: wire.DeviceTaintRule) -> TaintRule:
    try:
        spec = _RULE(item.spec)
    except UNDECODABLE:
        return TaintRule(item.metadata.name, EVERY_DRIVER)
    if spec is None or spec.device_selector is None or spec.taint.effect == _NO_TAINT:
        return TaintRule(item.metadata.name, None)
    return TaintRule(item.metadata.name, spec.device_selector.driver or EVERY_DRIVER)


def _know(fields: wire.Fields, *names: str) -> None:
    """Check that only these fields have a value.

    Raises:
        UncertainDevices: another one has.
    """
    for name in sorted(fields.keys() - set(names)):
        if bytes(fields[name]) not in _ABSENT:
            raise UncertainDevices(f"desched does not evaluate its {name}")


def _doubt(kind: str, item: Named, error: Exception) -> str:
    problem = error if isinstance(error, UncertainDevices) else f"it cannot be read: {error}"
    return shortened(f"{kind} {item.metadata.name}: {problem}")


def _kind(right: Access, form: type[Any], build: Callable[[Any], V]) -> Kind[Any, V]:
    return Kind(right, form, build, is_optional=True, is_discovered=True)


SLICES = _kind(access.LIST_SLICES, wire.ResourceSlice, _slice)
RESOURCE_CLAIMS = _kind(access.LIST_RESOURCE_CLAIMS, wire.ResourceClaim, _claim)
CLAIM_TEMPLATES = _kind(access.LIST_CLAIM_TEMPLATES, wire.ResourceClaimTemplate, _template)
DEVICE_CLASSES = _kind(access.LIST_DEVICE_CLASSES, wire.DeviceClass, _class)
TAINT_RULES = _kind(access.LIST_TAINT_RULES, wire.DeviceTaintRule, _rule)

DEVICE_KINDS: tuple[Kind[Any, Any], ...] = (
    SLICES,
    RESOURCE_CLAIMS,
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    TAINT_RULES,
)
"""All kinds that say which devices are free."""
