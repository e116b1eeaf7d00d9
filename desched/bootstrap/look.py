"""What a command reads that only looks at a live cluster: the same as a dry run."""

import sys
from collections.abc import Callable
from signal import Signals
from typing import NamedTuple, TypeVar

from desched.adapters.kubernetes.client.connection import KubernetesConnection, connect
from desched.adapters.kubernetes.cluster_reader import KubernetesReader
from desched.bootstrap.load_samples import samples_for_a_look
from desched.bootstrap.load_source import LoadSource
from desched.bootstrap.policy_source import named_policy
from desched.bootstrap.state import state_store
from desched.errors import ObservationError
from desched.model.cluster import PodRef
from desched.model.state import State
from desched.policy_file.loading import LoadedPolicy, PolicyText, parse_policy
from desched.ports import World
from desched.service.inputs.state_keeper import StateKeeper
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs
from desched.service.process.signals import stop_on_signals
from desched.settings import Settings

T = TypeVar("T")


class LiveCluster(NamedTuple):
    """The world without means to change it, the policy with its text, and the stored state.

    `source` is where the world's load comes from.
    """

    world: World
    policy: LoadedPolicy
    policy_text: PolicyText
    state: State
    target: str
    source: LoadSource


def with_look(settings: Settings, do: Callable[[LiveCluster], T]) -> T | Signals:
    """Do something with a look at the cluster; the signal that ended it before, if there was one.

    Raises:
        ConfigurationError: a person must change something.
        ObservationError: the cluster or its load could not be read.
    """
    configure_logs(settings.log_format, settings.log_level, sys.stderr)
    clock = SystemClock()
    policy_text = named_policy(settings, clock.wait)
    policy = parse_policy(*policy_text)
    with stop_on_signals(clock.stop) as stop_request:
        try:
            return do(_look(settings, policy, policy_text, clock))
        except ObservationError:
            if stop_request.received is None:
                raise
            return stop_request.received


def _look(
    settings: Settings, policy: LoadedPolicy, policy_text: PolicyText, clock: SystemClock
) -> LiveCluster:
    kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
    source = LoadSource(settings, kubernetes, clock, samples_for_a_look(settings, kubernetes))
    world = World(reader_of(settings, kubernetes), source, clock, None)
    keeper = StateKeeper(state_store(settings, kubernetes), clock, State(), None)
    state = keeper.load(policy.policy)
    return LiveCluster(world, policy, policy_text, state, kubernetes.target, source)


def reader_of(settings: Settings, kubernetes: KubernetesConnection) -> KubernetesReader:
    """The reader of a cluster, which lists everything each time."""
    return KubernetesReader(
        kubernetes,
        own_pod=own_pod_of(settings, kubernetes),
        deadline_seconds=settings.api_server_timeout.total_seconds(),
    )


def own_pod_of(settings: Settings, kubernetes: KubernetesConnection) -> PodRef | None:
    """The pod that this process runs in; None outside a pod."""
    if settings.pod_name is None:
        return None
    return PodRef(settings.pod_namespace or kubernetes.namespace, settings.pod_name)
