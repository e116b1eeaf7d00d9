"""A policy that fits this cluster, as text with comments that give the reasons."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from desched.adapters.prometheus.stacks import FoundService
from desched.doctor.examination import Examination, Origin, PrometheusFacts, Unanswered
from desched.doctor.measures import KEYS, other_job
from desched.doctor.price import ProposedPrice, price_text
from desched.doctor.prometheus_address import own_matchers
from desched.doctor.thresholds import ResourceLoad, pressure_of, resource_loads
from desched.doctor.windows import FINEST_INTERVAL_SECONDS, intervals_text, shortest_window_seconds
from desched.model.measures import MetricsFacts
from desched.model.resources import Resource
from desched.policy.compatibility import EXTENDED
from desched.policy.durations import duration_text
from desched.policy.policy import MetricsSource, MetricsType, Policy
from desched.policy_keys.section import API_VERSION, KIND
from desched.wording.formatting import plain

DEFAULT_WINDOW_SECONDS = 300
_WINDOWS = f"[{duration_text(DEFAULT_WINDOW_SECONDS)}]"

STARTING_POLICY = f"""
apiVersion: {API_VERSION}
kind: {KIND}
profiles:
- pluginConfig:
  - name: LoadAware
    args:
      metrics: {{type: prometheus}}
      targetThresholds: {{cpu: 80, memory: 85}}
      thresholds: {{cpu: 40, memory: 40}}
      windows: {{cpu: {_WINDOWS}, memory: {_WINDOWS}}}
  plugins: {{balance: {{enabled: [LoadAware]}}}}
"""
"""With this the cluster is examined first if there is no policy; mostly its windows fit."""

_MEASURED = (Resource.CPU, Resource.MEMORY)


class Bounds(NamedTuple):
    """In which percentages a target is proposed, and what if today's load is not known."""

    lowest: int
    highest: int
    otherwise: int


TARGETS: Mapping[Resource, Bounds] = {
    Resource.CPU: Bounds(70, 85, 80),
    Resource.MEMORY: Bounds(75, 90, 85),
}
LEAST_LOW, LEAST_GAP, DEFAULT_LOW = 20, 30, 40
"""The low thresholds: never lower, never closer to the target, and if the load is not known."""

_STEP = 5
_INFRASTRUCTURE_PREFIXES = ("kube-", "openshift-")
_INFRASTRUCTURE_SUFFIX = "-system"


class _Target(NamedTuple):
    """A proposed target and low threshold in percent, with the reason."""

    target: int
    low: int
    why: str


def proposed_policy(
    examination: Examination, base: Policy | None = None, price: ProposedPrice | None = None
) -> str | None:
    """The text of the policy, None if there is no Prometheus to name and no metrics-server.

    Of `base`, what fits stays: how load is read, the windows and, without a `price`, evictionPrice.
    """
    address = _address(examination.prometheus)
    metrics = base.metrics if base else MetricsSource(address)
    if not address and not metrics.type.is_sampled:
        return None
    facts = None if isinstance(examination.metrics, Unanswered) else examination.metrics
    lines = [
        *_head(examination),
        *_indented(
            _sampled(metrics)
            if metrics.type.is_sampled
            else _metrics(address, metrics, facts, examination.prometheus),
        ),
        *_indented(_windows(base, facts)),
        *_indented(_price(base, price)),
        *_indented(_thresholds(examination)),
        *_indented(_namespaces(examination)),
        "  plugins:",
        "    balance:",
        "      enabled:",
        "      - LoadAware",
    ]
    return "".join(f"{line}\n" for line in lines)


def _head(examination: Examination) -> Iterator[str]:
    when, target = f"{examination.at:%Y-%m-%d}", examination.run.target
    yield f"# Written by `desched doctor` on {when} for {target}."
    yield "# Read the comments, then try it: desched plan --policy FILE"
    yield "# docs/policy-reference.md describes every key."
    yield f"apiVersion: {API_VERSION}"
    yield f"kind: {KIND}"
    yield "profiles:"
    yield "- name: desched"
    yield "  pluginConfig:"
    yield "  - name: LoadAware"
    yield "    args:"


