"""R3.4: what classes, templates and slices say, and what desched does not evaluate of it."""

import json
from typing import Any

import pytest

from desched.adapters.kubernetes.objects.resource_claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    DEVICE_KINDS,
    EVERY_DRIVER,
    RESOURCE_CLAIMS,
    SLICES,
    TAINT_RULES,
    Device,
    DeviceId,
    DeviceSet,
)
from desched.api_objects.kinds import Kind
from tests.device_manifests import (
    BY_DRIVER,
    DRIVER,
    claim,
    claim_template,
    device_class,
    resource_slice,
)

NVIDIA = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


def read(kind: Kind[Any, Any], item: dict[str, Any]) -> Any:
    (found,) = kind.decoder().page(json.dumps({"metadata": {}, "items": [item]}).encode()).values
    return found


@pytest.mark.parametrize(
    ("expressions", "selects"),
    [
        ([BY_DRIVER], DeviceSet(DRIVER)),
        (['device.driver=="dra.net"'], DeviceSet("dra.net")),
        ([NVIDIA], DeviceSet("gpu.nvidia.com", "gpu")),
        ([f"{NVIDIA}\n"], DeviceSet("gpu.nvidia.com", "gpu")),
        (NVIDIA.split("&&"), DeviceSet("gpu.nvidia.com", "gpu")),
    ],
)
def test_a_class_may_compare_the_driver_and_its_type(
    expressions: list[str], selects: DeviceSet
) -> None:
    assert read(DEVICE_CLASSES, device_class("c", *expressions)).selects == selects


@pytest.mark.parametrize(
    "expressions",
    [
        ["true"],
        [f"{BY_DRIVER} || true"],
        [f"!({BY_DRIVER})"],
        [f"{BY_DRIVER} && device.attributes['{DRIVER}'].model == 'a'"],
        [f"{BY_DRIVER} && device.attributes['other.example.com'].type == 'a'"],
        [BY_DRIVER, "device.driver == 'other.example.com'"],
        [f"device.attributes['{DRIVER}'].type == 'a'"],
        ["device.driver == 'a' + 'b'"],
        [""],
    ],
)
def test_a_class_that_takes_cel_is_not_evaluated(expressions: list[str]) -> None:
    found = read(DEVICE_CLASSES, device_class("c", *expressions))
    assert found.selects is None
    assert found.doubt.startswith("DeviceClass c: ")


@pytest.mark.parametrize("spec", [None, {}, {"selectors": []}, 7])
def test_a_class_without_selectors_selects_no_driver(spec: Any) -> None:
    assert read(DEVICE_CLASSES, {"metadata": {"name": "c"}, "spec": spec}).doubt


def test_a_template_requests_devices_by_count() -> None:
    """Without a count it is one."""
    found = read(CLAIM_TEMPLATES, claim_template("t", {"count": 2}, {"deviceClassName": "nic"}))
    assert found.requests == (("gpu", 2), ("nic", 1))


@pytest.mark.parametrize(
    ("exactly", "why"),
    [
        ({"allocationMode": "All"}, "its request r0 has allocationMode All"),
        (
            {"selectors": [{"cel": {"expression": "true"}}]},
            "desched does not evaluate its selectors",
        ),
        ({"adminAccess": True}, "desched does not evaluate its adminAccess"),
        ({"tolerations": [{"operator": "Exists"}]}, "desched does not evaluate its tolerations"),
        ({"capacity": {"requests": {"memory": "1Gi"}}}, "desched does not evaluate its capacity"),
        ({"somethingNew": 1}, "desched does not evaluate its somethingNew"),
    ],
)
def test_a_request_with_anything_else_is_not_evaluated(exactly: dict[str, Any], why: str) -> None:
    found = read(CLAIM_TEMPLATES, claim_template("t", exactly))
    assert found.doubt == f"ResourceClaimTemplate t: {why}"


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ({"constraints": [{"matchAttribute": "a/b"}]}, "desched does not evaluate its constraints"),
        ({"config": [{"opaque": {}}]}, "desched does not evaluate its config"),
        ({"requests": [{"name": "r", "firstAvailable": []}]}, "its request r has alternatives"),
        ({"requests": 7}, "it cannot be read: "),
    ],
)
def test_a_claim_with_anything_else_is_not_evaluated(devices: dict[str, Any], why: str) -> None:
    found = read(CLAIM_TEMPLATES, claim_template("t", **devices))
    assert found.doubt.startswith(f"ResourceClaimTemplate t: {why}")


