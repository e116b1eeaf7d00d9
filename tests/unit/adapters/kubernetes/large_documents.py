"""Objects as large as an API server takes, of each kind that a tenant may write, in many forms.

Run with `python -m tests.unit.adapters.kubernetes.large_documents` to see the memory that a hundred
of each kind take.
"""

import resource
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from desched.adapters.kubernetes.cluster_reader import KINDS
from desched.adapters.kubernetes.objects.pods import pods_kind
from desched.api_objects.kinds import Kind
from desched.api_objects.memory_bounds import NamespaceShares
from tests.unit.adapters.kubernetes import manifests
from tests.unit.adapters.kubernetes.manifests import Object

LARGEST_BYTES = 1_400_000
COUNT = 100
NUMBER = b"~number~"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

PLACES: dict[str, tuple[str, ...]] = {
    "annotations": ("metadata", "annotations"),
    "labels": ("metadata", "labels"),
    "owners": ("metadata", "ownerReferences"),
    "selector": ("spec", "selector", "matchLabels"),
    "expressions": ("spec", "selector", "matchExpressions"),
    "plain selector": ("spec", "selector"),
    "node selector": ("spec", "nodeSelector"),
    "tolerations": ("spec", "tolerations"),
    "volumes": ("spec", "volumes"),
    "resources": ("spec", "containers"),
    "affinity": ("spec", "affinity", "podAntiAffinity", REQUIRED),
    "template": ("spec", "template", "spec", "containers"),
    "volume name": ("spec", "volumeName"),
    "target": ("spec", "scaleTargetRef", "name"),
    "metrics": ("spec", "metrics"),
    "policies": ("spec", "resourcePolicy", "containerPolicies"),
    "recommendations": ("status", "recommendation", "containerRecommendations"),
    "tasks": ("spec", "minTaskMember"),
    "tier": ("spec", "networkTopology", "highestTierName"),
    "devices": ("spec", "spec", "devices", "requests"),
}
"""Where the fields are that a tenant may fill."""


class LargeObject(NamedTuple):
    """A kind with the place that is filled."""

    kind: Kind[Any, Any]
    place: str

    def __str__(self) -> str:
        return f"{self.kind.wire.__name__}: {self.place}"

    def body(self, number: int, size_bytes: int = LARGEST_BYTES) -> bytes:
        """The JSON of an object of this number, unlike those of all other numbers."""
        return self._body(size_bytes).replace(NUMBER, b"%08x" % number)

    def bodies(self, count: int) -> Iterator[bytes]:
        """As many different objects of the largest size."""
        body = self._body(LARGEST_BYTES)
        return (body.replace(NUMBER, b"%08x" % number) for number in range(count))

    def _body(self, size_bytes: int) -> bytes:
        name = self.kind.wire.__name__
        document = BASES.get(name, lambda: {"spec": {}})()
        document["metadata"] = manifests.metadata(f"{name}-{NUMBER.decode()}".lower(), "evil")
        document["metadata"]["labels"] = {"app": "web"}
        within = document
        *path, last = PLACES[self.place]
        for step in path:
            within = within.setdefault(step, {})
        within[last] = msgspec.Raw(_filled(self.place, size_bytes))
        return msgspec.json.encode(document)


BASES: dict[str, Callable[[], Object]] = {
    "Pod": manifests.pod,
    "HorizontalPodAutoscaler": lambda: {
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "x"}, "maxReplicas": 3}
    },
    "VerticalPodAutoscaler": lambda: {"spec": {"targetRef": {"kind": "Deployment", "name": "x"}}},
}

