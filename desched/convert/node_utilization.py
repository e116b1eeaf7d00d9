"""LowNodeUtilization of kubernetes-sigs/descheduler as LoadAware."""

from desched.convert.balancing import (
    args_of,
    args_to_convert,
    convert_deviation,
    convert_limits,
    convert_scope,
    drop_other_plugins,
)
from desched.convert.draft import Draft, here
from desched.convert.evictor import (
    convert_default_evictor,
    namespaces,
    set_namespaces,
    unknown_args,
)
from desched.convert.load_aware import set_address
from desched.convert.original import OriginalSection
from desched.convert.selectors import selector_text
from desched.convert.thresholds import ALL, UNWATCHED, Bounds, bounds, set_bounds
from desched.policy_file.upstream_plugins import DEFAULT_EVICTOR

PLUGIN = "LowNodeUtilization"
KEYS = ("thresholds", "targetThresholds")
_USUAL = Bounds({"cpu": 30, "memory": 30}, {"cpu": 80, "memory": 85})
_OF_ANY_QUERY = "MetricResource"
_METRICS_SERVER = "KubernetesMetrics"
_DROPPED = {
    "gracePeriodSeconds": "desched always leaves a pod its own grace period.",
    "evictionFailureEventNotification": "desched reports every refused eviction anyway.",
    "metricsCollector": "metrics.type is where load comes from.",
}


def convert_node_utilization(root: OriginalSection, profile: OriginalSection, draft: Draft) -> None:
    """A DeschedulerPolicy of v1alpha2, by one of its profiles."""
    for key, text in _DROPPED.items():
        root.dropped(key, text)
    convert_limits(root, draft)
    if nodes := selector_text(root, "nodeSelector"):
        draft.root["nodeSelector"] = nodes
    args = args_to_convert(profile, PLUGIN)
    if args is None:
        return
    drop_other_plugins(profile, (PLUGIN, DEFAULT_EVICTOR))
    evictor = args_of(profile, DEFAULT_EVICTOR)
    if evictor is not None:
        convert_default_evictor(evictor, draft)
    convert_scope(args, draft)
    _convert_usage(args, draft)
    _convert_providers(root, args.section("metricsUtilization"), draft)
    set_namespaces(draft, args, [namespaces(args.section("evictableNamespaces"))])
    limits = args.section("evictionLimits")
    if (limit := limits.count("node")) is not None:
        draft.limit("node", limit)
    unknown_args(limits)
    unknown_args(args)


def _convert_usage(args: OriginalSection, draft: Draft) -> None:
    usage = args.section("metricsUtilization")
    source = usage.text("source")
    if _is_metrics_server(usage):
        deviation = convert_deviation(args, draft)
        limits = bounds(args, KEYS, here(), deviation=deviation)
        set_bounds(draft.load_aware, args, limits, KEYS)
        text = "smoothed samples of metrics-server there; means of 5 minutes of them here."
        args.changed("metricsUtilization", text, here("metrics"))
        usage.value("prometheus")
    elif source == "Prometheus":
        usage.section("prometheus").dropped(
            "query",
            "desched asks for CPU and memory of each node and pod by itself; metrics.queries "
            "replaces its queries.",
        )
        set_usual(args, draft, "of the result of a query of your own")
    else:
        set_usual(args, draft, "of what pods request")
    unknown_args(usage)


def _is_metrics_server(usage: OriginalSection) -> bool:
    return bool(usage.flag("metricsServer")) or usage.text("source") == _METRICS_SERVER


def set_usual(args: OriginalSection, draft: Draft, share: str) -> None:
    """The usual thresholds of load, where the others are shares of something else.

    Higher targets and lower low thresholds stay. A share of pods is the same everywhere.
    """
    distances = args.flag("useDeviationThresholds")
    low, target = (args.section(key) for key in KEYS)
    if distances:
        text = "distances from a mean that desched does not compute; these are shares of capacity."
        args.changed("useDeviationThresholds", text, here("targetThresholds"))
    found = Bounds({}, {})
    for name in [name for name in target if name in low]:
        _add_usual(found, name, args, distances=bool(distances))
    given = {name: target.number(name) for name in found.target}
    higher = ", ".join(
        f"{name} {given[name]:g} became {usual:g}"
        for name, usual in found.target.items()
        if (given[name] or usual) < usual and not distances
    )
    set_bounds(draft.load_aware, args, found, KEYS, replaced=True)
    args.held(
        "targetThresholds",
        f"shares {share} there, of measured load here, so the usual ones are here"
        + (f", which are higher ({higher}). " if higher else ". ")
        + "Choose yours by the loads that `desched plan` shows.",
    )


def _add_usual(found: Bounds, name: str, args: OriginalSection, *, distances: bool) -> None:
    low, target = (args.section(key).number(name) for key in KEYS)
    if name == _OF_ANY_QUERY:
        found.low.update(_USUAL.low)
        found.target.update(_USUAL.target)
    elif name == "pods" and not distances:
        found.target[name] = min(target or ALL, ALL)
        found.low[name] = min(low or 0, found.target[name])
    elif name in _USUAL.target:
        usual = _USUAL.target[name]
        found.target[name] = usual if distances else min(max(usual, target or 0), ALL)
        found.low[name] = min(_USUAL.low[name], round(low or 0) if not distances else ALL)
    else:
        for key in KEYS:
            args.section(key).dropped(name, UNWATCHED)


def _convert_providers(root: OriginalSection, usage: OriginalSection, draft: Draft) -> None:
    """The source of load: what the plugin names, else the only provider."""
    address = None
    providers = root.sections("metricsProviders")
    only = {provider.text("source") for provider in providers} == {_METRICS_SERVER}
    by_metrics_server = _is_metrics_server(usage) or (only and not usage.text("source"))
    if by_metrics_server:
        draft.load_aware["metrics"]["type"] = "metrics-server"
    for provider in providers:
        prometheus = provider.section("prometheus")
        if by_metrics_server:
            prometheus.dropped("url", "load comes from metrics-server.")
        elif "url" in prometheus:
            address = prometheus.text("url")
            set_address(prometheus, "url", address, draft)
        prometheus.dropped("authToken", "a setting; see --prometheus-bearer-token-file.")
        provider.value("source")
    if address is None and not by_metrics_server:
        root.added(
            "set the address of Prometheus here or with --prometheus-url.",
            here("metrics"),
        )
