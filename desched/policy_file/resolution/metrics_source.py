"""Where load comes from: the address, own queries and matchers of LoadAware."""

import re
from urllib.parse import urlsplit

from desched.policy.durations import duration_text
from desched.policy.policy import MetricsSource, MetricsType, Policy, PrometheusStack
from desched.policy.windows_of_samples import KEPT_WINDOW_SECONDS
from desched.policy_file.document.metrics import VOLCANO_AVERAGE_SECONDS, Metrics, Queries, Sources
from desched.policy_file.document.sections import names
from desched.policy_file.document.values import written
from desched.policy_file.reading.problems import Notes

OPENSHIFT_NAMESPACE = "openshift-monitoring"
WINDOW_PLACEHOLDER = "{window}"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NOT_NAMES = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\{[^{}]*\}|\[[^\[\]]*\]')
_RECORDED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*:[a-zA-Z0-9_:]+")
"""Prometheus keeps colons in metric names for recording rules."""
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_MATCHERS = re.compile(rf"{_MATCHER}(?:,{_MATCHER})*")


def metrics_source(metrics: Metrics, notes: Notes) -> MetricsSource:
    """The source as the adapter needs it; what is wrong with it is noted."""
    if (kind := MetricsType(metrics.type)).is_sampled:
        return _sampled_source(metrics, kind, notes)
    if metrics.averaged_over is not None:
        notes.warn('has an effect with "type: prometheus_adaptor" only.', "averagedOver")
    if problem := _address_problem(metrics.address or ""):
        notes.refuse(problem, "address")
    _check_stack(metrics, notes)
    matchers = dict(sorted((metrics.matchers or {}).items()))
    for label in matchers:
        if not _LABEL_NAME.fullmatch(label) or label == "__name__":
            text = "is not the name of a label; letters, digits and underscores are allowed."
            notes.refuse(text, "matchers", label)
    return MetricsSource(
        address=metrics.address or "",
        matchers=matchers,
        queries=_queries(metrics.queries, notes.below("queries")),
        sources=_sources(metrics.sources, notes.below("sources")),
        stack=metrics.stack,
        namespace=metrics.namespace or (_usual_namespace(metrics) if metrics.stack else ""),
        tenant=metrics.tenant or "",
    )


def _sampled_source(metrics: Metrics, kind: MetricsType, notes: Notes) -> MetricsSource:
    spelt = {name: key for key, name in names(Metrics).items()}
    used = {"type"}
    if kind is MetricsType.PROMETHEUS_ADAPTOR:
        used.add("averaged_over")
    for name in written(**dict(metrics)).keys() - used:
        notes.warn(f"has no effect with {kind.in_words}.", spelt[name])
    return MetricsSource("", type=kind, averaged_seconds=averaged_seconds(metrics))


def averaged_seconds(metrics: Metrics) -> int:
    """Over how long each value that the source has is a mean; 0 where desched asks for means."""
    if metrics.type != MetricsType.PROMETHEUS_ADAPTOR:
        return 0
    return VOLCANO_AVERAGE_SECONDS if metrics.averaged_over is None else metrics.averaged_over


def _check_stack(metrics: Metrics, notes: Notes) -> None:
    """Refuse a stack that could be anybody's, and what belongs to none."""
    stack, namespace = metrics.stack, metrics.namespace
    usual = _usual_namespace(metrics)
    if stack and stack.is_managed:
        if namespace:
            notes.refuse("is that of a stack in the cluster; remove it.", "namespace")
    elif stack and metrics.address:
        notes.refuse("has no effect beside an address; remove one of them.", "stack")
    elif stack and usual and namespace not in {None, usual}:
        notes.refuse(f'found "{namespace}", but OpenShift\'s is "{usual}".', "namespace")
    elif stack and not (namespace or usual):
        notes.refuse(
            f'found "{stack}" without a namespace; name it as metrics.namespace, because tenants '
            "can give Services in their namespaces any labels. `desched doctor` lists the "
            "Services of known stacks.",
            "stack",
        )
    elif namespace and not stack:
        notes.refuse("is that of a stack; add metrics.stack, or remove it.", "namespace")
    if metrics.tenant and stack not in {None, PrometheusStack.MIMIR}:
        notes.refuse(f'is for Mimir, which "stack: {stack}" is not; remove one of them.', "tenant")


def _usual_namespace(metrics: Metrics) -> str:
    return OPENSHIFT_NAMESPACE if metrics.stack is PrometheusStack.OPENSHIFT else ""


def check_kept_windows(policy: Policy, notes: Notes) -> None:
    """Refuse windows that desched's own samples, its only history, cannot cover."""
    kind, averaged = policy.metrics.type, policy.metrics.averaged_seconds
    if not kind.is_sampled:
        return
    windows = {seconds for rule in policy.rules for seconds in rule.windows_seconds}
    further = {w.window_seconds for rule in policy.rules for w in rule.destination_windows}
    least, most = (each + averaged for each in KEPT_WINDOW_SECONDS)
    shortest, longest = duration_text(least), duration_text(most)
    has_none = f"{kind.in_words} has no history"
    if averaged:
        has_none += f", its values are means over {duration_text(averaged)} (metrics.averagedOver)"
    for seconds in sorted(windows | further):
        if not least <= seconds <= most:
            notes.refuse(
                f'has a window of "{duration_text(seconds)}", but {has_none}, and desched keeps '
                f'samples for windows from "{shortest}" to "{longest}" only; change it, or write '
                '"type: prometheus".',
                "metrics",
                "type",
            )


def _address_problem(address: str) -> str:
    """What is wrong with the URL, empty if nothing is; none at all is fine."""
    example = 'write for example "http://prometheus-server.monitoring.svc:80"'
    if not address:
        return ""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    found = re.split("[?#]", address)[0][:80]  # what follows may be a token
    if "@" in address:  # also where a special character in the password makes it no URL
        return (
            "holds a user name or password; everyone who may read the ConfigMap could read it: "
            "remove it here and give credentials to desched by environment or file."
        )
    if parts.scheme not in {"http", "https"} or not host or re.search(r"\s", address):
        return f'found "{found}", which is not an http or https URL; {example}.'
    if parts.query or parts.fragment:
        return f'found "{found}", a URL without "?" and "#" is allowed; {example}.'
    return ""


def _sources(section: Sources | None, notes: Notes) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, name in names(Sources).items():
        matchers: str | None = getattr(section, name, None)
        if matchers is None:
            continue
        if not _MATCHERS.fullmatch(matchers):
            notes.refuse(
                'is not a list of label matchers; write it like job="kubelet",metrics_path='
                '"/metrics/cadvisor", without braces.',
                key,
            )
        found[name] = matchers.strip()
    return found


def _queries(section: Queries | None, notes: Notes) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, name in names(Queries).items():
        query: str | None = getattr(section, name, None)
        if query is None:
            continue
        found[name] = query
        if WINDOW_PLACEHOLDER in query:
            continue
        if _RECORDED.search(_NOT_NAMES.sub(" ", query)):
            text = "so the recorded value is read as it is for every window."
            notes.warn(f"has no {WINDOW_PLACEHOLDER}, {text}", key)
        else:
            notes.refuse(
                f'has no {WINDOW_PLACEHOLDER}; write it in place of the range, as in "rate('
                f'some_counter[{WINDOW_PLACEHOLDER}])" or "avg_over_time(some_gauge['
                f'{WINDOW_PLACEHOLDER}])". Only a recording rule may do without.',
                key,
            )
    return found