def test_fields_without_a_value_say_nothing() -> None:
    item = claim_template("t", {"selectors": [], "adminAccess": False}, constraints=None)
    assert read(CLAIM_TEMPLATES, item).requests == (("gpu", 1),)


def test_a_slice_has_the_devices_of_a_node() -> None:
    kind = {"string": "gpu"}
    devices = [
        {"name": "a", "attributes": {"type": kind, "uuid": {"string": "x"}}, "capacity": {"m": {}}},
        {"name": "b", "attributes": {f"{DRIVER}/type": kind, "index": {"int": 1}}},
        {"name": "c", "attributes": {"other.example.com/type": kind}},
        {"name": "d", "taints": [{"key": "broken", "effect": "NoSchedule"}]},
        {"name": "e", "taints": [{"key": "note", "effect": "None"}]},
    ]
    found = read(SLICES, resource_slice("te1", devices=devices, allNodes=False))
    assert found.devices == (
        Device("a", "gpu", tainted=False),
        Device("b", "gpu", tainted=False),
        Device("c", "", tainted=False),
        Device("d", "", tainted=True),
        Device("e", "", tainted=False),
    )
    assert (found.driver, found.node, found.generation, found.doubt) == (DRIVER, "te1", 1, "")


@pytest.mark.parametrize(
    "spec",
    [
        {"allNodes": True},
        {"nodeSelector": {"nodeSelectorTerms": []}},
        {"perDeviceNodeSelection": True},
        {"sharedCounters": [{"name": "memory"}]},
        {"devices": [{"name": "a", "consumesCounters": [{"counterSet": "memory"}]}]},
        {"devices": [{"name": "a", "allowMultipleAllocations": True}]},
        {"devices": [{"name": "a", "bindingConditions": ["ready"]}]},
        {"devices": [{"name": "a", "somethingNew": "x"}]},
        {"devices": [{}]},
        {"pool": 7},
    ],
)
def test_devices_that_are_more_than_one_for_one_claim_make_their_driver_uncertain(
    spec: dict[str, Any],
) -> None:
    found = read(SLICES, resource_slice("te1", **spec))
    assert (found.driver, found.devices) == (DRIVER, ())
    assert found.doubt.startswith("ResourceSlice slice-te1: ")


def test_a_slice_without_a_readable_driver_makes_all_uncertain() -> None:
    found = read(SLICES, {"metadata": {"name": "s"}, "spec": {"driver": 7}})
    assert (found.driver, bool(found.doubt)) == (EVERY_DRIVER, True)


def test_a_claim_holds_devices_for_its_pod() -> None:
    found = read(RESOURCE_CLAIMS, claim("uid-1", "te1", "a", reserved=["uid-2"]))
    assert (found.pod, found.reserved_for) == ("uid-1", ("uid-1", "uid-2"))
    assert found.devices == (DeviceId(DRIVER, "te1", "a"),)
    assert not read(RESOURCE_CLAIMS, claim("uid-1", "te1", "a", adminAccess=True)).devices


@pytest.mark.parametrize("status", [None, {}, {"allocation": None}, {"allocation": {}}])
def test_a_claim_may_hold_nothing(status: Any) -> None:
    found = read(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "status": status})
    assert (found.pod, found.devices, found.doubt) == ("", (), "")


def test_a_claim_that_cannot_be_read_is_uncertain() -> None:
    assert read(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "status": 7}).doubt


@pytest.mark.parametrize(
    ("spec", "driver"),
    [
        ({"taint": {"effect": "NoExecute"}, "deviceSelector": {"driver": DRIVER}}, DRIVER),
        ({"taint": {"effect": "NoSchedule"}, "deviceSelector": {"pool": "p"}}, EVERY_DRIVER),
        ({"taint": {"effect": "None"}, "deviceSelector": {}}, None),
        ({"taint": {"effect": "NoSchedule"}}, None),
        (7, EVERY_DRIVER),
    ],
)
def test_a_rule_may_taint_the_devices_of_a_driver(spec: Any, driver: str | None) -> None:
    assert read(TAINT_RULES, {"metadata": {"name": "r"}, "spec": spec}).driver == driver


def test_all_kinds_may_be_absent() -> None:
    """X3: Kubernetes before 1.34 does not serve them."""
    assert all(kind.is_optional and kind.is_discovered for kind in DEVICE_KINDS)