def _address(facts: PrometheusFacts) -> str:
    """The address inside the cluster, if the given one leads only from this machine."""
    if facts.address and facts.found and _is_loopback(urlsplit(facts.address).hostname or ""):
        return facts.found[0].url
    return facts.address


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sampled(metrics: MetricsSource) -> Iterator[str]:
    yield "metrics:"
    yield "  # Without history, a service takes samples itself, and `desched plan --wait 3m` once."
    yield "  # With a Prometheus desched also knows the past, and throttled pods."
    yield f"  type: {metrics.type}"
    if metrics.type is MetricsType.PROMETHEUS_ADAPTOR:
        yield f"  averagedOver: {duration_text(metrics.averaged_seconds)}"


def _metrics(
    address: str, metrics: MetricsSource, facts: MetricsFacts | None, prometheus: PrometheusFacts
) -> Iterator[str]:
    yield "metrics:"
    yield "  type: prometheus"
    for service in prometheus.found:
        yield from map("  # {}".format, _about(service, chosen=service.url == address))
    if facts is None:
        yield "  # It did not answer, so what follows does not know this cluster's load."
    searched = metrics.stack is not None and prometheus.origin is Origin.STACK
    yield from _place("" if searched else address, metrics)
    ours = own_matchers(facts, metrics.matchers) if facts else {}
    if ours:
        yield "  # This Prometheus has data of several clusters; these labels select this one."
    matchers = ours or metrics.matchers
    if matchers:
        yield "  matchers:"
        yield from (f"    {_quoted(k)}: {_quoted(v)}" for k, v in sorted(matchers.items()))
    yield from _mapping("queries", metrics.queries)
    jobs = ((m.name, other_job(m, matchers)) for m in (facts.measures if facts else ()))
    sources = {**metrics.sources, **{name: f'job="{job}"' for name, job in jobs if job}}
    if sources:
        yield "  # Not the usual jobs; check that only trusted targets have these."
    yield from _mapping("sources", sources)


def _place(address: str, metrics: MetricsSource) -> Iterator[str]:
    """Which Prometheus is read; without an address, the one of the stack."""
    if address:
        yield f"  address: {_quoted(address)}"
        if metrics.stack and metrics.stack.is_managed:
            yield f"  stack: {metrics.stack}"
        return
    yield f"  stack: {metrics.stack}"
    yield f"  namespace: {metrics.namespace}"
    if metrics.tenant:
        yield f"  tenant: {_quoted(metrics.tenant)}"


def _about(service: FoundService, *, chosen: bool) -> Iterator[str]:
    if not chosen:
        yield f"Also found: {service}."
        return
    where = f"{service.namespace}/{service.name}"
    yield f"Service {where}, {service.stack}: found by its labels."
    yield f"From outside the cluster, {service.steps}."
    if service.needs:
        yield f"{service.stack} {service.needs}."


