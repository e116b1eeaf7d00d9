"""The queries in PromQL: one for each measure and window, for the whole cluster or some nodes.

Every query returns the labels from which `nodes` finds the node; no query joins or renames.
Every selector has a scope: matchers of the policy and of the exporters that are believed, because
any scraped pod can expose a metric of the same name. A user's query is used as it is, with
`{window}` replaced.

Node ratios are quotients whose two sides are extrapolated alike; with `1 - avg(rate(idle))` missing
samples would count as load.

cAdvisor's samples have times of their own, up to 18 s before their scrape. `rate` extrapolates to
the borders of the window if they seem near, so of such samples it shows too little, from moment to
moment another part. `deriv` is the slope of the line through the samples: it does not depend on the
borders, and costs as much. It counts the middle of the window more than its ends. After a reset of
a counter it is far below zero, which is no usage.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from desched.errors import ConfigurationError
from desched.model.resources import Resource
from desched.model.text import shortened
from desched.policy.policy import MetricsSource
from desched.promql.sources import (
    CLUSTER_LABELS,
    NodeSource,
    Scope,
    scope_of,
    selector,
)

NODE_EXPORTER, CADVISOR = "node_exporter", "cAdvisor"
_EXPORTER_LABELS = (
    *("node", "instance", "namespace", "pod", "nodename", "hostname", "Hostname"),
    *CLUSTER_LABELS,
)
_BY_EXPORTER = f"by ({', '.join(_EXPORTER_LABELS)})"
# All other labels stay, so that nothing is added to what an exporter reports by one label more.
_WITHOUT_CPU = "without (cpu, mode)"
_UNCHANGED = "without ()"
_IDLE, _BUSY = "idle|iowait|steal", "user|nice|system|irq|softirq"
# The namespace and pod labels of cAdvisor's root are its scraper's on one side only.
_BY_KUBELET = f"by ({', '.join(('node', 'instance', *CLUSTER_LABELS))})"
_BY_POD = "namespace, pod, node, instance"
_USAGES = {
    Resource.CPU: "container_cpu_usage_seconds_total",
    Resource.MEMORY: "container_memory_working_set_bytes",
}
_ROOT = 'id="/"'
_PODS_ROOT = 'id=~"/kubepods|/kubepods.slice"'
_CONTAINERS = 'container!="",container!="POD",pod!=""'
# Sandboxes have an image. A regular expression for the id would be compared with that of each
# container of the cluster, which takes longer than all else.
_POD_CGROUPS = 'container="",image="",pod!=""'
_OF_CGROUPS = "namespace, pod, container, id, image, name, cpu"
"""The labels by which the cgroups of a kubelet differ."""

EXPORTER_SCOPE = (
    'job=~"node-exporter|node_exporter|prometheus-node-exporter|kubernetes-service-endpoints|node'
    '|integrations/node_exporter|integrations/unix"'
)
CADVISOR_SCOPE = (
    'job=~"kubelet|cadvisor|kubernetes-cadvisor|kubernetes-nodes-cadvisor|gmp-kubelet-cadvisor'
    '|integrations/kubernetes/cadvisor",metrics_path=~"|.*/metrics/cadvisor"'
)
"""The jobs of kube-prometheus(-stack), OpenShift, Rancher, VictoriaMetrics, the prometheus chart,
Grafana's Alloy, and the managed services of Google and Azure. A job named kubelet also scrapes
other paths; stacks without the label metrics_path have a job for cAdvisor alone."""

_LISTED_VALUES = 5  # of a label, in a sentence
_LONGEST_VALUE = 60  # characters
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
SUM_POINTS = 5
"""The number of points in a window at which the memory of pods is added up."""
PART_LABEL = "desched_part"
THROTTLED_SHARE = 0.25
"""Of the CPU periods; a container that is throttled more often needs more CPU than it uses."""

Matchers = Mapping[str, str]


def names_exporters(metrics: MetricsSource, watched: Iterable[Resource]) -> bool:
    """Whether the policy names whose series count for the load of nodes by these resources."""
    return {f"node_{resource}" for resource in watched} <= metrics.sources.keys()


def pod_scope(metrics: MetricsSource, resource: Resource) -> Scope:
    """Whose series count for the usage of pods."""
    return scope_of(metrics, f"pod_{resource}", CADVISOR_SCOPE)


def exporter_names(scope: Scope) -> str:
    """The node name that each node_exporter reports, with the labels of its other series."""
    return f"group {_BY_EXPORTER} ({selector('node_uname_info', '', scope)})"


def pod_usage(resource: Resource, window_seconds: int, scope: Scope) -> str:
    """Mean usage of each pod over a window, in cores or bytes.

    The pod's cgroup is read if the runtime does not label containers.
    """
    labelled = container_usage(resource, window_seconds, scope)
    return f"{labelled} or {cgroup_usage(resource, window_seconds, scope)}"


def container_usage(resource: Resource, window_seconds: int, scope: Scope) -> str:
    """The usage of each pod by its containers; one that a kubelet reports twice counts once."""
    usage = _usage(resource, window_seconds, scope, _CONTAINERS)
    return f"sum by ({_BY_POD}) (max by ({_BY_POD}, container) ({usage}))"


def cgroup_usage(resource: Resource, window_seconds: int, scope: Scope) -> str:
    """The usage of each pod by its cgroup, which Prometheus takes longer to find."""
    return f"max by ({_BY_POD}) ({_usage(resource, window_seconds, scope, _POD_CGROUPS)})"


def pod_sums(
    resource: Resource, window_seconds: int, scope: Scope, *, containers: bool = True
) -> str:
    """The usage of all pods together over a window, a series for each scrape of their kubelet.

    In cores or bytes, by the cgroups of pods for runtimes that do not label containers. Memory is
    added up at some points of the window: the mean of a container that has ended is over the time
    in which it ran, so it would count in full. So does its CPU, which only raises the sum.
    """
    conditions = _CONTAINERS if containers else _POD_CGROUPS
    if resource is Resource.CPU:
        usage = _usage(resource, window_seconds, scope, conditions)
        return f"sum without ({_OF_CGROUPS}) ({usage})"
    total = f"sum without ({_OF_CGROUPS}) ({selector(_USAGES[resource], conditions, scope)})"
    step_ms = window_seconds * 1000 // SUM_POINTS
    return f"avg_over_time(({total})[{window_seconds}s:{step_ms}ms])"


def root_sums(resource: Resource, window_seconds: int, scope: Scope) -> str:
    """The same by the cgroup of all pods of a node, which many stacks do not keep."""
    usage = _usage(resource, window_seconds, scope, _PODS_ROOT)
    return f"max by (node, instance) ({usage})"


def kubelets(scope: Scope) -> str:
    """The labels of each kubelet's series."""
    return f"group by (node, instance) ({selector('machine_memory_bytes', '', scope)})"


