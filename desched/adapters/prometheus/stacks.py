"""Finds Prometheus by the Services of the known stacks.

Labels are those of the stacks' own manifests and charts. Any tenant can give a Service such labels,
so what is found is only proposed, and load is read from a namespace that the policy names.
Credentials go to none of them but OpenShift's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from desched.adapters.prometheus.port_forward import in_cluster_service, port_forward_steps
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.model.measures import ServiceAddress, ServicePort
from desched.policy.policy import MetricsSource, PrometheusStack

NAME, COMPONENT, PART_OF = (
    f"app.kubernetes.io/{label}" for label in ("name", "component", "part-of")
)


class Stack(NamedTuple):
    """How a stack labels the Service that answers queries.

    `ports` are its possible names; the first port counts if none has one of them. `pod_port` is the
    usual port of its pods. `needs` is what else must be set, as the end of a sentence.
    """

    name: str
    labels: Mapping[str, str]
    ports: Sequence[str] = ()
    pod_port: int = 9090
    scheme: str = "http"
    path: str = ""
    needs: str = ""


_OPENSHIFT_NEEDS = (
    "needs the ClusterRole cluster-monitoring-view, for desched's ServiceAccount with "
    "`metrics.stack: openshift`, and otherwise for the account of a token "
    "(`--prometheus-bearer-token-file`) with the cluster's CA (`--prometheus-ca-file`)"
)
_MIMIR_NEEDS = (
    "needs the header X-Scope-OrgID with the tenant (`metrics.tenant` in the policy, or "
    "`--prometheus-headers-file`), unless multi-tenancy is off"
)
_HTTP = ("http", "web", "http-web")
OPENSHIFT = "OpenShift"

STACKS: tuple[Stack, ...] = (
    Stack(
        OPENSHIFT,
        {NAME: "thanos-query", PART_OF: "openshift-monitoring"},
        ("web",),
        9091,
        "https",
        needs=_OPENSHIFT_NEEDS,
    ),
    Stack("kube-prometheus", {NAME: "prometheus", PART_OF: "kube-prometheus"}, ("web",)),
    Stack("kube-prometheus-stack", {"app": "kube-prometheus-stack-prometheus"}, _HTTP),
    Stack("prometheus chart", {NAME: "prometheus", COMPONENT: "server"}, _HTTP),
    Stack("prometheus chart", {"app": "prometheus", "component": "server"}, _HTTP),
    Stack("VictoriaMetrics", {NAME: "victoria-metrics-single"}, _HTTP, 8428),
    Stack("VictoriaMetrics", {NAME: "vmsingle"}, _HTTP, 8428),
    Stack("VictoriaMetrics", {NAME: "vmselect"}, _HTTP, 8481, path="/select/0/prometheus"),
    Stack("VictoriaMetrics", {"app": "vmselect"}, _HTTP, 8481, path="/select/0/prometheus"),
    Stack("Prometheus Operator", {"operated-prometheus": "true"}, _HTTP),
    Stack("Thanos", {NAME: "thanos-query"}, _HTTP),
    Stack("Thanos", {NAME: "thanos", COMPONENT: "query"}, _HTTP),
    Stack(
        "Mimir",
        {NAME: "mimir", COMPONENT: "gateway"},
        ("http-metrics",),
        8080,
        path="/prometheus",
        needs=_MIMIR_NEEDS,
    ),
    Stack(
        "Mimir",
        {NAME: "mimir", COMPONENT: "nginx"},
        ("http-metric", "http-metrics"),
        8080,
        path="/prometheus",
        needs=_MIMIR_NEEDS,
    ),
)
"""The most local first: those at the end often hold several clusters."""

GOVERNING = "Prometheus Operator"
"""The operator's own Service stands for a Prometheus that mostly has another Service, too."""


