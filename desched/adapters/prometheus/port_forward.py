"""Addresses that resolve only inside the cluster, and how to reach them from outside."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"  # RFC 1035, as service names are
_CLUSTER_HOST = re.compile(rf"(?P<name>{_LABEL})\.(?P<namespace>{_LABEL})(\.svc(\.[-.a-z0-9]+)?)?")
_LOCAL_PORT = 9090


class InClusterService(NamedTuple):
    """A Service behind a URL; `path` is empty or begins with a slash."""

    namespace: str
    name: str
    port: int
    scheme: str
    path: str


def in_cluster_service(url: str) -> InClusterService | None:
    """The Service of a URL with the host `name.namespace`, optionally with `.svc` and a domain.

    Without `.svc` it is a guess: any host of two labels has this form.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None
    host = _CLUSTER_HOST.fullmatch((parts.hostname or "").rstrip("."))
    if host is None or parts.scheme not in {"http", "https"}:
        return None
    return InClusterService(
        host["namespace"], host["name"], port, parts.scheme, parts.path.rstrip("/")
    )


def port_forward_hint(url: str) -> str:
    """The command that makes an in-cluster URL reachable from outside; empty for other URLs."""
    service = in_cluster_service(url)
    if service is None:
        return ""
    return f"It looks like a Service inside the cluster; from outside {port_forward_steps(service)}"


def port_forward_steps(service: InClusterService) -> str:
    """What to run and what to pass from outside the cluster, as the end of a sentence."""
    local = f"{service.scheme}://127.0.0.1:{_LOCAL_PORT}{service.path}"
    return (
        f"run `kubectl --namespace {service.namespace} port-forward service/{service.name} "
        f"{_LOCAL_PORT}:{service.port}` and pass `--prometheus-url {local}`"
    )
