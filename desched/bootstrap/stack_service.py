"""The Prometheus of the stack that a policy names, and what desched identifies itself by there."""

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import structlog

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.services import read_services
from desched.adapters.prometheus.connection import TENANT_HEADER, PrometheusConnection
from desched.adapters.prometheus.stacks import (
    OPENSHIFT,
    FoundService,
    find_prometheus,
    service_of_stack,
)
from desched.errors import ConfigurationError, ObservationError
from desched.policy.policy import MetricsSource, PrometheusStack
from desched.policy_file.sections.metrics import OPENSHIFT_NAMESPACE

_log = structlog.get_logger(__name__)

ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token of its account and, on OpenShift, the CA that signs its Services."""
_GOOGLE = re.compile(r"https://monitoring\.googleapis\.com(?=/|$)")
_AMAZON = re.compile(
    r"https://aps-workspaces(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)"
    r"(?=/|$)"
)


class Target(NamedTuple):
    """The Prometheus to read; `as_account` if it requires the token of desched's account.

    `managed` is the service whose account it requires.
    """

    url: str
    tenant: str = ""
    as_account: bool = False
    managed: PrometheusStack | None = None


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
        service = self._found[1]
        as_account = (service.stack, service.namespace) == (OPENSHIFT, OPENSHIFT_NAMESPACE)
        return Target(service.url, source.tenant, as_account)

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
        service = service_of_stack(find_prometheus(services), source)
        _log.info("prometheus.found", stack=service.stack, address=service.url)
        return service


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


def is_own(managed: PrometheusStack, url: str) -> bool:
    """Whether the address is the managed service's own, so that it may know desched's account."""
    own = _GOOGLE if managed is PrometheusStack.GMP else _AMAZON
    return own.match(url.strip()) is not None


def by_account(direct: PrometheusConnection, managed: PrometheusStack) -> PrometheusConnection:
    """The connection to a managed service by an account there.

    Raises:
        ConfigurationError: the library for it is not installed, or there are other credentials.
    """
    try:
        if managed is PrometheusStack.GMP:
            from desched.adapters.prometheus.google_token import GoogleToken  # noqa: PLC0415  (optional)

            return replace(direct, token_provider=GoogleToken())
        from desched.adapters.prometheus.aws_signature import AwsSignature  # noqa: PLC0415  (optional)
    except ModuleNotFoundError as error:
        extra, instead = _LIBRARIES[managed]
        raise ConfigurationError(
            f"metrics.stack: {managed} requires a library that is not installed; install it with "
            f"`pip install 'desched[{extra}]'`, or run {instead} in the cluster, and set "
            "metrics.address to its Service, without metrics.stack."
        ) from error
    host = _AMAZON.match(direct.url.strip())
    return replace(direct, sign=AwsSignature(host["region"] if host else ""))


_LIBRARIES = {
    PrometheusStack.GMP: ("google", "Google's query frontend"),
    PrometheusStack.AMP: ("aws", "aws-sigv4-proxy"),
}
"""The extra of each managed service, and what does without."""
