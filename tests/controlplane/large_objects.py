"""Measures the memory of a dry run beside objects that are made large on purpose.

Run with `python -m tests.controlplane.large_objects`; it takes half an hour, or less if kinds are
named, such as `services`. The dry run is a process of its own. It fails if a peak is above the
memory limit of `deploy/`.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from desched.model.resources import quantity
from tests.controlplane.binaries import find_or_build
from tests.controlplane.cluster import BINARIES, ControlPlane
from tests.controlplane.installation import ALONE, DEPLOY
from tests.controlplane.manifests import (
    VERTICAL_AUTOSCALERS,
    VOLCANO_GROUPS,
    Object,
    pod_spec,
)
from tests.controlplane.sites import SITE, Site, Sites

PODS = 400
OTHERS = 100
CONSTRAINTS_BYTES = 280 * 2**10
NAMESPACE = "large"
BESIDE = "evil"


def pod_terms(number: int) -> Object:
    """Anti-affinity for pods, different for each pod."""
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": f"none-{number}-{term}"}},
        }
        for term in range(CONSTRAINTS_BYTES // 105)
    ]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def node_terms(number: int) -> Object:
    """Affinity for nodes, different for each pod."""
    values = [f"zone-{number}-{value}" for value in range(CONSTRAINTS_BYTES // 18)]
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}]
    required = {"nodeSelectorTerms": terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def labels(number: int, json_bytes: int = 1_350_000) -> dict[str, str]:
    """Labels of so many bytes of JSON, 1.4 MiB with their metadata, different for each object."""
    return {f"large-{number}-{i:x}".ljust(63, "x"): "v" * 63 for i in range(json_bytes // 132)}


def service(number: int) -> Object:
    """A Service with a large selector."""
    return {"spec": {"ports": [{"port": 80}], "selector": labels(number)}}


def budget(number: int) -> Object:
    """A PodDisruptionBudget with a large selector."""
    return {"spec": {"minAvailable": 1, "selector": {"matchLabels": labels(number)}}}


def labelled(**spec: Any) -> Callable[[int], Object]:
    """Objects with large labels."""
    return lambda number: {"metadata": {"labels": labels(number)}, "spec": spec}


def tasks(number: int) -> Object:
    """A PodGroup of Volcano with very many tasks."""
    minima = dict.fromkeys((f"{number}-{i:x}" for i in range(1_350_000 // 13)), 1)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "spec": {"minMember": 1, "minTaskMember": minima},
    }


def recommendations(number: int) -> Object:
    """A VerticalPodAutoscaler with very many recommendations."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"large-{number}"}
    each = [
        {"containerName": f"{number}-{i:x}", "target": {"cpu": "100m", "memory": "1Gi"}}
        for i in range(1_350_000 // 75)
    ]
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "spec": {"targetRef": target},
        "status": {"recommendation": {"containerRecommendations": each}},
    }


_TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec()}
_ONE_TIME = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec(restartPolicy="Never")}
_SELECTED = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": _TEMPLATE}
_RUN = {
    "suspend": True,
    "manualSelector": True,
    "selector": {"matchLabels": {"app": "x"}},
    "template": _ONE_TIME,
}
_STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
_SCALED = {"scaleTargetRef": _TARGET, "maxReplicas": 3}
_DEVICES = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}

OTHER_KINDS: dict[str, tuple[str, Callable[[int], Object]]] = {
    "services": ("/api/v1", service),
    "poddisruptionbudgets": ("/apis/policy/v1", budget),
    "deployments": ("/apis/apps/v1", labelled(**_SELECTED)),
    "replicasets": ("/apis/apps/v1", labelled(**_SELECTED)),
    "statefulsets": ("/apis/apps/v1", labelled(**_SELECTED, serviceName="x")),
    "jobs": ("/apis/batch/v1", labelled(**_RUN)),
    "horizontalpodautoscalers": ("/apis/autoscaling/v2", labelled(**_SCALED)),
    "persistentvolumeclaims": ("/api/v1", labelled(**_STORAGE, volumeName="none")),
    "resourceclaims": ("/apis/resource.k8s.io/v1", labelled(**_DEVICES)),
    "resourceclaimtemplates": ("/apis/resource.k8s.io/v1", labelled(spec=_DEVICES)),
    "verticalpodautoscalers": ("/apis/autoscaling.k8s.io/v1", recommendations),
    "podgroups": ("/apis/scheduling.volcano.sh/v1beta1", tasks),
}
"""All kinds beside pods that are watched and that belong to namespaces, by their plurals."""


