"""Whether and how this process watches the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import SystemRandom
from threading import Event

from desched.adapters.kubernetes.client.connection import connect
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.adapters.kubernetes.watch.loop import WatchClient
from desched.settings import Settings

SPREAD_SECONDS = 3.0
"""In a cluster, where many processes may start at once; a person elsewhere does not wait."""


def cluster_watch_of(settings: Settings) -> ClusterWatch | None:
    """The watches of a service; None for a single cycle, which lists.

    They have a connection of their own, because they wait for as long as they last.

    Raises:
        ConfigurationError: there is no account for the connection.
    """
    if not settings.loops or settings.watch is False:
        return None
    stop = Event()
    connection = connect(settings.kubeconfig, settings.context, stop.wait)
    request_seconds = settings.api_server_timeout.total_seconds()
    spread_seconds = SPREAD_SECONDS if connection.in_cluster else 0.0
    random = SystemRandom().random
    return ClusterWatch(WatchClient(connection, stop, random, request_seconds, spread_seconds))


@contextmanager
def watching(watch: ClusterWatch | None) -> Iterator[None]:
    """End the watches after the context."""
    try:
        yield
    finally:
        if watch is not None:
            watch.end()