def kubelets_of_pods(resource: Resource, scope: Scope) -> str:
    """The same from the series of pods, which are many."""
    return f"group by (node, instance) ({pod_series(resource, scope)})"


def least_on_node(resource: Resource, window_seconds: int, scope: Scope) -> str:
    """The least that kubelets report as the usage of each node, in cores or bytes.

    Whoever writes into the same series can raise a mean of memory, but not the lowest value. In a
    counter, the samples of another one are resets.
    """
    series = f"{selector(_USAGES[resource], _ROOT, scope)}[{window_seconds}s]"
    least = f"min_over_time({series})"
    if resource is Resource.CPU:
        least = f"deriv({series}) unless resets({series}) > 0"
    return f"min by (node, instance) ({least})"


def throttled_pods(window_seconds: int, scope: Scope) -> str:
    """The share of CPU periods in which each pod was throttled, above the threshold only."""

    def periods(which: str) -> str:
        name = f"container_cpu_cfs_{which}periods_total"
        counter = selector(name, 'container!="",pod!=""', scope)
        return f"max by ({_BY_POD}, container) (rate({counter}[{window_seconds}s]))"

    share = f"{periods('throttled_')} / {periods('')}"
    return f"max by ({_BY_POD}) ({share}) > {THROTTLED_SHARE}"


