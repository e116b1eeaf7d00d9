"""Volcano's LoadAware, whose policies desched reads as they are, with the meaning it has there."""

from urllib.parse import urlsplit

from desched.convert.balancing import (
    args_of,
    args_to_convert,
    convert_deviation,
    convert_limits,
    convert_scope,
    drop_other_plugins,
)
from desched.convert.draft import Draft, here, of_evictor
from desched.convert.evictor import (
    add_labels,
    convert_default_evictor,
    namespaces,
    protect_claims,
    set_namespaces,
    unknown_args,
)
from desched.convert.original import OriginalSection
from desched.convert.selectors import both, label_selector, selector_text
from desched.convert.thresholds import bounds, set_bounds
from desched.policy.durations import duration_seconds, duration_text
from desched.policy.policy import MetricsType
from desched.policy_file.sections.load_aware import LoadAwareArgs
from desched.policy_file.sections.metrics import METRICS_SERVER_SPELLINGS
from desched.policy_file.sections.windows import LONGEST_WINDOW_SECONDS
from desched.policy_file.upstream_plugins import DEFAULT_EVICTOR, LOAD_AWARE
from desched.policy_keys.section import keys

_KEYS = ("thresholds", "targetThresholds")
_DEAD = ("evictLocalStoragePods", "evictSystemCriticalPods", "evictFailedBarePods")
_WOKEN = "had no effect there; here it protects pods, as it says."
_AVERAGED = "each value counts as a mean over 10m, as in Volcano's rules; see averagedOver."
_ONLY_LOWER_CASE = (
    "Volcano reads it in lower case only, so its LoadAware did nothing; desched reads it, and acts."
)
_SHORTEST_SECONDS = 300
_VOLCANO = {
    *_KEYS,
    *_DEAD,
    "useDeviationThresholds",
    "numberOfNodes",
    "nodeSelector",
    "ignorePvcPods",
    "labelSelector",
    "priorityThreshold",
    "nodeFit",
    "evictableNamespaces",
    "metrics",
    "duration",
    "apiVersion",
    "kind",
}


def convert_load_aware(root: OriginalSection, profile: OriginalSection, draft: Draft) -> None:
    """A policy of Volcano's descheduler, by one of its profiles."""
    convert_limits(root, draft)
    if nodes := selector_text(root, "nodeSelector"):
        draft.root["nodeSelector"] = nodes
    args = args_to_convert(profile, LOAD_AWARE)
    if args is None:
        return
    if own := [key for key in args if key in keys(LoadAwareArgs) and key not in _VOLCANO]:
        text = f"only desched has {own[0]}, so this is a policy of desched; it loads as it is."
        args.refuse(own[0], text)
        return
    drop_other_plugins(profile, (LOAD_AWARE, DEFAULT_EVICTOR))
    evictor = args_of(profile, DEFAULT_EVICTOR)
    if evictor is not None:
        convert_default_evictor(evictor, draft)
    convert_scope(args, draft)
    deviation = convert_deviation(args, draft)
    set_bounds(draft.load_aware, args, bounds(args, _KEYS, here(), deviation=deviation), _KEYS)
    if "pods" in draft.load_aware["targetThresholds"]:
        text = "percent of allocatable pods, as there, whatever its README says."
        args.section("targetThresholds").changed("pods", text, here("targetThresholds", "pods"))
    _convert_protections(args, draft)
    _convert_metrics(args.section("metrics"), draft)
    _convert_duration(args, draft)
    unknown_args(args)


def _convert_protections(args: OriginalSection, draft: Draft) -> None:
    for key in _DEAD:
        args.dropped(key, "had no effect there, so it has none here; see DefaultEvictor.")
    if args.flag("nodeFit") is False:
        args.dropped("nodeFit", "whether a pod fits elsewhere is always checked here.")
    if args.flag("ignorePvcPods"):
        protect_claims(draft)
        args.changed("ignorePvcPods", _WOKEN, of_evictor())
    if labels := label_selector(args, "labelSelector"):
        add_labels(draft, labels)
        args.changed("labelSelector", _WOKEN, of_evictor("labelSelector"))
    _convert_priority(args, draft)
    if nodes := selector_text(args, "nodeSelector"):
        draft.evictor["nodeSelector"] = both(draft.evictor.get("nodeSelector"), nodes)
        text = "it limited destinations there, as this key does here."
        args.changed("nodeSelector", text, of_evictor("nodeSelector"))
    set_namespaces(draft, args, [namespaces(args.section("evictableNamespaces"))])


def _convert_priority(args: OriginalSection, draft: Draft) -> None:
    """The lower of both plugins applies; where one names a PriorityClass, only one may be given."""
    threshold = args.section("priorityThreshold")
    given = threshold.value("value")
    mine = draft.evictor.get("priorityThreshold")
    if type(given) is int and (mine is None or "value" in mine):
        at_most = mine["value"] if mine else 2_000_000_000
        draft.evictor["priorityThreshold"] = {"value": max(min(given, at_most), -(2**31))}
        args.changed("priorityThreshold", _WOKEN, of_evictor("priorityThreshold"))
    else:
        args.dropped("priorityThreshold", "had no effect there; see that of DefaultEvictor.")


def _convert_metrics(metrics: OriginalSection, draft: Draft) -> None:
    source, address = metrics.text("type"), metrics.text("address")
    at = here("metrics")
    if source is not None and source.lower() in METRICS_SERVER_SPELLINGS:
        draft.load_aware["metrics"]["type"] = "metrics-server"
        metrics.dropped("address", "metrics-server needs none.")
        unknown_args(metrics)
        return
    if source is not None and source.lower() == MetricsType.PROMETHEUS_ADAPTOR:
        draft.load_aware["metrics"]["type"] = MetricsType.PROMETHEUS_ADAPTOR.value
        metrics.changed("type", _AVERAGED, at)
        metrics.dropped("address", "the adapter has one of its own.")
        unknown_args(metrics)
        return
    if source is not None and source != (lower := source.lower()) and lower == "prometheus":
        metrics.changed("type", _ONLY_LOWER_CASE, at)
    if source is None or source.lower() != "prometheus":
        metrics.held("type", "without a type that it knows, LoadAware did nothing there.")
    set_address(metrics, "address", address, draft)
    unknown_args(metrics)


def set_address(section: OriginalSection, key: str, address: str | None, draft: Draft) -> None:
    """Set the address of Prometheus if it is a plain URL."""
    at = here("metrics")
    if address is None:
        section.added("set the address of Prometheus here or with --prometheus-url.", at)
        return
    try:
        parts = urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if usable and not set("@?# ${") & set(address):
        draft.load_aware["metrics"]["address"] = address
    else:
        text = "is no plain URL, or holds credentials; set the address with --prometheus-url."
        section.changed(key, text, at)


def _convert_duration(args: OriginalSection, draft: Draft) -> None:
    """The window, at least the default of desched: a shorter one lets more nodes overload."""
    text = args.text("duration")
    if draft.load_aware["metrics"]["type"] == MetricsType.PROMETHEUS_ADAPTOR:
        args.dropped("duration", "had no effect there with prometheus_adaptor; 15m here.")
        return
    try:
        seconds = duration_seconds(text) if text else 0
    except ValueError:
        seconds = 0
    at = here("duration")
    window = min(max(seconds, _SHORTEST_SECONDS), LONGEST_WINDOW_SECONDS)
    draft.load_aware["duration"] = duration_text(window)
    if text is None:
        args.added("2m is the default there; a longer window is calmer.", at)
    elif window != seconds:
        args.changed("duration", f"{text} there; a window from 5m to 24h is safe here.", at)
