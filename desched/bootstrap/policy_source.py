"""The policy that the settings name: in a file, or in a ConfigMap of the cluster."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from desched.adapters.kubernetes.client.access import GET_STATE
from desched.adapters.kubernetes.client.config_maps import NO_CONFIG_MAP, config_map
from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.client.paged_reads import why_refused
from desched.bootstrap.state import state_namespace
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.policy.loading import PolicyText, read_policy
from desched.policy.reading.envelope import POLICY_KEY
from desched.settings import Settings

_IN_CLUSTER = re.compile(r"(?:([a-z0-9][-a-z0-9]*)/)?configmap/([a-z0-9][-.a-z0-9]*)")


class PolicyConfigMap(NamedTuple):
    """A ConfigMap as `--policy` names it; without a namespace it is in that of the state."""

    namespace: str | None
    name: str


def config_map_of(settings: Settings) -> PolicyConfigMap | None:
    """The ConfigMap that `--policy` names; None for a file, which comes first."""
    path = settings.policy
    found = _IN_CLUSTER.fullmatch(str(path)) if path is not None else None
    if path is None or found is None or path.exists():
        return None
    return PolicyConfigMap(found[1], found[2])


def named_policy(settings: Settings, wait: Callable[[float], bool]) -> PolicyText:
    """The text of the policy that the settings name.

    Raises:
        ConfigurationError: they name none, or it is not there.
        ObservationError: the ConfigMap could not be read.
    """
    if settings.policy is None:
        raise ConfigurationError(
            "No policy is given; name one with --policy FILE (DESCHED_POLICY). "
            "`desched doctor --write-policy FILE` writes one that fits; policies/cautious.yaml is "
            "an example."
        )
    config_map = config_map_of(settings)
    if config_map is None:
        return read_policy(settings.policy)
    kubernetes = connect(settings.kubeconfig, settings.context, wait)
    namespace = config_map.namespace or state_namespace(settings, kubernetes)
    seconds = settings.api_server_timeout.total_seconds()
    return read_config_map(kubernetes, namespace, config_map.name, seconds)


def read_config_map(
    kubernetes: KubernetesConnection, namespace: str, name: str, deadline_seconds: float
) -> PolicyText:
    """The policy in a ConfigMap, under the key where the deployment has it.

    Raises:
        ConfigurationError: there is no such ConfigMap, or no policy in it.
        ObservationError: it could not be read.
    """
    place = f"ConfigMap {namespace}/{name}"
    answer = kubernetes.get(GET_STATE.path(namespace, name), deadline_seconds=deadline_seconds)
    if answer.is_from_server(HTTPStatus.NOT_FOUND):
        raise ConfigurationError(
            f"There is no {place} in {kubernetes.target}; name the policy's with "
            "--policy NAMESPACE/configmap/NAME."
        )
    found = config_map(answer) if answer.is_done else None
    if found is None:
        why = NO_CONFIG_MAP if answer.is_done else why_refused(answer, GET_STATE, namespace)
        raise ObservationError(
            ObservationSource.CLUSTER, f"The policy in {place} could not be read: {why}."
        )
    text = found.texts.get(POLICY_KEY)
    if text is None:
        raise ConfigurationError(f'{place} has no policy under the key "{POLICY_KEY}".')
    return PolicyText(text, f"{namespace}/configmap/{name}")
