"""Where load comes from: the address or the stack, own queries and matchers."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from desched.policy.durations import duration_text
from desched.policy.policy import MetricsSource, MetricsType, Policy, PrometheusStack
from desched.policy.windows_of_samples import KEPT_WINDOW_SECONDS
from desched.policy.wording import quoted
from desched.policy_file.sections.queries import Queries, Sources, queries_of, sources_of
from desched.policy_keys.notes import Notes
from desched.policy_keys.section import Section, given, optional, refusal
from desched.policy_keys.values import Form, NamespaceName, lasting, matching

VOLCANO_AVERAGE_SECONDS = 600
"""The range in the rules of Volcano's documentation."""

LONGEST_AVERAGE_SECONDS = 3600

OPENSHIFT_NAMESPACE = "openshift-monitoring"
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

METRICS_SERVER_SPELLINGS = frozenset({"metrics-server", "metrics_server", "kubernetesmetrics"})
"""Also as Volcano and kubernetes-sigs spell it."""


def _metrics_type(value: object) -> str:
    if value is None:
        raise refusal(
            'is null, so there is no load to act on; write "prometheus", and the URL of your '
            'Prometheus as metrics.address, or "metrics-server"'
        )
    text = value.lower() if isinstance(value, str) else ""
    if text == "prometheus":
        return MetricsType.PROMETHEUS
    if text in METRICS_SERVER_SPELLINGS:
        return MetricsType.METRICS_SERVER
    if text == MetricsType.PROMETHEUS_ADAPTOR:
        return MetricsType.PROMETHEUS_ADAPTOR
    allowed = '"prometheus", "metrics-server" and "prometheus_adaptor"'
    raise refusal(f"found {quoted(value)}, allowed are {allowed}")


_MANAGED = {
    "azure": "tokens of Microsoft Entra; run its authorization proxy (aad-auth-proxy) in the "
    "cluster, and set metrics.address to its Service, such as "
    '"http://aad-auth-proxy.monitoring.svc:8081"',
}
"""What the managed services require, and what answers in their place."""


def _stack(value: object) -> PrometheusStack:
    text = value.lower() if isinstance(value, str) else ""
    if text in _MANAGED:
        raise refusal(
            f"found {quoted(value)}, a managed service that requires {_MANAGED[text]}; then "
            "remove metrics.stack"
        )
    try:
        return PrometheusStack(text)
    except ValueError:
        allowed = ", ".join(f'"{stack}"' for stack in PrometheusStack)
        raise refusal(f"found {quoted(value)}, allowed are {allowed}") from None


class Metrics(Section):
    """Where load comes from."""

    type: Annotated[
        str,
        Form(
            _metrics_type,
            {
                "type": "string",
                "enum": [
                    "prometheus",
                    "Prometheus",
                    "metrics-server",
                    "metrics_server",
                    "KubernetesMetrics",
                    "prometheus_adaptor",
                ],
            },
        ),
    ]
    """`prometheus`, `metrics-server` or `prometheus_adaptor`; upper and lower case are the same.
    `metrics_server` and `KubernetesMetrics` mean `metrics-server`. `prometheus_adaptor` is the
    custom metrics API with Volcano's metrics of nodes, `node_cpu_usage_avg` and
    `node_memory_usage_avg`, and metrics-server for pods. These two have no history: a service
    collects its own samples, and evicts nothing before they cover the windows."""
    averaged_over: Annotated[int, lasting(0, LONGEST_AVERAGE_SECONDS)] | None = optional(
        seconds=VOLCANO_AVERAGE_SECONDS, example="5m"
    )
    """With `prometheus_adaptor`: the range over which the rules of the adapter average, such as
    `[10m:30s]`. Windows must be longer by two minutes; by default they are longer by five."""
    address: str | None = optional(
        example="http://prometheus-server.kube-system.svc.cluster.local:80"
    )
    """URL of Prometheus, or of a server with the same API (Thanos, Mimir, …). Optional if
    `--prometheus-url` sets it. Never put credentials here."""
    stack: (
        Annotated[
            PrometheusStack,
            Form(_stack, {"type": "string", "enum": [stack.value for stack in PrometheusStack]}),
        ]
        | None
    ) = optional(example="kube-prometheus-stack")
    """In place of `address`: the stack whose Service in `namespace` is read, with the port and the
    path that are usual for it. It is found by its labels; `auto` is the Service of any known
    stack. If several match, none is read. With `openshift`, desched identifies itself by the token
    of its own account, which needs the ClusterRole `cluster-monitoring-view`. `gmp` is Google's
    managed Prometheus, and `amp` Amazon's: they are read at `address`, by an account of theirs.
    `azure` is refused, with what to put in front of it."""
    namespace: NamespaceName | None = optional(example="monitoring")
    """The namespace of the stack, required with `stack` except `gmp` and `amp`, because tenants can
    give Services in their namespaces any labels. OpenShift's is always `openshift-monitoring`."""
    tenant: (
        Annotated[
            str, matching(r"[A-Za-z0-9!_.*'()|-]{1,150}", "the ID of a tenant of Mimir is allowed")
        ]
        | None
    ) = optional(example="team-a")
    """The tenant of Mimir whose data is read, sent as the header `X-Scope-OrgID`; with
    `stack: mimir` or an address."""
    queries: Queries | None = optional(
        example={"nodeCPU": "avg_over_time(node:cpu_utilisation:ratio[{window}])"}
    )
    """Own PromQL in place of built-in queries."""
    matchers: dict[str, str] | None = optional(example={"cluster": "prod-eu1"})
    """Labels and their values, added to every built-in query; required if one Prometheus holds
    several clusters."""
    sources: Sources | None = optional(example={"podCPU": 'job="my-cadvisor"'})
    """Whose series count for built-in queries; by default the kubelet's cAdvisor and node_exporter
    by the job names of the usual stacks."""


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
        queries=queries_of(metrics.queries, notes.below("queries")),
        sources=sources_of(metrics.sources, notes.below("sources")),
        stack=metrics.stack,
        namespace=metrics.namespace or (_usual_namespace(metrics) if metrics.stack else ""),
        tenant=metrics.tenant or "",
    )


def _sampled_source(metrics: Metrics, kind: MetricsType, notes: Notes) -> MetricsSource:
    used = {"type", "averagedOver"} if kind is MetricsType.PROMETHEUS_ADAPTOR else {"type"}
    for key, _, _ in given(metrics):
        if key not in used:
            notes.warn(f"has no effect with {kind.in_words}.", key)
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
    shown = re.split("[?#]", address)[0][:80]  # what follows may be a token
    if "@" in address:  # also where a special character in the password makes it no URL
        return (
            "holds a user name or password; everyone who may read the ConfigMap could read it: "
            "remove it here and give credentials to desched by environment or file."
        )
    if parts.scheme not in {"http", "https"} or not host or re.search(r"\s", address):
        return f'found "{shown}", which is not an http or https URL; {example}.'
    if parts.query or parts.fragment:
        return f'found "{shown}", a URL without "?" and "#" is allowed; {example}.'
    return ""
