"""The Prometheus of the stack that a policy names, and what desched identifies itself by there."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import structlog

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.services import read_services
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.stacks import (
    OPENSHIFT,
    FoundService,
    find_prometheus,
    service_of_stack,
)
from desched.errors import ConfigurationError, ObservationError
from desched.policy.policy import MetricsSource
from desched.policy.resolution.metrics_source import OPENSHIFT_NAMESPACE

_log = structlog.get_logger(__name__)

ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token of its account and, on OpenShift, the CA that signs its Services."""
TENANT_HEADER = "X-Scope-OrgID"
GOOGLE = "https://monitoring.googleapis.com"
"""It may have Google's token wherever its address comes from."""


class Target(NamedTuple):
    """The Prometheus to read; `as_account` if it knows desched by the token of its account.

    `by_google` if that is an account of Google.
    """

    url: str
    tenant: str = ""
    as_account: bool = False
    by_google: bool = False


class StackService:
    """Finds the Service of a stack, and keeps it until it fails."""

    def __init__(self, kubernetes: KubernetesConnection | None, request_seconds: float) -> None:
        self._kubernetes = kubernetes
        self._request_seconds = request_seconds
        self._found: tuple[MetricsSource, FoundService] | None = None

    def target(self, source: MetricsSource) -> Target:
        """The Service of the policy's stack.

        Raises:
            ObservationError: the Services could not be read, or none is of the stack.
            ConfigurationError: several are.
        """
        if self._found is None or self._found[0] != source:
            self._found = source, self._find(source)
        found = self._found[1]
        as_account = (found.stack, found.namespace) == (OPENSHIFT, OPENSHIFT_NAMESPACE)
        return Target(found.url, source.tenant, as_account)

    def forget(self) -> None:
        """Find it anew for the next question, because it may have changed."""
        self._found = None

    def _find(self, source: MetricsSource) -> FoundService:
        if self._kubernetes is None:
            raise ConfigurationError(
                "metrics.stack needs a cluster whose Services are read; set --prometheus-url "
                "(DESCHED_PROMETHEUS_URL)."
            )
        try:
            services = read_services(self._kubernetes, self._request_seconds)
        except ObservationError as error:
            text = (
                f"{error}\nmetrics.stack requires the right to list services; set "
                "metrics.address or --prometheus-url (DESCHED_PROMETHEUS_URL) to do without."
            )
            raise ObservationError(error.source, text) from error
        found = service_of_stack(find_prometheus(services), source)
        _log.info("prometheus.found", stack=found.stack, address=found.url)
        return found


def for_tenant(direct: PrometheusConnection, tenant: str) -> PrometheusConnection:
    """The connection with the header that names the tenant, if there is one.

    Raises:
        ConfigurationError: the settings name a tenant, too.
    """
    if not tenant:
        return direct
    if any(name.lower() == TENANT_HEADER.lower() for name in direct.headers):
        raise ConfigurationError(
            f"The header {TENANT_HEADER} is set twice, by metrics.tenant and by the additional "
            "headers for Prometheus; keep one."
        )
    return replace(direct, headers={**direct.headers, TENANT_HEADER: tenant})


def as_account(direct: PrometheusConnection, *, in_cluster: bool) -> PrometheusConnection:
    """The connection by the token of desched's account, which only OpenShift's own Service gets.

    The CA signs nothing but the names of Services, so no other server can take the token.

    Raises:
        ConfigurationError: this is no pod, or the certificate would not be verified.
    """
    if not in_cluster:
        raise ConfigurationError(
            "OpenShift's Prometheus requires a token, which the API server does not forward; from "
            f"outside run `oc --namespace {OPENSHIFT_NAMESPACE} get route thanos-querier` and pass "
            "its host as --prometheus-url https://HOST with --prometheus-bearer-token-file."
        )
    if direct.insecure_skip_verify:
        raise ConfigurationError(
            "The token of desched's account is not sent without verifying the certificate of "
            "Prometheus; remove --prometheus-insecure-skip-verify."
        )
    return replace(
        direct,
        bearer_token_file=ACCOUNT_FILES / "token",
        ca_file=direct.ca_file or ACCOUNT_FILES / "service-ca.crt",
    )


def by_google(direct: PrometheusConnection) -> PrometheusConnection:
    """The connection by a token that Google gives.

    Raises:
        ConfigurationError: the library for it is not installed, or there are other credentials.
    """
    try:
        from desched.adapters.prometheus.google_token import GoogleToken  # noqa: PLC0415  (optional)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "metrics.stack: gmp requires a library of Google that is not installed; install it "
            "with `pip install 'desched[google]'`, or run Google's query frontend in the cluster, "
            'and set metrics.address to its Service, such as "http://frontend.gmp-public.svc:9090",'
            " without metrics.stack."
        ) from error
    return replace(direct, token_provider=GoogleToken())
