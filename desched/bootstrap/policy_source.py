"""The policy that the settings name: in a file, or in a ConfigMap of the cluster."""

import re
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from desched.adapters.kubernetes.client.access import GET_STATE
from desched.adapters.kubernetes.client.config_maps import NO_CONFIG_MAP, config_map
from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.client.paged_reads import why_refused
from desched.bootstrap.state import state_namespace
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.policy_file.loading import PolicyText, read_policy
from desched.policy_file.reading.envelope import POLICY_KEY
from desched.settings import Settings

_IN_CLUSTER = re.compile(r"(?:([a-z0-9][-a-z0-9]*)/)?configmap/([a-z0-9][-.a-z0-9]*)")


class PolicyConfigMap(NamedTuple):
    """A ConfigMap as `--policy` names it; without a namespace it is in that of the state."""

    namespace: str | None
    name: str


DEPLOYED = PolicyConfigMap(None, "desched-policy")
"""Where an installation has its policy."""

NO_POLICY = (
    "No policy is given; name one with --policy FILE (DESCHED_POLICY). "
    "`desched doctor --write-policy FILE` writes one that fits; policies/cautious.yaml is an "
    "example."
)


def config_map_of(settings: Settings) -> PolicyConfigMap | None:
    """The ConfigMap that `--policy` names; None for a file, which comes first."""
    path = settings.policy
    named = _IN_CLUSTER.fullmatch(str(path)) if path is not None else None
    if path is None or named is None or path.exists():
        return None
    return PolicyConfigMap(named[1], named[2])


def named_policy(settings: Settings, wait: Callable[[float], bool]) -> PolicyText:
    """The text of the policy that the settings name, or else that of the installation.

    Raises:
        ConfigurationError: it is not there.
        ObservationError: the ConfigMap could not be read.
    """
    if settings.policy is None:
        return _deployed(settings, wait)
    config_map = config_map_of(settings)
    if config_map is None:
        return read_policy(settings.policy)
    kubernetes = connect(settings.kubeconfig, settings.context, wait)
    namespace = config_map.namespace or state_namespace(settings, kubernetes)
    seconds = settings.api_server_timeout.total_seconds()
    return read_config_map(kubernetes, namespace, config_map.name, seconds)


def deployed_policy(settings: Settings, wait: Callable[[float], bool]) -> PolicyText | None:
    """The policy of the installation in the cluster, None without one; standard error names it.

    Raises:
        ConfigurationError: there is no account.
        ObservationError: the ConfigMap could not be read.
    """
    kubernetes = connect(settings.kubeconfig, settings.context, wait)
    namespace = state_namespace(settings, kubernetes)
    seconds = settings.api_server_timeout.total_seconds()
    found = _found_config_map(kubernetes, namespace, DEPLOYED.name, seconds)
    if found is not None:
        sys.stderr.write(f"desched: By the policy of ConfigMap {namespace}/{DEPLOYED.name}.\n")
    return found


def _deployed(settings: Settings, wait: Callable[[float], bool]) -> PolicyText:
    try:
        found = deployed_policy(settings, wait)
    except ConfigurationError as error:
        raise ConfigurationError(f"{NO_POLICY}\nThe cluster could not be asked: {error}") from error
    if found is None:
        raise ConfigurationError(
            f"{NO_POLICY} The cluster has no ConfigMap {DEPLOYED.name} of an installation."
        )
    return found


def read_config_map(
    kubernetes: KubernetesConnection, namespace: str, name: str, deadline_seconds: float
) -> PolicyText:
    """The policy in a ConfigMap, under the key where the deployment has it.

    Raises:
        ConfigurationError: there is no such ConfigMap, or no policy in it.
        ObservationError: it could not be read.
    """
    found = _found_config_map(kubernetes, namespace, name, deadline_seconds)
    if found is None:
        raise ConfigurationError(
            f"There is no ConfigMap {namespace}/{name} in {kubernetes.target}; name the policy's "
            "with --policy NAMESPACE/configmap/NAME."
        )
    return found


def _found_config_map(
    kubernetes: KubernetesConnection, namespace: str, name: str, deadline_seconds: float
) -> PolicyText | None:
    place = f"ConfigMap {namespace}/{name}"
    answer = kubernetes.get(GET_STATE.path(namespace, name), deadline_seconds=deadline_seconds)
    if answer.is_from_server(HTTPStatus.NOT_FOUND):
        return None
    config_map_found = config_map(answer) if answer.is_done else None
    if config_map_found is None:
        problem = NO_CONFIG_MAP if answer.is_done else why_refused(answer, GET_STATE, namespace)
        raise ObservationError(
            ObservationSource.CLUSTER, f"The policy in {place} could not be read: {problem}."
        )
    text = config_map_found.texts.get(POLICY_KEY)
    if text is None:
        raise ConfigurationError(f'{place} has no policy under the key "{POLICY_KEY}".')
    return PolicyText(text, f"{namespace}/configmap/{name}")
