"""The GPU cluster of the demonstration as a site: the same nodes and pods, on a real API server."""

from collections.abc import Iterator, Sequence

from desched.lab.gpu_cluster import (
    CPU_MILLICORES,
    HYPER_NODES,
    AiWorkload,
    ai_nodes,
    ai_workloads,
)
from desched.lab.template import PodTemplate
from desched.model.cluster import VolumeKind
from desched.model.groups import grouped
from desched.model.resources import Amounts
from tests.controlplane.manifests import Object, pod_spec, usage
from tests.controlplane.sites import SITE, Site

GPU_SITE = "ai"


def gpu_site() -> Site:
    """Its namespace is that of all pods."""
    site = Site(GPU_SITE)
    alike = grouped(
        ((tuple(each.labels.items()), tuple(each.devices.items())), each.name)
        for each in ai_nodes()
    )
    for (labels, devices), names in alike.items():
        resources = {name: str(count) for name, count in devices}
        site.node(*names, cpu=f"{CPU_MILLICORES}m", labels=dict(labels), resources=resources)
    for each in ai_workloads():
        if each.bare:
            site.manifests.append(_bare_pod(each))
            site.places[each.name] = [f"{GPU_SITE}-{node}" for node in each.nodes]
            continue
        site.workload(each.name, each.nodes, "0", annotations=dict(each.annotations))
        template = site.manifests[-1]["spec"]["template"]
        template["metadata"] = _metadata(each.template)
        template["spec"] = _spec(each.template)
    return site


def gpu_hyper_nodes() -> Iterator[Object]:
    """The racks and blocks of the site."""
    for each in HYPER_NODES:
        nodes = [("Node", f"{GPU_SITE}-{name}") for name in each.nodes]
        members = [
            {"type": kind, "selector": {"exactMatch": {"name": name}}}
            for kind, name in (*nodes, *(("HyperNode", name) for name in each.hyper_nodes))
        ]
        yield {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": each.name},
            "spec": {"tier": each.tier, "tierName": each.tier_name, "members": members},
        }


def _bare_pod(each: AiWorkload) -> Object:
    metadata = {"name": each.name, "namespace": GPU_SITE, **_metadata(each.template)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(each.template)}


def _metadata(template: PodTemplate) -> Object:
    used = usage(f"{template.usage.cpu_millicores}m")
    return {"labels": {**template.labels}, "annotations": {**template.annotations, **used}}


def _spec(template: PodTemplate) -> Object:
    spec = pod_spec(schedulerName=template.scheduler, nodeSelector={SITE: GPU_SITE})
    (container,) = spec["containers"]
    requests = _quantities(template.scheduling.requests)
    container["resources"] = {"requests": requests, "limits": _limits(requests)}
    spec["volumes"] = [
        {"name": f"v{i}", **_volume(each.kind, each.path)}
        for i, each in enumerate(template.volumes)
    ]
    spec["affinity"] = {"nodeAffinity": _preferred(template)}
    return spec


def _quantities(requests: Amounts) -> dict[str, str]:
    cpu, memory = f"{requests.cpu_millicores}m", str(requests.memory_bytes)
    return {"cpu": cpu, "memory": memory, **{name: str(n) for name, n in requests.extended}}


def _limits(requests: dict[str, str]) -> dict[str, str]:
    """Extended resources must have them."""
    return {name: amount for name, amount in requests.items() if "/" in name}


def _volume(kind: VolumeKind, path: str) -> Object:
    return {"hostPath": {"path": path}} if path else {kind.value: {"medium": "Memory"}}


def _preferred(template: PodTemplate) -> dict[str, Sequence[Object]]:
    terms = [
        {
            "weight": weight,
            "preference": {
                "matchExpressions": [{"key": r.key, "operator": r.operator} for r in term.labels]
            },
        }
        for weight, term in template.scheduling.preferred_node_affinity
    ]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}
