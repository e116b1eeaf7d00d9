"""Observes a cluster and its load, and compares desched's clock with those of the servers."""

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from desched import garbage_collection
from desched.model.load import ClusterLoad, PodChoice
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.planning.clocks import lead_seconds
from desched.planning.needed_usage import needed_pods
from desched.planning.situation import Situation
from desched.policy.policy import Policy
from desched.ports import Clock, World


def observe(world: World, policy: Policy) -> Snapshot:
    """Read the cluster and its load with the usage of all pods.

    Raises:
        ObservationError: the cluster or its load could not be read.
    """
    now = _steady(world.clock)
    unread = _without_load(world, policy, now)
    began = now()
    with garbage_collection.paused():
        load = world.load.read_load(unread.cluster, policy)
    return _loaded(unread, load, began, now())


def observe_needed(world: World, policy: Policy, state: State) -> Situation:
    """Read the cluster, its load, and the usage of only those pods that a decision needs.

    Each load that is read leads to one situation: the first, without pods, to choose the pods, and
    the last to plan by.

    Raises:
        ObservationError: the cluster or its load could not be read.
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    now = _steady(world.clock)
    unread = _without_load(world, policy, now)
    began = now()
    latest: Situation | None = None

    def situation(load: ClusterLoad) -> Situation:
        nonlocal latest
        earlier = latest.context.book.snapshot.load if latest else None
        if (
            latest is None
            or earlier is None
            or replace(load, last_hour=earlier.last_hour) != earlier
        ):
            snapshot = _loaded(unread, load, began, now())
            latest = Situation.of(snapshot, policy, state)
        elif load is not earlier:  # only people see the last hour
            latest = latest.with_load(load)
        return latest

    def choose(load: ClusterLoad) -> PodChoice:
        return needed_pods(situation(load))

    with garbage_collection.paused():
        return situation(world.load.read_load(unread.cluster, policy, choose))


def _steady(clock: Clock) -> Callable[[], datetime]:
    """The clock as it goes on from now; a jump does not count before the next observation.

    The servers' times have to lie between the beginning and the end of the requests. That would not
    show a clock that jumps ahead in between.
    """
    began, monotonic = clock.now(), clock.monotonic()
    return lambda: began + timedelta(seconds=clock.monotonic() - monotonic)


def _without_load(world: World, policy: Policy, now: Callable[[], datetime]) -> Snapshot:
    began = now()
    cluster = world.cluster.read_cluster(
        policy.protections.understood_owner_kinds, policy.scheduler.volcano_configurations
    )
    between = now()
    lead = lead_seconds(cluster.server_times, began, between)
    return Snapshot(cluster, ClusterLoad({}, {}), between, lead)


def _loaded(snapshot: Snapshot, load: ClusterLoad, began: datetime, ended: datetime) -> Snapshot:
    lead = lead_seconds(load.server_times, began, ended)
    return replace(snapshot, load=load, taken_at=ended, load_lead_seconds=lead)
