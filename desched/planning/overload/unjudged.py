"""The verdicts on nodes that cannot be judged, with the load that was measured."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from desched.model.cluster import Node
from desched.model.load import Measured, SeenLoad, Unknown
from desched.model.plan import Finding, NodeClass, NodeReason, NodeVerdict, UnjudgedLoad
from desched.planning.overload.pod_usage import UsageBook

_NOT_SEEN = SeenLoad()


def out_of_scope_verdict(
    node: Node, excluded: Finding[NodeReason], pool: str, book: UsageBook
) -> NodeVerdict:
    """The verdict on a node that is not considered."""
    until = None
    if excluded.reason is NodeReason.TOO_YOUNG:
        # A node may state any time, also one that no calendar can add to.
        age_seconds = max(0.0, (book.now - node.created_at).total_seconds())
        left_seconds = max(0.0, book.policy.longest_window_seconds - age_seconds)
        until = book.now + timedelta(seconds=left_seconds)
    return NodeVerdict(
        node.name,
        NodeClass.OUT_OF_SCOPE,
        reason=excluded.reason,
        detail=excluded.detail,
        pool=pool,
        unjudged=tuple(_loads(node, book)),
        until=until,
    )


def unknown_verdict(node: Node, unknown: Unknown, pool: str, book: UsageBook) -> NodeVerdict:
    """The verdict on a node whose load cannot be trusted."""
    return NodeVerdict(
        node.name,
        NodeClass.UNKNOWN,
        reason=unknown.reason,
        detail=unknown.detail,
        pool=pool,
        unjudged=tuple(_loads(node, book)),
        until=_usable_at(node, book),
    )


def _loads(node: Node, book: UsageBook) -> Iterator[UnjudgedLoad]:
    loads = book.snapshot.load.nodes.get(node.name, {})
    seen = book.snapshot.load.seen.get(node.name, {})
    for resource in sorted(loads.keys() | seen.keys()):
        load, seen_load = loads.get(resource), seen.get(resource, _NOT_SEEN)
        levels = load.levels if isinstance(load, Measured) else seen_load.levels
        if levels:
            measured = tuple((level.window_seconds, level.ratio) for level in levels)
            yield UnjudgedLoad(resource, measured, seen_load.age_seconds)


def _usable_at(node: Node, book: UsageBook) -> datetime | None:
    """Return when the windows of all loads are covered; None if something else is wrong."""
    unknown = {
        resource
        for resource, load in book.snapshot.load.nodes.get(node.name, {}).items()
        if isinstance(load, Unknown)
    }
    seen = book.snapshot.load.seen.get(node.name, {})
    waits = [seen.get(resource, _NOT_SEEN).usable_in_seconds for resource in unknown]
    times = [wait for wait in waits if wait is not None]
    if not times or len(times) < len(waits):
        return None
    return book.now + timedelta(seconds=max(times))
