"""The source of load that the policy names: a metrics API, or a Prometheus and how to reach it."""

import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.adapters.prometheus.connection import PrometheusConnection, without_user
from desched.adapters.prometheus.port_forward import (
    InClusterService,
    in_cluster_service,
    port_forward_hint,
)
from desched.adapters.prometheus.reader import PrometheusLoadReader
from desched.bootstrap.load_samples import LoadSamples
from desched.bootstrap.stack_service import (
    StackService,
    Target,
    as_account,
    by_account,
    for_tenant,
    is_own,
)
from desched.errors import ConfigurationError, ObservationError
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.measures import MetricsFacts
from desched.policy.policy import MetricsSource, MetricsType, Policy
from desched.ports import ChoosePods, Clock, all_pods
from desched.settings import Settings, origin_of, parse_headers, trusted_origins
from desched.views.progress import waiting_for

T = TypeVar("T")


class LoadSource:
    """The LoadReader for what the policy names, and for the Prometheus that the settings name.

    The type and the address may change with the policy while desched runs. Outside a cluster, an
    address that resolves only inside it is reached through the API server's service proxy of
    `kubernetes`. Only a service `keeps_sampling` between its cycles.
    """

    def __init__(
        self,
        settings: Settings,
        kubernetes: KubernetesConnection | None,
        clock: Clock,
        samples: LoadSamples | None = None,
        *,
        keeps_sampling: bool = False,
    ) -> None:
        self._samples = samples
        self._keeps_sampling = keeps_sampling
        self._settings = settings
        self._kubernetes = kubernetes
        self._clock = clock
        request_seconds = settings.api_server_timeout.total_seconds()
        self._stack_service = StackService(kubernetes, request_seconds)
        self._target = Target("")
        self._service: InClusterService | None = None  # if it is reached through the API server
        self._reader: PrometheusLoadReader | None = None
        self._sampler: SampledLoadReader | None = None
        self._sampled_source = MetricsSource("")

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        """The load of nodes and pods over the policy's windows, ending now.

        Raises:
            ObservationError: the source did not answer, or answered with an error.
            ConfigurationError: the address of Prometheus, or the way to it, is missing or invalid.
        """
        if policy.metrics.type.is_sampled:
            return self._sampled(policy.metrics).read_load(cluster, policy, choose)
        self._stop_sampling()
        return self._asked(policy, lambda reader: reader.read_load(cluster, policy, choose))

    def read_metrics(self, cluster: ClusterState, policy: Policy) -> MetricsFacts:
        """What Prometheus has for each measure; an error of one measure does not end the others.

        Raises:
            ObservationError: Prometheus answers no query at all.
            ConfigurationError: the address of Prometheus, or the way to it, is missing or invalid.
        """
        return self._asked(policy, lambda reader: reader.read_metrics(cluster, policy))

    def read_through(self, policy: Policy, read: Callable[[PrometheusConnection], T]) -> T:
        """What is read through a connection to the policy's Prometheus by other means than cycles.

        Raises:
            ObservationError: Prometheus did not answer, or its data does not suffice.
            ConfigurationError: the address of Prometheus, or the way to it, is missing or invalid.
        """
        if (kind := policy.metrics.type).is_sampled:
            raise _without_history(kind)
        self._target = self._target_of(policy)
        connection, self._service = self._way_to(self._target)
        return self._explained(policy, lambda: read(connection))

    def collect(self, policy: Policy, seconds: float, tell: Callable[[float], None]) -> None:
        """Take samples for this time; `tell` gets the share that is done.

        Raises:
            ObservationError: the source does not answer, or desched is stopping.
            ConfigurationError: the settings name a Prometheus.
        """
        self._sampled(policy.metrics).collect(policy, seconds, tell)

    def _sampled(self, metrics: MetricsSource) -> SampledLoadReader:
        """The reader with the samples so far."""
        if self._settings.prometheus_url:
            raise ConfigurationError(
                "--prometheus-url (DESCHED_PROMETHEUS_URL) is set, but the policy reads load from "
                f"{metrics.type.in_words}; remove the setting, or set metrics.type to prometheus."
            )
        if self._kubernetes is None:
            raise _without_history(metrics.type)
        if self._sampler is None or self._sampled_source != metrics:
            self._stop_sampling()
            self._sampled_source = metrics
            self._sampler = SampledLoadReader(
                self._kubernetes,
                self._clock.wait,
                deadline_seconds=self._settings.api_server_timeout.total_seconds(),
                metrics=metrics,
                keeps_sampling=self._keeps_sampling,
            )
            if self._samples is not None:
                self._samples.recall(self._sampler)
        return self._sampler

    def _stop_sampling(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None

    def _asked(self, policy: Policy, ask: Callable[[PrometheusLoadReader], T]) -> T:
        reader = self._reader_for(self._target_of(policy))
        if self._settings.loops:
            return self._explained(policy, lambda: ask(reader))
        seconds = self._settings.prometheus_timeout.total_seconds()
        where = without_user(self._target.url)
        with waiting_for(f"Prometheus at {where}, at most {seconds:.0f} s a query", sys.stderr):
            return self._explained(policy, lambda: ask(reader))

    def _target_of(self, policy: Policy) -> Target:
        url = prometheus_url(self._settings, policy)
        if url or not policy.metrics.is_searched:
            stack = policy.metrics.stack
            managed = stack if stack and stack.is_managed else None
            return Target(url, policy.metrics.tenant, managed=managed)
        return self._stack_service.target(policy.metrics)

    def _explained(self, policy: Policy, ask: Callable[[], T]) -> T:
        """The answer; an error names what the connection to Prometheus has to do with it."""
        try:
            return ask()
        except ObservationError as error:
            self._stack_service.forget()
            if self._service is None:
                raise
            text = self._why_not_proxied(self._service, str(error), policy)
            raise type(error)(error.source, text) from error

    def _why_not_proxied(self, service: InClusterService, text: str, policy: Policy) -> str:
        if f'services "{service.name}" not found' in text:  # the API server's own words
            flag = "--prometheus-url (DESCHED_PROMETHEUS_URL)"
            by_flag = self._settings.prometheus_url
            key = "stack" if policy.metrics.stack else "address"
            return (
                f"There is no Service {service.name} in namespace {service.namespace}; correct "
                f"{flag if by_flag else f'metrics.{key} in {policy.source}'}."
            )
        hint = port_forward_hint(self._target.url)
        if "HTTP 403" in text:
            return (
                f"This account must not reach Prometheus through the API server's service proxy "
                f"(HTTP 403); that requires the right to get services/proxy in namespace "
                f"{service.namespace}.\n{hint}."
            )
        return f"{text} The request went through the API server's service proxy.\n{hint}."

    def _reader_for(self, target: Target) -> PrometheusLoadReader:
        if self._reader is not None and target == self._target:
            return self._reader
        connection, service = self._way_to(target)
        reader = PrometheusLoadReader(
            connection, self._clock.wait, last_hour=not self._settings.loops
        )
        if self._reader is not None:
            self._reader.close()
        self._reader, self._target, self._service = reader, target, service
        return reader

    def _way_to(self, target: Target) -> tuple[PrometheusConnection, InClusterService | None]:
        """How to reach the address, and the Service if that is through the API server."""
        url = target.url
        if not url:
            raise ConfigurationError(
                "The address of Prometheus is missing; set metrics.address in the policy, or "
                "--prometheus-url (DESCHED_PROMETHEUS_URL)."
            )
        direct = prometheus_connection(self._settings, url)
        if not self._settings.prometheus_url:
            _check_recipient(direct, self._settings)
        if target.managed:
            direct = by_account(direct, target.managed)
            if not (self._settings.prometheus_url or is_own(target.managed, url)):
                _check_recipient(direct, self._settings)
        if target.as_account and not direct.credentials:
            inside = self._kubernetes is not None and self._kubernetes.in_cluster
            direct = as_account(direct, in_cluster=inside)
        direct = for_tenant(direct, target.tenant)
        if self._kubernetes is None or self._kubernetes.in_cluster:
            return direct, None
        proxied = through_proxy(direct, self._kubernetes)
        return (proxied, in_cluster_service(url)) if proxied else (direct, None)


def prometheus_url(settings: Settings, policy: Policy) -> str:
    """The address of Prometheus, empty if neither names one, as with a stack."""
    return settings.prometheus_url or policy.metrics.address


def needs_proxy(url: str) -> bool:
    """Whether an address names a Service of the cluster and does not resolve here."""
    return in_cluster_service(url) is not None and not _resolves(url)


def prometheus_connection(settings: Settings, url: str) -> PrometheusConnection:
    """How to reach Prometheus at the address, with the credentials from the settings.

    Raises:
        ConfigurationError: the settings contradict each other, or a file cannot be read.
    """
    password = settings.prometheus_password
    if settings.prometheus_password_file is not None:
        password = SecretStr(_content(settings.prometheus_password_file, "password"))
    return PrometheusConnection(
        url=url,
        bearer_token=settings.prometheus_bearer_token,
        bearer_token_file=settings.prometheus_bearer_token_file,
        username=settings.prometheus_username,
        password=password,
        client_cert_file=settings.prometheus_client_cert_file,
        client_key_file=settings.prometheus_client_key_file,
        ca_file=settings.prometheus_ca_file,
        insecure_skip_verify=settings.prometheus_insecure_skip_verify,
        headers=_headers(settings),
        total_timeout_seconds=settings.prometheus_timeout.total_seconds(),
        allow_insecure_credentials=settings.prometheus_allow_insecure_credentials,
    )


def _check_recipient(direct: PrometheusConnection, settings: Settings) -> None:
    """Refuse to send credentials to an address that only the policy names.

    Whoever may edit the policy must not be able to have the credentials sent to a server of theirs.

    Raises:
        ConfigurationError: the settings do not list the address.
    """
    trusted = trusted_origins(settings.prometheus_trusted_addresses or "")
    if not direct.credentials or origin_of(direct.url) in trusted:
        return
    raise ConfigurationError(
        f"The credentials for Prometheus ({', '.join(direct.credentials)}) are not sent to "
        f"{direct.address}, because only the policy names that address; set --prometheus-url "
        "(DESCHED_PROMETHEUS_URL), or list it in --prometheus-trusted-addresses "
        "(DESCHED_PROMETHEUS_TRUSTED_ADDRESSES)."
    )


def through_proxy(
    direct: PrometheusConnection, kubernetes: KubernetesConnection
) -> PrometheusConnection | None:
    """The way through the API server; None if the address resolves here.

    The account needs `get services/proxy`; a user name with a password cannot be passed on.
    Source: kubernetes.io, Access Services Running on Clusters.

    Raises:
        ConfigurationError: Prometheus needs credentials, which the API server does not forward.
    """
    service = in_cluster_service(direct.url)
    if service is None or _resolves(direct.url):
        return None
    if (
        direct.bearer_token
        or direct.bearer_token_file
        or direct.token_provider
        or direct.sign
        or direct.basic_credentials
    ):
        raise ConfigurationError(
            f"{direct.address} does not resolve here, and the API server does not forward "
            f"credentials to Prometheus. {port_forward_hint(direct.url)}."
        )
    account = kubernetes.account.configuration
    # The colons are the proxy's syntax, and names of the API need no quoting.
    target = f"{service.scheme}:{service.name}:{service.port}"
    proxy = f"{account.host}/api/v1/namespaces/{service.namespace}/services/{target}/proxy"
    return replace(
        direct,
        url=proxy + service.path,
        token_provider=kubernetes.token if kubernetes.token() is not None else None,
        client_cert_file=_path(account.cert_file),
        client_key_file=_path(account.key_file),
        ca_file=_path(account.ssl_ca_cert),
        insecure_skip_verify=not account.verify_ssl,
    )


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None


def _headers(settings: Settings) -> dict[str, str]:
    if settings.prometheus_headers is not None:
        return parse_headers(settings.prometheus_headers.get_secret_value())
    if settings.prometheus_headers_file is None:
        return {}
    try:
        return parse_headers(_content(settings.prometheus_headers_file, "headers"))
    except ValueError as error:
        raise ConfigurationError(f"{settings.prometheus_headers_file} {error}.") from error


def _content(path: Path, purpose: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The file with the {purpose} for Prometheus, {path}, cannot be read; check the path "
            "and that it is mounted."
        ) from error


def _resolves(url: str) -> bool:
    try:
        socket.getaddrinfo(urlsplit(url).hostname, None)
    except OSError:
        return False
    return True


def _without_history(kind: MetricsType) -> ConfigurationError:
    return ConfigurationError(
        f"The policy reads load from {kind.in_words}, which has no history; set metrics.type to "
        "prometheus."
    )