def as_part(query: str, name: str) -> str:
    """The query as a part of a larger one: its series have its name as a label."""
    return f'label_replace({query}, "{PART_LABEL}", "{name}", "node", ".*")'


CPU_MODES = tuple(f"{_IDLE}|{_BUSY}".split("|"))
"""The modes in which node_exporter counts the time of CPUs; all of them make up the whole."""


def cpu_modes(scope: Scope) -> str:
    """How many series of the time of CPUs there are by mode."""
    return f"count by (mode) ({selector('node_cpu_seconds_total', '', scope)})"


def reach(series: str, window_seconds: int, step_seconds: int) -> str:
    """How far back samples of any of these series reach in a window, in seconds."""
    newest = f"max(timestamp({series}))"
    return f"time() - min_over_time(({newest})[{window_seconds}s:{step_seconds}s])"


def node_series_by_labels(source: NodeSource, labels: Iterable[str]) -> str:
    """How many series of a source there are by these labels, from whatever exporter."""
    return f"count by ({', '.join(labels)}) ({selector(*source.raw, '')})"


def pod_series_by_labels(resource: Resource, labels: Iterable[str]) -> str:
    """How many series of pods' usage there are by these labels, from whatever exporter.

    Many stacks drop the root cgroup, which says nothing of pods.
    """
    return f"count by ({', '.join(labels)}) ({pod_series(resource, '')})"


def pod_series(resource: Resource, scope: Scope) -> str:
    """The series of the usage of pods."""
    return selector(_USAGES[resource], 'pod!=""', scope)


def pods_by_labels(names: Iterable[str], labels: Iterable[str]) -> str:
    """How many of these pods cAdvisor reports by these labels, whatever the policy's matchers.

    By containers or by cgroups: runtimes that do not label containers have only those.
    """
    by = ", ".join(labels)
    any_of = "|".join(name.replace(".", "[.]") for name in names)
    memory = selector(_USAGES[Resource.MEMORY], f'pod=~"{any_of}"', "")
    return f"count by ({by}) (group by ({by}, namespace, pod) ({memory}))"


def own_query(text: str, window_seconds: int) -> str:
    """A query of the user for one window."""
    return text.replace("{window}", f"{window_seconds}s")


def _usage(resource: Resource, window_seconds: int, scope: Scope, conditions: str) -> str:
    """Mean usage of cgroups over a window, in cores or bytes, while they existed."""
    series = selector(_USAGES[resource], conditions, scope)
    mean = "deriv" if resource is Resource.CPU else "avg_over_time"
    return f"{mean}({series}[{window_seconds}s])"


def _exporter_cpu(window_seconds: int, scope: Scope) -> str:
    def seconds(modes: str) -> str:
        counter = selector("node_cpu_seconds_total", modes, scope)
        return f"sum {_WITHOUT_CPU} (rate({counter}[{window_seconds}s]))"

    # No pod causes waiting for a disk or the hypervisor; `user` includes guests.
    idle = seconds(f'mode=~"{_IDLE}"')
    busy = seconds(f'mode=~"{_BUSY}"')
    # busy / (idle + busy), with each of them once. It has no value, rather than 0, where
    # relabelling keeps idle time alone.
    return f"1 / (1 + {idle} / {busy})"


