"""Follow-up: finds the results of evictions, and updates cool-downs and pauses."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from desched.eviction.batches import counted_once
from desched.eviction.cool_downs import rounds_of_nodes, with_cool_downs
from desched.eviction.pauses import with_pauses, without_gone
from desched.eviction.recent_moves import with_recent_moves
from desched.eviction.replacements import replicas_of
from desched.eviction.results import PresentLoad, settle_evictions
from desched.model.cluster import owners_of
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.placement.forecast_trust import with_forecast_checks
from desched.planning.selection.slow_start import after_results


class FollowUp(NamedTuple):
    """The state after a follow-up, and the evictions whose result became known, oldest first."""

    state: State
    settled: tuple[EvictionRecord, ...]


def follow_up(
    context: EligibilityContext, pressure: Pressure, stayed: Iterable[EvictionRecord] = ()
) -> FollowUp:
    """Judge the evictions in flight; the context has the state as of `State.observed`.

    Those whose pod stayed, which the state does not have any more, moved nothing: they do not count
    for the limit by the hour.
    """
    state, policy, now = context.state, context.policy, context.now
    load = PresentLoad.of(context, pressure)
    replicas = replicas_of(state.in_flight, context.cluster)
    evictions = settle_evictions(state.evictions, replicas, load)
    followed = {record.pod for record in state.evictions if not record.in_flight}
    moved = _in_order(r for r in evictions if not r.in_flight and r.pod not in followed)
    settled = _in_order((*moved, *stayed))
    state = replace(
        state,
        evictions=evictions,
        nodes=rounds_of_nodes(state, load),
        cool_downs=with_cool_downs(
            state.cool_downs, counted_once(settled, by_workload=True), policy.follow_up, now
        ),
        forecasts=with_forecast_checks(state.forecasts, settled, now),
        moves=with_recent_moves(state.moves, moved, policy.follow_up, now),
    )
    counted = counted_once(settled)
    owners = owners_of(context.cluster.namespaces, policy.follow_up.pause_owner_label)
    if context.cluster.namespaces:  # a cluster in memory may have none
        state = without_gone(state, context.cluster.namespaces, now)
    state = with_pauses(state, counted, policy, now, owners)
    nodes = len(context.cluster.nodes)
    most = after_results(state, counted, policy.limits, nodes)
    state = replace(state, most_evictions=most)
    for plugin in policy.plugins:
        state = plugin.follow_up(state, settled, context)
    return FollowUp(state, tuple(settled))


def _in_order(records: Iterable[EvictionRecord]) -> list[EvictionRecord]:
    return sorted(records, key=lambda record: (record.evicted_at, record.pod))
