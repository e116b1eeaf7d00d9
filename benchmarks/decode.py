"""Measures how fast lists of pods are decoded, compared with the kubernetes package.

Run with `python -m benchmarks.decode`; prints the machine, versions and medians.
"""

import gc
import json
import os
import platform
import resource
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec
from kubernetes.client import ApiClient

from benchmarks.synthetic import Object, SyntheticCluster
from desched.adapters.kubernetes.client.api_types.pods import Pod as WirePod
from desched.adapters.kubernetes.cluster_reader import PAGE_SIZE
from desched.adapters.kubernetes.objects.pods import PodBuilder
from desched.api_objects.decoding import Decoder
from desched.api_objects.metadata import Items
from desched.model.cluster import Pod

PODS = 30_000
ROUNDS = 5
SLOW_PODS = 500
SLOW_ROUNDS = 3
FULL_SIZE = 150_000


def pages(pod_count: int) -> Iterator[bytes]:
    """The pages of a list, as an API server sends them."""
    pods = map(with_full_status, SyntheticCluster(pod_count // 30).pods())
    while page := list(islice(pods, PAGE_SIZE)):
        yield msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "items": page})


def with_full_status(pod: Object) -> Object:
    """Add the fields that servers since 1.33 send, and those that the client requires."""
    container, status = pod["spec"]["containers"][0], pod["status"]["containerStatuses"][0]
    status["imageID"] = f"{container['image']}@sha256:{0:064x}"
    status["resources"] = container["resources"]
    status["allocatedResources"] = container["resources"]["requests"]
    return pod


def pods_per_second(run: Callable[[], int], rounds: int) -> float:
    """The median of the rounds."""
    rates = []
    for _ in range(rounds):
        gc.collect()
        began = perf_counter()
        count = run()
        rates.append(count / (perf_counter() - began))
    return median(rates)


def decode_wire(bodies: list[bytes]) -> int:
    decoder = msgspec.json.Decoder(Items[WirePod])
    return sum(len(decoder.decode(body).items or ()) for body in bodies)


def decode_model(bodies: list[bytes]) -> int:
    decoder = Decoder(WirePod, PodBuilder().pod)
    pods: list[Pod] = []
    for body in bodies:
        pods += decoder.page(body)[0]
    return len(pods)


def decode_json(bodies: list[bytes]) -> int:
    return sum(len(json.loads(body)["items"]) for body in bodies)


def decode_with_client(client: ApiClient, body: str) -> int:
    return len(client.deserialize(body, "V1PodList", "application/json").items)


def peak_mib() -> float:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def report_memory() -> None:
    """Decode a large cluster page by page, as the reader does, and keep all of it."""
    decoder = Decoder(WirePod, PodBuilder().pod)
    pods: list[Pod] = []
    before = peak_mib()
    for body in pages(FULL_SIZE):
        pods += decoder.page(body)[0]
    print(f"peak memory  {peak_mib():,.0f} MiB with {len(pods):,} pods ({before:,.0f} before)")


def main() -> None:
    packages = ("msgspec", "kubernetes")
    print(f"machine      {cpu_name()}, {os.cpu_count()} cores")
    print(f"versions     Python {platform.python_version()}, ", end="")
    print(", ".join(f"{package} {version(package)}" for package in packages))
    report_memory()

    bodies = list(pages(PODS))
    print(f"pods         {PODS:,} of {sum(map(len, bodies)) / PODS:,.0f} bytes each")
    wired = pods_per_second(lambda: decode_wire(bodies), ROUNDS)
    modelled = pods_per_second(lambda: decode_model(bodies), ROUNDS)
    plain = pods_per_second(lambda: decode_json(bodies), 1)
    client = ApiClient()
    small = next(pages(SLOW_PODS)).decode()
    slow = pods_per_second(lambda: decode_with_client(client, small), SLOW_ROUNDS)
    for name, rate in (
        ("wire", wired),
        ("model", modelled),
        ("json.loads", plain),
        ("kubernetes", slow),
    ):
        print(f"{name:12} {rate:>10,.0f} pods/s  {rate / slow:>6,.0f} times the kubernetes package")


if __name__ == "__main__":
    main()