def _exporter_memory(window_seconds: int, scope: Scope) -> str:
    mean = partial(_mean_memory, window_seconds, scope)
    parts = " + ".join(map(mean, ("Buffers", "Cached", "MemFree", "Slab")))
    available = f"{mean('MemAvailable')} or ({parts})"  # kernels before 3.14 have no MemAvailable
    return f"1 - ({available}) / {mean('MemTotal')}"


def _exporter_working_set(window_seconds: int, scope: Scope) -> str:
    """The node's working set by the kubelet's definition, of which those of the pods are parts.

    Unlike `1 - MemAvailable / MemTotal`, it contains the page cache that is in use.
    """
    total, *free = map(
        partial(_mean_memory, window_seconds, scope), ("MemTotal", "MemFree", "Inactive_file")
    )
    return f"({' - '.join((total, *free))}) / {total}"


def _cpus(scope: Scope) -> str:
    """The number of CPUs of which an exporter reports any time; none if they are added up."""
    counter = selector("node_cpu_seconds_total", f'cpu!="",mode=~"{_IDLE}|{_BUSY}"', scope)
    return f"count without (cpu) (group without (mode) ({counter}))"


def _idle_cpus(scope: Scope) -> str:
    """The number of CPUs of which an exporter reports idle time."""
    counter = selector("node_cpu_seconds_total", 'cpu!="",mode="idle"', scope)
    return f"count {_WITHOUT_CPU} ({counter})"


def _total_memory(scope: Scope) -> str:
    return f"max {_UNCHANGED} ({selector('node_memory_MemTotal_bytes', '', scope)})"


def _mean_memory(window_seconds: int, scope: Scope, name: str) -> str:
    gauge = selector(f"node_memory_{name}_bytes", "", scope)
    return f"avg_over_time({gauge}[{window_seconds}s])"


def _root(resource: Resource, capacity: str) -> NodeSource:
    """The root cgroup, as cAdvisor reports it."""

    def ratio(window_seconds: int, scope: Scope) -> str:
        usage = _usage(resource, window_seconds, scope, _ROOT)
        size = selector(capacity, "", scope)
        return f"max {_BY_KUBELET} ({usage}) / max {_BY_KUBELET} ({size})"

    return NodeSource(CADVISOR, CADVISOR_SCOPE, _BY_KUBELET, (_USAGES[resource], _ROOT), ratio)


_EXPORTER = partial(NodeSource, NODE_EXPORTER, EXPORTER_SCOPE)

NODE_SOURCES: Mapping[Resource, tuple[NodeSource, ...]] = {
    Resource.CPU: (
        # All CPUs are scraped at the same time; the label is absent if they have been added up.
        _EXPORTER(
            _WITHOUT_CPU,
            ("node_cpu_seconds_total", 'mode="idle",cpu=~"|0"'),
            _exporter_cpu,
            size=_cpus,
            quick_size=_idle_cpus,
        ),
        _root(Resource.CPU, "machine_cpu_cores"),
    ),
    Resource.MEMORY: (
        _EXPORTER(
            _UNCHANGED,
            ("node_memory_MemTotal_bytes", ""),
            _exporter_memory,
            _exporter_working_set,
            _total_memory,
        ),
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


def several_clusters(label: str, values: Collection[str], own: Sequence[str] = ()) -> str:
    """What to do about data of several clusters, by the values of a label; "" for none.

    `own` are the values that may be those of this cluster.
    """
    listed = sorted(values, key=lambda value: (not value, value))[:_LISTED_VALUES]
    names = ", ".join(shortened(value, _LONGEST_VALUE) or "none" for value in listed)
    # As a matcher, "" selects series without the label.
    ours = (shortened(value, _LONGEST_VALUE) or '""' for value in own[:_LISTED_VALUES])
    matchers = " or ".join(f"{{{label}: {value}}}" for value in ours)
    return (
        f"Prometheus has data of {len(values)} clusters by the label {label} ({names}); add this "
        f"one to metrics.matchers{matchers and f', as {matchers}'}, and to your own queries"
    )