def movable() -> Site:
    """One pod has to go, so that the dry run plans."""
    site = Site(NAMESPACE)
    site.node("hot", uses="2200m")
    site.node("cold1", "cold2")
    site.workload("ballast", ("hot",), "0", cpu_request="3")
    site.workload("web", ("hot", "cold1"), "1100m", cpu_request="600m")
    return site


def create_pods(plane: ControlPlane, affinity: Callable[[int], Object]) -> Iterator[str]:
    """Pending pods that nobody binds; returns their paths."""

    def pod(number: int) -> Object:
        return {"spec": pod_spec(schedulerName="nobody", affinity=affinity(number))}

    return create(plane, f"/api/v1/namespaces/{NAMESPACE}/pods", pod, PODS)


def create(
    plane: ControlPlane, path: str, made: Callable[[int], Object], count: int = OTHERS
) -> Iterator[str]:
    """So many objects; returns their paths."""
    for number in range(count):
        document = made(number)
        name = f"large-{number}"
        document["metadata"] = document.get("metadata", {}) | {"name": name}
        status, answer = plane.request("POST", path, document)
        if status != 201:
            raise SystemExit(f"{path} {name}: {str(answer)[:500]}")
        yield f"{path}/{name}"


OF_CHILD = (
    "import resource, subprocess, sys\n"
    "code = subprocess.run(sys.argv[1:]).returncode\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    "sys.exit(code)\n"
)
"""A small process in between: until a process executes, its peak is that of its parent."""


def peak_mib(sites: Sites) -> tuple[float, str]:
    """The most memory that one dry run had resident, and its result."""
    arguments = sites.arguments("--once", ALONE, nodeSelector=f"{SITE}={NAMESPACE}")
    run = subprocess.run(
        [sys.executable, "-c", OF_CHILD, *arguments], check=False, capture_output=True
    )
    text = run.stdout.decode()
    if run.returncode != 0:
        raise SystemExit(text + run.stderr.decode())
    *lines, peak_kib = text.splitlines()
    return int(peak_kib) / 1024, next(line for line in lines if "Would evict" in line)


def limit_mib() -> float:
    """The memory limit of the container that `deploy/` installs."""
    deployment = yaml.safe_load((DEPLOY / "base" / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return quantity(container["resources"]["limits"]["memory"], per_unit=1) / 2**20


def large_pods(affinity: Callable[[int], Object]) -> Callable[[ControlPlane], int]:
    """Creates the pods with this affinity."""
    return lambda plane: len(list(create_pods(plane, affinity)))


def large_others(
    plural: str, group: str, made: Callable[[int], Object]
) -> Callable[[ControlPlane], int]:
    """Creates the objects of this kind."""

    def created(plane: ControlPlane) -> int:
        plane.create_namespace(BESIDE)
        for kind in (VERTICAL_AUTOSCALERS, VOLCANO_GROUPS):
            if kind["spec"]["names"]["plural"] == plural:
                plane.serve(kind)
        return len(list(create(plane, f"{group}/namespaces/{BESIDE}/{plural}", made)))

    return created


CASES: dict[str, Callable[[ControlPlane], int]] = {
    "nothing": lambda _: 0,
    "pods with pod_terms": large_pods(pod_terms),
    "pods with node_terms": large_pods(node_terms),
    **{name: large_others(name, *how) for name, how in OTHER_KINDS.items()},
}


def main() -> int:
    """Print a line for each kind, each on a control plane of its own: they take its memory too."""
    binaries = find_or_build(BINARIES, lambda line: print(line, file=sys.stderr))
    limit, highest = limit_mib(), 0.0
    for name in sys.argv[1:] or CASES:
        with (
            tempfile.TemporaryDirectory() as directory,
            ControlPlane(binaries) as plane,
            plane.prometheus() as prometheus,
        ):
            sites = Sites(plane, prometheus, Path(directory))
            sites.build(movable())
            count = CASES[name](plane)
            peak, result = peak_mib(sites)
        highest = max(highest, peak)
        print(f"{count} {name}: {peak:.0f} MiB, {result}", flush=True)
    print(f"limit: {limit:.0f} MiB")
    return highest > limit


if __name__ == "__main__":
    sys.exit(main())