_EVERYWHERE = ("annotations", "labels", "owners")
_OF_KIND = {
    "Pod": (*_EVERYWHERE, "node selector", "tolerations", "volumes", "resources", "affinity"),
    "Deployment": (*_EVERYWHERE, "selector", "expressions", "template"),
    "ReplicaSet": (*_EVERYWHERE, "selector", "expressions", "template"),
    "StatefulSet": (*_EVERYWHERE, "selector", "expressions", "template"),
    "Job": (*_EVERYWHERE, "template"),
    "HorizontalPodAutoscaler": (*_EVERYWHERE, "target", "metrics"),
    "VerticalPodAutoscaler": (*_EVERYWHERE, "policies", "recommendations"),
    "PodDisruptionBudget": (*_EVERYWHERE, "selector", "expressions"),
    "Service": (*_EVERYWHERE, "plain selector"),
    "Namespace": _EVERYWHERE,
    "PersistentVolumeClaim": (*_EVERYWHERE, "volume name"),
    "PodGroup": (*_EVERYWHERE, "tasks", "tier"),
    "ResourceClaim": _EVERYWHERE,
    "ResourceClaimTemplate": (*_EVERYWHERE, "devices"),
}


def large_objects() -> list[LargeObject]:
    """Each place of each kind that a tenant may fill."""
    kinds: dict[str, Kind[Any, Any]] = {"Pod": pods_kind()}
    for kind in KINDS:
        kinds.setdefault(kind.wire.__name__, kind)
    return [
        LargeObject(kinds[name], place) for name, places in _OF_KIND.items() for place in places
    ]


_AMOUNTS = ",".join(f'"a.b/~number~.%x.{j:x}":"1"' for j in range(500))

ENTRIES: dict[str, str] = {
    "annotations": '"volcano.sh/~number~.%x":"v"',
    "labels": '"~number~.%x":"v"',
    "selector": '"~number~.%x":"v"',
    "plain selector": '"~number~.%x":"v"',
    "node selector": '"~number~.%x":"v"',
    "tasks": '"~number~.%x":1',
    "owners": '{"kind":"K","name":"~number~.%x","uid":"u","controller":true}',
    "expressions": '{"key":"~number~.%x","operator":"Exists"}',
    "tolerations": '{"key":"~number~.%x"}',
    "volumes": f'{{"name":"v","hostPath":{{"path":"/~number~.%x{"x" * 3000}"}}}}',
    "resources": f'{{"name":"~number~.%x","resources":{{"requests":{{{_AMOUNTS}}}}}}}',
    "template": f'{{"name":"~number~.%x","resources":{{"requests":{{{_AMOUNTS}}}}}}}',
    "affinity": '{"topologyKey":"k","labelSelector":{"matchLabels":{"app":"~number~.%x"}}}',
    "metrics": '{"type":"Resource","resource":{"name":"~number~.%x"}}',
    "policies": '{"containerName":"~number~.%x"}',
    "recommendations": '{"containerName":"~number~.%x"}',
    "devices": '{"name":"~number~.%x","exactly":{"deviceClassName":"~number~.%x"}}',
}
"""A small entry of each place; the others are one text."""


def _filled(place: str, size_bytes: int) -> bytes:
    """About as many bytes of JSON."""
    if place not in ENTRIES:
        return f'"~number~{"x" * size_bytes}"'.encode()
    entry = ENTRIES[place]
    count = size_bytes // (len(entry.replace("%x", "1000")) + 1)
    entries = ",".join(entry.replace("%x", f"{i:x}") for i in range(max(1, count)))
    return (f"[{entries}]" if entry.startswith("{") else f"{{{entries}}}").encode()


def main() -> int:
    """Keep a hundred of each kind, one place after the other, and print the memory in MiB."""
    kept: list[Any] = []
    shares = NamespaceShares()
    for _, of_kind in groupby(large_objects(), lambda each: each.kind):
        places = list(of_kind)
        decoder = places[0].kind.decoder_within(shares)
        for place in places:
            kept += map(decoder.one, place.bodies(-(-COUNT // len(places))))
        sys.stdout.write(f"{resident_mib():.0f} after {places[0].kind.wire.__name__}\n")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{peak_mib:.0f} at most, with {len(kept)} objects\n")
    return 0


def resident_mib() -> float:
    """The memory of this process now."""
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * resource.getpagesize() / 2**20


if __name__ == "__main__":
    sys.exit(main())
