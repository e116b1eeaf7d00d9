"""The cluster that is meant, and the account to use there."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import structlog
import urllib3
import yaml
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.config.kube_config import (
    KUBE_CONFIG_DEFAULT_LOCATION,
    ConfigNode,
    KubeConfigLoader,
    KubeConfigMerger,
)
from kubernetes.utils.keepalive import tcp_keepalive_socket_options

from desched.adapters.kubernetes.client.exec_plugin import credentials_of
from desched.errors import ConfigurationError

_log = structlog.get_logger(__name__)

MOST_KEPT_CONNECTIONS = 32
"""More than there are watches; a connection beyond would be closed with a warning."""

# A watch may be silent for a minute; if the other end is gone, that shows after 25 s.
_KEEPALIVE = {"idle": 10, "interval": 5, "count": 3}
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ClusterAccount(NamedTuple):
    """A cluster and credentials for it; `configuration` alone is not safe to print.

    `user` is what the kubeconfig calls the credentials, empty in a pod.
    """

    configuration: Configuration
    target: str
    in_cluster: bool
    namespace: str
    user: str = ""


def find_account(kubeconfig: Path | None, context: str | None) -> ClusterAccount:
    """The named account, else the pod's own, else that of the default kubeconfig.

    Each call reads the credentials again, exec plugins included.

    Raises:
        ConfigurationError: there is none, or it cannot be used.
    """
    if kubeconfig is None and context is None:
        own = _pod_account()
        if own is not None:
            return own
    location = str(kubeconfig) if kubeconfig is not None else KUBE_CONFIG_DEFAULT_LOCATION
    account = _kubeconfig_account(location, context)
    if not account.configuration.verify_ssl:
        _note_unverified(account.target)
    return account


@cache
def _note_unverified(target: str) -> None:
    """Log once what the library would warn of at each request."""
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    _log.warning(
        "certificate.unverified",
        target=target,
        meaning="the kubeconfig has insecure-skip-tls-verify: anybody on the way to the API server "
        "can read the credentials, and answer in its place",
    )


def _pod_account() -> ClusterAccount | None:
    configuration = _configuration()
    try:
        config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # library
        namespace = _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except (config.ConfigException, OSError):
        return None  # not in a pod, or in one without a ServiceAccount token
    return ClusterAccount(
        configuration=configuration,
        target=_target("in-cluster", configuration),
        in_cluster=True,
        namespace=namespace,
    )


def _kubeconfig_account(location: str, context: str | None) -> ClusterAccount:
    merged, document = _read(location)
    contexts = _named(document.get("contexts"), "context")
    name = context or document.get("current-context")
    if not name:
        raise ConfigurationError(
            f"The kubeconfig {location} has no current context; choose one with --context: "
            f"{_listing(contexts)}."
        )
    if name not in contexts:
        raise ConfigurationError(
            f'The kubeconfig {location} has no context "{name}"; it has {_listing(contexts)}.'
        )
    configuration = _configuration()
    _run_plugin(document, contexts[name], location)
    try:
        loader: Any = KubeConfigLoader(  # type: ignore[no-untyped-call]  # library without types
            merged, active_context=name, config_base_path=None
        )
        loader.load_and_set(configuration)
    except (config.ConfigException, OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(
            f'The context "{name}" of the kubeconfig {location} cannot be used: {error}; '
            f"check it with `kubectl --context {name} version`."
        ) from error
    _check_credentials(document, contexts[name], configuration, location)
    return ClusterAccount(
        configuration=configuration,
        target=_target(f'context "{name}"', configuration),
        in_cluster=False,
        namespace=contexts[name].get("namespace") or "default",
        user=str(contexts[name].get("user") or ""),
    )


def _check_credentials(
    document: dict[str, Any], context: dict[str, Any], configuration: Configuration, location: str
) -> None:
    """The library continues without credentials if a token file is empty."""
    user = _named(document.get("users"), "user").get(context.get("user", ""), {})
    if configuration.api_key or configuration.cert_file:
        return
    if token_file := user.get("tokenFile"):
        raise ConfigurationError(
            f"The token file {token_file} that the kubeconfig {location} names for the user "
            f'"{context.get("user")}" is empty; write a token to it.'
        )


def _run_plugin(document: dict[str, Any], context: dict[str, Any], location: str) -> None:
    """Put the credentials of the user's plugin in its place, unless there are others."""
    user = _named(document.get("users"), "user").get(context.get("user", ""), {})
    if any(user.get(other) for other in ("auth-provider", "token", "tokenFile")):
        return
    plugin = user.pop("exec", None)
    if not isinstance(plugin, dict):
        return
    cluster = str(context.get("cluster"))
    files = (
        getattr(node, "path", None)
        for node in document.get("clusters") or ()
        if node.safe_get("name") == cluster
    )
    file = next(files, None)
    owner = f'that the kubeconfig {location} names for the user "{context.get("user")}"'
    about = _named(document.get("clusters"), "cluster").get(cluster, {})
    user |= credentials_of(plugin, about, str(Path(file).resolve().parent) if file else None, owner)


def _read(location: str) -> tuple[ConfigNode, dict[str, Any]]:
    """The merged kubeconfig as the library has it, and its content."""
    missing = ConfigurationError(
        f"There is no kubeconfig at {location}, and desched does not run in a pod with a "
        "ServiceAccount token; name a file with --kubeconfig."
    )
    no_kubeconfig = ConfigurationError(
        f"{location} is not a kubeconfig; name a YAML file of kind Config with --kubeconfig."
    )
    try:
        merged = KubeConfigMerger(location).config  # type: ignore[no-untyped-call]  # library
    except FileNotFoundError as error:
        raise missing from error
    except OSError as error:
        raise ConfigurationError(
            f"The kubeconfig {location} cannot be read ({error.strerror or error}); check the path "
            "and its permissions."
        ) from error
    except (config.ConfigException, yaml.YAMLError, TypeError, AttributeError) as error:
        raise no_kubeconfig from error
    if merged is None:
        raise missing
    document = getattr(merged, "value", merged)
    if not isinstance(document, dict):
        raise no_kubeconfig
    return merged, document


def _named(entries: object, kind: str) -> dict[str, dict[str, Any]]:
    """The entries of a kubeconfig's list by their names; entries without content are left out."""
    found = {}
    for node in entries if isinstance(entries, list) else []:
        entry = getattr(node, "value", node)  # the merger wraps each in a node of its own
        if isinstance(entry, dict) and isinstance(entry.get(kind), dict):
            found[str(entry.get("name"))] = entry[kind]
    return found


def _configuration() -> Configuration:
    configuration = Configuration()
    configuration.retries = False  # the connection retries, under one deadline
    configuration.client_go_retries = False
    configuration.connection_pool_maxsize = MOST_KEPT_CONNECTIONS
    configuration.socket_options = tcp_keepalive_socket_options(**_KEEPALIVE)
    return configuration


def _target(account: str, configuration: Configuration) -> str:
    parts = urlsplit(configuration.host)
    server = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return f"{account} ({server})"


def _listing(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names)) or "none"
