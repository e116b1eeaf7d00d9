"""The way to a Service through the API server, from outside the cluster."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from desched.adapters.kubernetes.client.connection import KubernetesConnection


@dataclass(frozen=True, kw_only=True)
class ServiceProxy:
    """The URL of the Service, and what its client needs for the API server.

    `token` returns the current bearer token; call it before each request. A user name with a
    password cannot be passed on. Source: kubernetes.io, Access Services Running on Clusters.
    """

    base_url: str
    ca_file: Path | None
    client_cert_file: Path | None
    client_key_file: Path | None
    insecure_skip_verify: bool
    token: Callable[[], str | None] | None = field(repr=False)


def service_proxy(
    connection: KubernetesConnection, *, scheme: str, namespace: str, service: str, port: int
) -> ServiceProxy:
    """The API server's proxy for a port of a Service; the account needs `get services/proxy`."""
    configuration = connection.account.configuration
    # The colons are the proxy's syntax, and names of the API need no quoting.
    target = f"{scheme}:{service}:{port}"
    return ServiceProxy(
        base_url=(f"{configuration.host}/api/v1/namespaces/{namespace}/services/{target}/proxy"),
        ca_file=_path(configuration.ssl_ca_cert),
        client_cert_file=_path(configuration.cert_file),
        client_key_file=_path(configuration.key_file),
        insecure_skip_verify=not configuration.verify_ssl,
        token=connection.token if connection.token() is not None else None,
    )


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None
