"""Where the logbook is kept, and whether this run keeps it."""

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.logbook_store import KubernetesLogbookStore
from desched.bootstrap.process import Process
from desched.bootstrap.state import state_namespace
from desched.service.telemetry.logbook_keeper import LogbookKeeper
from desched.settings import Settings

CRON_GAP_SECONDS = 3600.0
"""The longest time for which a cycle by a cron expression stands."""


def logbook_store(settings: Settings, kubernetes: KubernetesConnection) -> KubernetesLogbookStore:
    """The logbook beside the state."""
    return KubernetesLogbookStore(kubernetes, state_namespace(settings, kubernetes))


def logbook_keeper(process: Process) -> LogbookKeeper | None:
    """The keeper of a service in a cluster, or where the settings ask for one; else None."""
    settings, kubernetes = process.settings, process.kubernetes
    keeps = kubernetes.in_cluster if settings.logbook is None else settings.logbook
    if not (keeps and settings.loops):
        return None
    gap = 2 * settings.interval.total_seconds() if settings.cron is None else CRON_GAP_SECONDS
    store = logbook_store(settings, kubernetes)
    return LogbookKeeper(store, process.clock, gap, process.may_act)
