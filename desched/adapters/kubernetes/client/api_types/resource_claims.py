"""The devices of resource.k8s.io and the claims to them, as far as desched reads them.

What decides on the choice of devices is a mapping: a field that desched does not know must be seen.
"""

from msgspec import Raw

from desched.api_objects.metadata import Int64, Named, Wire

Fields = dict[str, Raw]


class ResourceSlice(Named):
    spec: Raw = Raw()


class DeviceClass(Named):
    spec: Raw = Raw()


class ResourceClaimTemplate(Named):
    spec: Raw = Raw()


class DeviceTaintRule(Named):
    spec: Raw = Raw()


class ResourceClaim(Named):
    status: Raw = Raw()


class ResourcePool(Wire):
    name: str
    generation: Int64
    resource_slice_count: Int64


class DeviceAttribute(Wire):
    string: str | None = None


class DeviceTaint(Wire):
    effect: str = ""


class CELSelector(Wire):
    expression: str


class DeviceSelector(Wire):
    cel: CELSelector | None = None


class DeviceClassSpec(Wire):
    selectors: list[DeviceSelector] | None = None


class ClaimTemplateSpec(Wire):
    spec: Fields


class DeviceRequest(Wire):
    name: str
    exactly: Fields | None = None


class DeviceRuleSelector(Wire):
    driver: str | None = None


class DeviceTaintRuleSpec(Wire):
    taint: DeviceTaint
    device_selector: DeviceRuleSelector | None = None


class AllocatedDevice(Wire):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class AllocatedDevices(Wire):
    results: list[AllocatedDevice] | None = None


class Allocation(Wire):
    devices: AllocatedDevices | None = None


class Consumer(Wire):
    uid: str


class ClaimStatus(Wire):
    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None