POLICY_STACKS = {
    PrometheusStack.KUBE_PROMETHEUS: "kube-prometheus",
    PrometheusStack.KUBE_PROMETHEUS_STACK: "kube-prometheus-stack",
    PrometheusStack.PROMETHEUS_CHART: "prometheus chart",
    PrometheusStack.OPENSHIFT: OPENSHIFT,
    PrometheusStack.VICTORIA_METRICS: "VictoriaMetrics",
    PrometheusStack.THANOS: "Thanos",
    PrometheusStack.MIMIR: "Mimir",
}
"""The stacks that a policy can name, by their names in the table above."""


_MOST_LISTED = 5


class FoundService(msgspec.Struct, frozen=True):
    """A Service that answers queries, by its labels; `pod_port` is the port of its pods."""

    stack: str
    namespace: str
    name: str
    url: str
    pod_port: int
    needs: str = ""

    @property
    def steps(self) -> str:
        """What to do to reach it from outside the cluster, as the end of a sentence."""
        service = in_cluster_service(self.url)
        return port_forward_steps(service) if service else ""

    def __str__(self) -> str:
        return f"{self.url} ({self.stack})"


def find_prometheus(services: Iterable[ServiceAddress]) -> tuple[FoundService, ...]:
    """The Services of known stacks, the most local stack first, then by namespace and name."""
    matches = sorted(
        _matches(services), key=lambda pair: (pair[0], pair[1].namespace, pair[1].name)
    )
    better = {service.namespace for _, service in matches if service.stack != GOVERNING}
    return tuple(
        service
        for _, service in matches
        if service.stack != GOVERNING or service.namespace not in better
    )


def service_of_stack(services: Iterable[FoundService], source: MetricsSource) -> FoundService:
    """The one Service of the policy's stack in the policy's namespace.

    Raises:
        ObservationError: there is none.
        ConfigurationError: there are several, of which any could be meant.
    """
    candidates = tuple(services)
    stack = POLICY_STACKS.get(source.stack) if source.stack else None  # None is any of them
    fits = [service for service in candidates if stack in {None, service.stack}]
    here = [fit for fit in fits if fit.namespace == source.namespace]
    place = f"namespace {source.namespace}"
    if not here:
        what = f"the stack {stack}" if stack else "a known stack"
        others = f" Other namespaces, perhaps of tenants, have {_listed(fits)}." if fits else ""
        raise ObservationError(
            ObservationSource.PROMETHEUS,
            f"No Service of {what} is in {place}; correct metrics.stack and "
            f"metrics.namespace, or set metrics.address.{others}",
        )
    if len(here) > 1:
        raise ConfigurationError(
            f"Several Services of known stacks are in {place}: {_listed(here)}; name the stack as "
            "metrics.stack, or set the address of one as metrics.address."
        )
    return here[0]


def _listed(services: Sequence[FoundService]) -> str:
    shown = ", ".join(map(str, services[:_MOST_LISTED]))
    more = len(services) - _MOST_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def service_behind(address: str, services: Iterable[FoundService]) -> FoundService | None:
    """The Service that an address names, None if it is not one of these."""
    named = in_cluster_service(address)
    if named is None:
        return None
    where = (named.namespace, named.name)
    return next(
        (service for service in services if (service.namespace, service.name) == where), None
    )


def _matches(services: Iterable[ServiceAddress]) -> Iterator[tuple[int, FoundService]]:
    for service in services:
        for rank, stack in enumerate(STACKS):
            port = _port(stack, service.ports)
            if port is not None and stack.labels.items() <= service.labels.items():
                yield rank, _found(stack, service, port)
                break


def _port(stack: Stack, ports: Sequence[ServicePort]) -> ServicePort | None:
    named = (port for name in stack.ports for port in ports if port.name == name)
    return next(iter((*named, *ports)), None)


def _found(stack: Stack, service: ServiceAddress, port: ServicePort) -> FoundService:
    host = f"{service.name}.{service.namespace}.svc"
    return FoundService(
        stack.name,
        service.namespace,
        service.name,
        f"{stack.scheme}://{host}:{port.number}{stack.path}",
        port.pod_port or stack.pod_port,
        stack.needs,
    )
