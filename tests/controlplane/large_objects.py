"""Measures the memory of a dry run beside objects that are made large on purpose.

Run with `python -m tests.controlplane.large_objects`; it takes ten minutes. The dry run is a
process of its own. It fails if a peak is above the memory limit of `deploy/`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from desched.model.resources import quantity
from tests.controlplane.binaries import find_or_build
from tests.controlplane.cluster import BINARIES, ControlPlane
from tests.controlplane.installation import ALONE, DEPLOY
from tests.controlplane.manifests import Object, pod_spec
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


def deployment(number: int) -> Object:
    """A Deployment with large labels."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod_spec()}
    selector = {"matchLabels": {"app": "x"}}
    return {
        "metadata": {"labels": labels(number)},
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }


OTHER_KINDS = {
    f"/api/v1/namespaces/{BESIDE}/services": service,
    f"/apis/policy/v1/namespaces/{BESIDE}/poddisruptionbudgets": budget,
    f"/apis/apps/v1/namespaces/{BESIDE}/deployments": deployment,
}


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


def peak_mib(sites: Sites) -> tuple[float, str]:
    """The most memory that one dry run had resident, and its result."""
    arguments = sites.arguments("--once", ALONE, nodeSelector=f"{SITE}={NAMESPACE}")
    with tempfile.TemporaryFile() as out:
        run = subprocess.Popen(arguments, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    if run.returncode != 0:
        raise SystemExit(text)
    return usage.ru_maxrss / 1024, next(line for line in text.splitlines() if "Would evict" in line)


def limit_mib() -> float:
    """The memory limit of the container that `deploy/` installs."""
    deployment = yaml.safe_load((DEPLOY / "base" / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return quantity(container["resources"]["limits"]["memory"], per_unit=1) / 2**20


def main() -> int:
    """Print a line for each kind of constraint."""
    binaries = find_or_build(BINARIES, lambda line: print(line, file=sys.stderr))
    limit, highest = limit_mib(), 0.0
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane(binaries) as plane,
        plane.prometheus() as prometheus,
    ):
        sites = Sites(plane, prometheus, Path(directory))
        sites.build(movable())
        print("without: {:.0f} MiB, {}".format(*peak_mib(sites)))
        for affinity in (pod_terms, node_terms):
            paths = list(create_pods(plane, affinity))
            highest = max(highest, (found := peak_mib(sites))[0])
            print("{}: {:.0f} MiB, {}".format(affinity.__name__, *found), flush=True)
            for path in paths:
                plane.request("DELETE", path, {"gracePeriodSeconds": 0})
        plane.create_namespace(BESIDE)
        for path, made in OTHER_KINDS.items():
            count = len(list(create(plane, path, made)))
            highest = max(highest, (found := peak_mib(sites))[0])
            print("with {} {}: {:.0f} MiB, {}".format(count, made.__name__, *found), flush=True)
    print(f"limit: {limit:.0f} MiB")
    return highest > limit


if __name__ == "__main__":
    sys.exit(main())
