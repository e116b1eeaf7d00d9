"""The results of evictions: each is judged once, by its replacement and the load of that node.

A landing is judged in the first cycle in which the replacement is Ready, the evicted pod has left
and the load of the replacement's node is known. Later changes by other pods do not count against
the move.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from desched.eviction.replacements import Replicas, replacements
from desched.model.cluster import Pod
from desched.model.state import LONGEST_MIGRATION, EvictionRecord, MoveResult
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import Pressure
from desched.planning.overload.node_load import LoadedNode
from desched.planning.overload.pod_usage import seen_share
from desched.planning.placement.forecast_trust import foreseen
from desched.policy.policy import Policy

FIRST_TRIES = timedelta(minutes=1)
"""A registry, or what a container needs at its start, may be away for a moment."""


class PresentLoad(msgspec.Struct, frozen=True):
    """The nodes of the cluster by name, with their load; None if unknown or out of scope."""

    nodes: Mapping[str, LoadedNode | None]
    policy: Policy
    now: datetime

    @classmethod
    def of(cls, context: EligibilityContext, pressure: Pressure) -> "PresentLoad":
        """The load, unknown of all nodes if the measurements as a whole are not trusted."""
        judged_nodes = {} if context.book.snapshot.load.problems else pressure.known
        nodes = {node.name: judged_nodes.get(node.name) for node in context.cluster.nodes}
        return cls(nodes, context.policy, context.now)

    def bears(self, record: EvictionRecord, replacement: Pod) -> bool | None:
        """Return whether the node of the replacement bears it, or None if its load is unknown.

        In a saturated pool it may be as full as the source was left. The replacement counts with
        the usage of the evicted pod, as far as the windows do not show it yet. Other new pods count
        only as measured.
        """
        loaded = self.nodes.get(replacement.node)
        if loaded is None:
            return None
        levelled = {level.resource: level.ratio for level in record.levelled_to}
        targets = {
            pressure.resource: pressure.target_ratio for pressure in loaded.verdict.pressures
        }
        for source in loaded.sources:
            unseen = [
                record.usage(source.resource) * (1.0 - seen_share(replacement, window, self.now))
                for window in self.policy.windows(source.resource) or (0,)
            ]
            most = max(targets[source.resource], levelled.get(source.resource, 0.0))
            if source.lowest_without([-usage for usage in unseen]) > most:
                return False
        return True


def settle_evictions(
    records: Sequence[EvictionRecord], replicas: Replicas, load: PresentLoad
) -> tuple[EvictionRecord, ...]:
    """Add replacements, and results as far as they are known; settled evictions do not change."""
    replacement_of = replacements(records, replicas)
    judged = [
        _judged(record, replacement_of[record.pod], replicas, load) if record.in_flight else record
        for record in records
    ]
    awaited = {record.batch for record in judged if record.in_flight and record.batch}
    return tuple(_unsettled(record) if record.batch in awaited else record for record in judged)


def _unsettled(record: EvictionRecord) -> EvictionRecord:
    """The record without a result: pods that left together are judged once all have one."""
    return replace(record, result=None, landed_on="", settled_at=None)


def _judged(
    record: EvictionRecord, replacement: Pod | None, replicas: Replicas, load: PresentLoad
) -> EvictionRecord:
    record = replace(record, replacement=replacement.ref if replacement else None)
    now = load.now
    overdue = now >= _deadline(record, load)
    if record.taken_over and record.left_at is None:  # its controller has not moved it yet
        return replace(record, result=MoveResult.STAYED, settled_at=now) if overdue else record
    if replacement is None:
        result = _missed(record, replicas, load, overdue=overdue)
    elif not replacement.ready:
        ended = overdue or _cannot_start(replacement, now)
        result = _unready(record, replacement) if ended else None
    else:
        result = _landed(record, replacement, load, overdue=overdue)
    if result is None:
        return record
    node = replacement.node if replacement else ""
    waiting_for = replacement.waiting_for if replacement else ""
    return replace(record, result=result, landed_on=node, settled_at=now, waiting_for=waiting_for)


def _deadline(record: EvictionRecord, load: PresentLoad) -> datetime:
    patience = timedelta(seconds=load.policy.follow_up.patience_seconds)
    due = record.judged_by or record.evicted_at + patience
    if record.taken_over:
        due = max(due, (record.left_at or record.evicted_at + LONGEST_MIGRATION) + patience)
    return due


def _missed(
    record: EvictionRecord, replicas: Replicas, load: PresentLoad, *, overdue: bool
) -> MoveResult | None:
    """The result without a replacement."""
    workload = replicas.workloads.get(record.workload_uid)
    if workload is None:
        # A workload of a declared kind exists only through its pods: it may have none for a while.
        may_return = bool(load.policy.protections.understood_owner_kinds)
        return MoveResult.NOT_WANTED if overdue or not may_return else None
    if workload.sized and workload.desired_replicas < record.replicas:
        complete = replicas.ready(workload.uid) >= workload.desired_replicas
        return MoveResult.NOT_WANTED if overdue or complete else None
    if not overdue:
        return None
    return MoveResult.STAYED if record.left_at is None else MoveResult.NEVER_CAME


def _cannot_start(replacement: Pod, now: datetime) -> bool:
    """Whether the kubelet names a reason that does not end by itself."""
    tried = now - replacement.created_at
    return tried >= FIRST_TRIES and replacement.cannot_start


def _unready(record: EvictionRecord, replacement: Pod) -> MoveResult:
    if not replacement.node:
        return MoveResult.STILL_PENDING
    back = replacement.node == record.node and not record.batch
    return MoveResult.BACK_ON_SOURCE if back else MoveResult.NOT_READY


def _landed(
    record: EvictionRecord, replacement: Pod, load: PresentLoad, *, overdue: bool
) -> MoveResult | None:
    back = replacement.node == record.node
    if back and not record.batch:  # of several, one may return to a node that bears it
        return MoveResult.BACK_ON_SOURCE
    if record.left_at is None and not overdue:  # its node still bears it: nothing is relieved yet
        return None
    bears = load.bears(record, replacement)
    if bears is None:
        return MoveResult.LOAD_UNKNOWN if overdue else None
    if not bears:
        return MoveResult.BACK_ON_SOURCE if back else MoveResult.LANDED_OVERLOADED
    expected = replacement.node in foreseen(record)
    return MoveResult.LANDED_AS_FORECAST if expected else MoveResult.LANDED_ELSEWHERE