def _mapping(key: str, values: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield f"  {key}:"
    for name, value in sorted(values.items()):
        yield f"    {_key(name)}: {_quoted(value)}"


def _key(name: str) -> str:
    """The key of a measure in the document; `node_cpu_destination` is `nodeCPUDestination`."""
    measure = name.removesuffix("_destination")
    return {**KEYS, "node_gpu": "nodeGPU"}[measure] + ("Destination" if measure != name else "")


def _windows(base: Policy | None, facts: MetricsFacts | None) -> Iterator[str]:
    intervals = {
        resource: max(
            (f.interval_seconds or 0.0 for f in facts.measures if f.resource is resource),
            default=0.0,
        )
        for resource in _MEASURED
        if facts
    }
    seconds_known = sorted({round(interval) for interval in intervals.values() if interval})
    if seconds_known:
        yield f"# Scraped every {intervals_text(seconds_known)}; a window needs four samples."
    yield "windows:"
    for resource in _MEASURED:
        given = base.windows(resource) if base else ()
        windows = fitting_windows(given, intervals.get(resource, 0.0))
        yield f"  {resource.value}: [{', '.join(map(duration_text, windows))}]"


def _price(base: Policy | None, price: ProposedPrice | None) -> Iterator[str]:
    minutes = base.eviction_price_minutes if base else EXTENDED.eviction_price_minutes
    yield "# How many minutes of expected overload the move of a pod must save."
    if price is not None:
        minutes = minutes if price.minutes is None else price.minutes
        yield from (f"# {sentence}" for sentence in price.why)
    yield f"evictionPrice: {price_text(minutes)}"


def fitting_windows(given: Sequence[int], interval_seconds: float) -> tuple[int, ...]:
    """The given windows that have enough samples, or else one that does."""
    coarse = interval_seconds > FINEST_INTERVAL_SECONDS
    least = shortest_window_seconds(interval_seconds) if coarse else 0
    if fitting := tuple(window for window in given if window >= least):
        return fitting
    return (max(DEFAULT_WINDOW_SECONDS, least),)


def _thresholds(examination: Examination) -> Iterator[str]:
    targets = dict(_targets(examination))
    yield "# Percent of a node's capacity. A node above any target is overloaded."
    yield "targetThresholds:"
    for resource, proposed in targets.items():
        yield f"  # {proposed.why}"
        yield f"  {resource.value}: {proposed.target}"
    yield "# A node below all of these is underloaded."
    yield "thresholds:"
    for resource, proposed in targets.items():
        yield f"  {resource.value}: {proposed.low}"


def _targets(examination: Examination) -> Iterator[tuple[Resource, _Target]]:
    snapshot, policy = examination.snapshot, examination.policy.policy
    loads: dict[Resource, ResourceLoad] = {}
    if snapshot is not None and not (policy.deviation or policy.pools):
        pressure = pressure_of(snapshot, policy, None)
        loads = {load.resource: load for load in resource_loads(pressure, policy)}
    for resource in _MEASURED:
        yield resource, _target(TARGETS[resource], loads.get(resource))


def _target(bounds: Bounds, load: ResourceLoad | None) -> _Target:
    if load is None:
        return _Target(bounds.otherwise, DEFAULT_LOW, "Today's load is not known.")
    sought = math.floor(load.sought_ratio * 100 / _STEP) * _STEP
    target = min(max(sought, bounds.lowest), bounds.highest)
    quarter = math.floor(load.quarter_ratio * 100 / _STEP) * _STEP
    low = min(max(quarter, LEAST_LOW), target - LEAST_GAP)
    fullest = f"{load.highest_ratio * 100:.0f} %"
    return _Target(target, low, f"The fullest of {load.nodes} nodes is at {fullest} today.")


def _namespaces(examination: Examination) -> Iterator[str]:
    cluster = examination.cluster
    names = () if isinstance(cluster, Unanswered) else cluster.namespaces
    monitoring = {service.namespace for service in examination.prometheus.found} - {"default"}
    excluded = sorted({"kube-system", *filter(_is_infrastructure, names), *monitoring})
    yield "# Pods of these namespaces stay. Others that must not move belong here, too."
    yield "evictableNamespaces:"
    yield "  exclude:"
    yield from (f"  - {_quoted(name)}" for name in excluded)


def _is_infrastructure(name: str) -> bool:
    return name.startswith(_INFRASTRUCTURE_PREFIXES) or name.endswith(_INFRASTRUCTURE_SUFFIX)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (" " * 6 + plain(line) for line in lines)


def _quoted(text: str) -> str:
    """The text as a scalar of YAML, of which JSON is a part but for surrogate pairs."""
    return json.dumps(text, ensure_ascii=False)
