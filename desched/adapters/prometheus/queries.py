"""The queries in PromQL: one for each measure and window, for the whole cluster.

Every query returns the labels from which `nodes` finds the node; no query joins or renames.
Matchers are in every selector. A user's query is used as it is, with `{window}` replaced.

Node ratios are quotients whose two sides are extrapolated alike; with `1 - avg(rate(idle))` missing
samples would count as load.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from desched.errors import ConfigurationError
from desched.model.resources import Resource

NODE_EXPORTER, CADVISOR = "node_exporter", "cAdvisor"
CLUSTER_LABELS = ("cluster", "cluster_id", "cluster_name", "k8s_cluster")
_EXPORTER_LABELS = (
    *("node", "instance", "namespace", "pod", "nodename", "hostname", "Hostname"),
    *CLUSTER_LABELS,
)
_BY_EXPORTER = ", ".join(_EXPORTER_LABELS)
# The namespace and pod labels of cAdvisor's root are its scraper's on one side only.
_BY_KUBELET = ", ".join(("node", "instance", *CLUSTER_LABELS))
_USAGES = {
    Resource.CPU: "container_cpu_usage_seconds_total",
    Resource.MEMORY: "container_memory_working_set_bytes",
}
_ROOT = 'id="/"'

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
CHECKPOINTS = 10
"""The number of points in a window at which coverage by samples is checked."""
LONGEST_GAP_SHARE = 0.3
"""Of the window, between samples: allows four scrapes in a window, some of them late."""
STALE_AFTER_SECONDS = 180.0
"""A sample counts for at most three scrape intervals of a minute: a late one is no gap."""

_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\ufffd": r"\ufffd"}
"""Prometheus takes an unescaped U+FFFD for broken UTF-8."""

THROTTLED_SHARE = 0.25
"""Of the CPU periods; a container that is throttled more often needs more CPU than it uses."""

Matchers = Mapping[str, str]


class NodeSource(NamedTuple):
    """A source of node load.

    `by` are the labels of its series. `raw` is the metric whose samples show age and coverage, as
    arguments of `_selector`; `ratio` returns the query for the mean load over a window, as a share
    of capacity.
    """

    name: str
    by: str
    raw: tuple[str, str]
    ratio: Callable[[int, Matchers], str]

    def age(self, matchers: Matchers) -> str:
        """The age of the newest sample of each series, in seconds, without series that have ended.

        A query of its own, because a computed result has the timestamp of its evaluation.
        """
        return f"time() - {self._newest(matchers)}"

    def covered_checkpoints(self, window_seconds: int, matchers: Matchers) -> str:
        """The number of checkpoints of a window with a recent sample, for each series.

        This works for any scrape interval, and detects late starts and gaps alike.
        """
        step_ms = window_seconds * 1000 // CHECKPOINTS
        gap_seconds = min(window_seconds * LONGEST_GAP_SHARE, STALE_AFTER_SECONDS)
        fresh = f"{self._newest(matchers)} >= time() - {gap_seconds:g}"
        return f"count_over_time(({fresh})[{window_seconds}s:{step_ms}ms])"

    def scrape_interval(self, matchers: Matchers) -> str:
        """The median time between samples over ten minutes, in seconds; at least 15."""
        seen = f"({self._newest(matchers)})[10m:15s]"
        span = f"(max_over_time({seen}) - min_over_time({seen}))"
        return f"quantile(0.5, {span} / (changes({seen}) > 0))"

    def _newest(self, matchers: Matchers) -> str:
        return f"max by ({self.by}) (timestamp({_selector(*self.raw, matchers)}))"


def exporter_names(matchers: Matchers) -> str:
    """The node name that each node_exporter reports, with the labels of its other series."""
    return f"group by ({_BY_EXPORTER}) ({_selector('node_uname_info', '', matchers)})"


def pod_usage(resource: Resource, window_seconds: int, matchers: Matchers) -> str:
    """Mean usage of each pod over a window, in cores or bytes.

    A container that is scraped twice counts once. The pod's cgroup is read if the runtime does not
    label containers.
    """
    containers = _usage(
        resource, 'container!="",container!="POD",pod!=""', window_seconds, matchers
    )
    cgroups = _usage(resource, 'container="",pod!="",id=~".*pod[^/]*"', window_seconds, matchers)
    return (
        f"sum by (namespace, pod) (max by (namespace, pod, container) ({containers}))"
        f" or max by (namespace, pod) ({cgroups})"
    )


def throttled_pods(window_seconds: int, matchers: Matchers) -> str:
    """The share of CPU periods in which each pod was throttled, above the threshold only."""

    def periods(which: str) -> str:
        name = f"container_cpu_cfs_{which}periods_total"
        counter = _selector(name, 'container!="",pod!=""', matchers)
        return f"max by (namespace, pod, container) (rate({counter}[{window_seconds}s]))"

    share = f"{periods('throttled_')} / {periods('')}"
    return f"max by (namespace, pod) ({share}) > {THROTTLED_SHARE}"


def own_query(text: str, window_seconds: int) -> str:
    """A query of the user for one window."""
    return text.replace("{window}", f"{window_seconds}s")


def _usage(resource: Resource, conditions: str, window_seconds: int, matchers: Matchers) -> str:
    """Mean usage of cgroups over a window, in cores or bytes."""
    selector = _selector(_USAGES[resource], conditions, matchers)
    mean = "rate" if resource is Resource.CPU else "avg_over_time"
    return f"{mean}({selector}[{window_seconds}s])"


def _exporter_cpu(window_seconds: int, matchers: Matchers) -> str:
    def seconds(modes: str) -> str:
        counter = _selector("node_cpu_seconds_total", modes, matchers)
        return f"sum by ({_BY_EXPORTER}) (rate({counter}[{window_seconds}s]))"

    # No pod causes waiting for a disk or the hypervisor; `user` includes guests.
    idle = seconds('mode=~"idle|iowait|steal"')
    busy = seconds('mode!~"idle|iowait|steal|guest|guest_nice"')
    # The sum of both has no value, rather than 0, where relabelling keeps idle time alone.
    return f"1 - {idle} / ({idle} + {busy})"


def _exporter_memory(window_seconds: int, matchers: Matchers) -> str:
    def mean(name: str) -> str:
        gauge = _selector(f"node_memory_{name}_bytes", "", matchers)
        return f"avg_over_time({gauge}[{window_seconds}s])"

    parts = " + ".join(mean(name) for name in ("Buffers", "Cached", "MemFree", "Slab"))
    available = f"{mean('MemAvailable')} or ({parts})"  # kernels before 3.14 have no MemAvailable
    total = mean("MemTotal")
    return f"1 - sum by ({_BY_EXPORTER}) ({available}) / sum by ({_BY_EXPORTER}) ({total})"


def _root(resource: Resource, capacity: str) -> NodeSource:
    """The root cgroup, as cAdvisor reports it."""

    def ratio(window_seconds: int, matchers: Matchers) -> str:
        usage = _usage(resource, _ROOT, window_seconds, matchers)
        size = _selector(capacity, "", matchers)
        return f"max by ({_BY_KUBELET}) ({usage}) / max by ({_BY_KUBELET}) ({size})"

    return NodeSource(CADVISOR, _BY_KUBELET, (_USAGES[resource], _ROOT), ratio)


def _exporter(metric: str, conditions: str, ratio: Callable[[int, Matchers], str]) -> NodeSource:
    return NodeSource(NODE_EXPORTER, _BY_EXPORTER, (metric, conditions), ratio)


NODE_SOURCES: Mapping[Resource, tuple[NodeSource, ...]] = {
    Resource.CPU: (
        _exporter("node_cpu_seconds_total", 'mode="idle"', _exporter_cpu),
        _root(Resource.CPU, "machine_cpu_cores"),
    ),
    Resource.MEMORY: (
        _exporter("node_memory_MemTotal_bytes", "", _exporter_memory),
        _root(Resource.MEMORY, "machine_memory_bytes"),
    ),
}
"""By resource, in order of preference; the second is for clusters without the first."""


def check_matchers(matchers: Matchers) -> None:
    """Refuse matchers that are not a label and its value.

    Raises:
        ConfigurationError: a label name is invalid.
    """
    for name in matchers:
        if not _LABEL_NAME.fullmatch(name):
            raise ConfigurationError(
                f"metrics.matchers has the label {name!r}, which Prometheus does not permit; a "
                "label has letters, digits and underscores, and does not begin with a digit."
            )


def _selector(metric: str, conditions: str, matchers: Matchers) -> str:
    own = [f'{name}="{_escaped(value)}"' for name, value in sorted(matchers.items())]
    inside = ",".join([*([conditions] if conditions else []), *own])
    return f"{metric}{{{inside}}}" if inside else metric


def _escaped(value: str) -> str:
    """The value as it is written between double quotes."""
    return "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in value)
