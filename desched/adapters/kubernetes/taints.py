"""Adds desched's own soft taint to nodes and removes it; all other taints stay.

An annotation marks the taint as desched's and holds its end. One write changes both, and fails if
the node has changed since it was read.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import msgspec

from desched.adapters.bounded_http import Deadline
from desched.adapters.kubernetes.client.access import LIST_NODES, PATCH_NODE
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.connection import (
    DEADLINE_SECONDS,
    METADATA_LIST,
    KubernetesConnection,
)
from desched.adapters.kubernetes.client.paged_reads import Reading
from desched.adapters.kubernetes.objects.metadata import texts_of
from desched.adapters.kubernetes.objects.nodes import STEERED_UNTIL, steered_until
from desched.api_objects.kinds import Kind
from desched.api_objects.metadata import Metadata, VersionedMetadata, Wire
from desched.errors import ObservationError
from desched.model.cluster import STEERING_TAINT
from desched.ports import StandingTaints, SteeringAnswer

PAGE_SIZE = 500
MOST_AT_ONCE = 10
"""Nodes that are changed at the same time."""

ATTEMPTS = 3
"""Kubelets and controllers write nodes too; each attempt reads the node again."""

_OURS = {"key": STEERING_TAINT.key, "effect": str(STEERING_TAINT.effect)}
_DONE = SteeringAnswer(done=True)


class _Spec(Wire):
    taints: list[dict[str, Any]] | None = None


class _Node(Wire):
    metadata: VersionedMetadata
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def until(self) -> datetime | None:
        """The expiry in the annotation, None without it."""
        return steered_until(self.metadata.annotations)

    @property
    def other_taints(self) -> list[dict[str, Any]]:
        """All taints but desched's, with all their fields."""
        return [taint for taint in self.spec.taints or () if not _is_ours(taint)]

    @property
    def is_avoided(self) -> bool:
        """Whether the node has the taint, whoever added it."""
        return any(map(_is_ours, self.spec.taints or ()))


class _NodeMetadata(Wire):
    metadata: Metadata


def _standing(node: _NodeMetadata) -> tuple[str, datetime | None]:
    return node.metadata.name, steered_until(texts_of(node.metadata.annotations))


_NODES = Kind(LIST_NODES, _Node, lambda node: node)
_STANDING = Kind(LIST_NODES, _NodeMetadata, _standing, accept=METADATA_LIST)

Change = Callable[[_Node | None], dict[str, Any] | SteeringAnswer]
"""From a node, if it exists, to the patch, or to the answer if nothing is to be written."""


@dataclass
class KubernetesSteerer:
    """The Steerer for a real API server.

    `seconds_left` is how long this process may still act; no request lasts longer. It is also the
    TaintRemover, with a connection of its own. `when_denied` is called if the right to patch nodes
    is missing.
    """

    connection: KubernetesConnection
    _: KW_ONLY
    deadline_seconds: float = DEADLINE_SECONDS
    seconds_left: Callable[[], float] = lambda: math.inf
    when_denied: Callable[[], None] = lambda: None

    def taint_all(self, nodes: Sequence[str], until: datetime) -> Sequence[SteeringAnswer]:
        """Add the taint to all nodes, several at a time, to stay at least until then."""
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            return list(pool.map(lambda node: self.taint(node, until), nodes))

    def untaint_all(self, nodes: Sequence[str]) -> Sequence[SteeringAnswer]:
        """Remove desched's own taint from all nodes, several at a time."""
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            return list(pool.map(self.untaint, nodes))

    def taint(self, node: str, until: datetime) -> SteeringAnswer:
        """Add the taint, to stay at least until then."""
        text = until.astimezone(UTC).isoformat().replace("+00:00", "Z")

        def change(found: _Node | None) -> dict[str, Any] | SteeringAnswer:
            if found is None:
                return SteeringAnswer(done=False, detail="there is no such node")
            if found.is_avoided and found.until is None:
                detail = f"somebody else has added the taint {_OURS['key']}"
                return SteeringAnswer(done=False, detail=detail)
            if found.is_avoided and found.until is not None and found.until >= until:
                return _DONE
            return _patch(found, [*found.other_taints, _OURS], text)

        return self._change(node, change)

    def standing(self) -> StandingTaints:
        """All nodes with desched's annotation, tainted or not, from the nodes' metadata alone.

        Raises:
            ObservationError: the nodes could not be read in time.
        """
        deadline = Deadline(DEADLINE_SECONDS)
        reading = Reading(self.connection, PAGE_SIZE, self.deadline_seconds, deadline)
        nodes = reading.all(_STANDING)
        until = {name: expiry for name, expiry in nodes if expiry is not None}
        return StandingTaints(until, max(reading.dates, default=None))

    def untaint(self, node: str, expired_at: datetime | None = None) -> SteeringAnswer:
        """Remove desched's own taint; the same taint from somebody else stays.

        With `expired_at`, one that lasts longer stays, too.
        """

        def change(found: _Node | None) -> dict[str, Any] | SteeringAnswer:
            if found is None or found.until is None:
                return _DONE
            if expired_at is not None and found.until > expired_at:
                return _DONE
            return _patch(found, found.other_taints, None)

        return self._change(node, change)

    def _change(self, name: str, change: Change) -> SteeringAnswer:
        try:
            for _ in range(ATTEMPTS):
                answer = self._attempt(name, change)
                if answer is not None:
                    return answer
        except ObservationError as error:
            return SteeringAnswer(done=False, detail=str(error))
        detail = f"node {name} was changed by others {ATTEMPTS} times"
        return SteeringAnswer(done=False, detail=detail)

    def _attempt(self, name: str, change: Change) -> SteeringAnswer | None:
        """One read and one write; None if the node changed in between."""
        deadline = Deadline(self._seconds)
        reading = Reading(self.connection, PAGE_SIZE, self.deadline_seconds, deadline)
        body = change(reading.named(_NODES, name))
        if isinstance(body, SteeringAnswer):
            return body
        if self.seconds_left() <= 0:
            return SteeringAnswer(done=False, detail="the time to act is over")
        path = PATCH_NODE.path(name=name)
        answer = self.connection.patch(path, body, deadline_seconds=self._seconds)
        if answer.status == HTTPStatus.CONFLICT:
            return None
        if answer.status == HTTPStatus.FORBIDDEN:
            self.when_denied()
        return _DONE if answer.status == HTTPStatus.OK else _refused(answer, name)

    @property
    def _seconds(self) -> float:
        return min(self.deadline_seconds, self.seconds_left())


def _is_ours(taint: dict[str, Any]) -> bool:
    return {"key": taint.get("key"), "effect": taint.get("effect")} == _OURS


def _patch(node: _Node, taints: list[dict[str, Any]], until: str | None) -> dict[str, Any]:
    """A merge patch, which replaces the whole list of taints, so the version must be the one read.

    A JSON patch could test the version as well, but would fail with the status of an invalid object
    rather than with that of a conflict.
    """
    return {
        "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "annotations": {STEERED_UNTIL: until},
        },
        "spec": {"taints": taints or None},
    }


def _refused(answer: Answer, node: str) -> SteeringAnswer:
    hint = ""
    if answer.status == HTTPStatus.FORBIDDEN:
        hint = f"; `steering` needs the right to {PATCH_NODE}, see deploy/"
    detail = f"changing {node} gave status {answer.status}, {answer.explanation}{hint}"
    return SteeringAnswer(done=False, detail=detail)
