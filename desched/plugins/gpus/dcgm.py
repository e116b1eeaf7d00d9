"""The queries about GPUs: gauges of DCGM's exporter."""

from collections.abc import Mapping
from typing import NamedTuple

from desched.promql.sources import CHECKPOINTS, CLUSTER_LABELS, NodeSource, Scope, selector

DCGM = "DCGM's exporter"
DCGM_SCOPE = 'job=~"dcgm-exporter|nvidia-dcgm-exporter|gke-managed-dcgm-exporter|gpu-metrics"'
"""The jobs of its chart, of NVIDIA's GPU operator, and of GKE. Those of the prometheus chart scrape
annotated Services of all namespaces, and this exporter has no port of its node to be known by."""

# By GPU or MIG instance, and not by the pod that uses it: that changes, and of several pods which
# share one, each has the load of all. Older exporters write Hostname.
_DCGM_NODE = ("node", "instance", "Hostname", "hostname", *CLUSTER_LABELS)
GPU_LABELS = ("UUID", "GPU_I_ID")
_BY_GPU = ", ".join((*_DCGM_NODE, *GPU_LABELS))
GPU_POD_LABELS = ("exported_namespace", "exported_pod", "namespace", "pod")
"""The pod that uses a GPU; `exported_` if Prometheus puts the exporter's own pod into the others.
An exporter that is to name all pods of a shared GPU has a series for each of them."""
_BY_GPU_AND_POD = f"{_BY_GPU}, {', '.join(GPU_POD_LABELS)}"


class GpuMetric(NamedTuple):
    """A gauge of DCGM for each GPU, which is `whole` if the GPU is busy all the time."""

    name: str
    whole: int

    @property
    def source(self) -> NodeSource:
        """The load of each GPU."""
        return NodeSource(DCGM, DCGM_SCOPE, f"by ({_BY_GPU})", (self.name, ""), self._ratio)

    def disagreement(self, window_seconds: int, scope: Scope) -> str:
        """By how much the series of a GPU, one for each of its pods, differ over a window."""
        of_gpu = f"by ({_BY_GPU}) ({selector(self.name, '', scope)})"
        return self._mean(f"max {of_gpu} - min {of_gpu}", window_seconds)

    def node_ratio(self, window_seconds: int, scope: Scope) -> str:
        """The mean load of the GPUs of each node over a window."""
        return f"avg by ({', '.join(_DCGM_NODE)}) ({self._ratio(window_seconds, scope)})"

    def users(self, scope: Scope) -> str:
        """The pods that have a GPU now."""
        return f"group by ({_BY_GPU_AND_POD}) ({selector(self.name, '', scope)})"

    def usage(self, window_seconds: int, scope: Scope) -> str:
        """The usage of each GPU by each pod, as a mean over the time that it has had the GPU.

        At each time, the pods of a GPU have equal shares of its load: DCGM reports no more.
        """
        gauge = f"max by ({_BY_GPU_AND_POD}) ({selector(self.name, '', scope)})"
        pods = f"count by ({_BY_GPU}) ({gauge})"
        return self._mean(f"{gauge} / on ({_BY_GPU}) group_left () {pods}", window_seconds)

    def _ratio(self, window_seconds: int, scope: Scope) -> str:
        return self._mean(f"max by ({_BY_GPU}) ({selector(self.name, '', scope)})", window_seconds)

    def _mean(self, gauge: str, window_seconds: int) -> str:
        step_ms = window_seconds * 1000 // CHECKPOINTS
        return f"avg_over_time(({gauge})[{window_seconds}s:{step_ms}ms]) / {self.whole}"


GPU_METRICS: Mapping[str, GpuMetric] = {
    "engine": GpuMetric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1),
    "utilization": GpuMetric("DCGM_FI_DEV_GPU_UTIL", 100),
}
"""By name, in order of preference: MIG instances have only the first, some GPUs only the second."""
