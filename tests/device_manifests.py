"""Devices, classes, templates and claims as the API server sends them (resource.k8s.io/v1)."""

from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
BY_DRIVER = f"device.driver == '{DRIVER}'"


def device_class(name: str = "gpu", *expressions: str) -> Object:
    """A class with these selectors, by default all devices of the driver."""
    selectors = [{"cel": {"expression": each}} for each in expressions or (BY_DRIVER,)]
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors},
    }


def resource_slice(node: str, *names: str, in_pool: str = "", **spec: Any) -> Object:
    """A node's slice with devices of these names; `devices` in place of them."""
    content = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": in_pool or node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name} for name in names],
    }
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{in_pool or node}"},
        "spec": content | spec,
    }


def claim_template(
    name: str = "gpu", *exactly: Object, namespace: str = "shop", **devices: Any
) -> Object:
    """A template with these requests, by default for one device of class `gpu`."""
    requests = [
        {"name": f"r{i}", "exactly": {"deviceClassName": "gpu"} | each}
        for i, each in enumerate(exactly or ({"count": 1, "allocationMode": "ExactCount"},))
    ]
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": requests} | devices}},
    }


def claim(
    pod_uid: str,
    pool: str,
    *names: str,
    name: str = "claim",
    namespace: str = "shop",
    reserved: Iterable[str] = (),
    **of: Any,
) -> Object:
    """An allocated claim that was made for a pod, reserved for it and these others."""
    owner = {"kind": "Pod", "name": "p", "uid": pod_uid, "controller": True, "apiVersion": "v1"}
    results = [
        {"request": "r0", "driver": DRIVER, "pool": pool, "device": each, **of} for each in names
    ]
    users = [{"resource": "pods", "name": uid, "uid": uid} for uid in (pod_uid, *reserved)]
    return {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users},
    }
