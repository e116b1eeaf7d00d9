"""Kubernetes Events on pods, nodes, workloads and desched's own pod."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from http import HTTPStatus
from typing import Any

import structlog

from desched.adapters.kubernetes.client.access import CREATE_EVENT, GET_OWN_POD
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.api_objects.decoding import NAMED, UNDECODABLE
from desched.errors import DeschedError
from desched.model.cluster import PodRef
from desched.model.state import FAILURES, EvictionRecord
from desched.model.text import on_one_line
from desched.ports import Announcement, Clock

LONGEST_NOTE_BYTES = 1024
"""The API server's limit for the text of an Event."""

MOST_AT_ONCE = 10
"""Events that are written at the same time: those of a burst of evictions."""

_LONGEST_WORD = 128  # characters; its limit for names of controllers and their instances
_NODE_EVENT_NAMESPACE = "default"  # of Events about objects that are in no namespace
_DEADLINE_SECONDS = 5.0
_API_VERSIONS = {
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}

_log = structlog.get_logger(__name__)


class EventWriter:
    """Writes Events; a failure is logged and swallowed, because nothing depends on them.

    The first failure is logged as a warning, further ones at level debug until an Event is written
    again. `own_pod` is the reporting instance, None outside a pod.
    """

    def __init__(
        self, connection: KubernetesConnection, clock: Clock, own_pod: PodRef | None = None
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._own_pod = own_pod
        self._instance = own_pod.name[:_LONGEST_WORD] if own_pod is not None else "desched"
        self._failing = False

    def announce(self, announcements: Sequence[Announcement]) -> None:
        """Record on the pods and on their nodes that they were evicted, and why, side by side."""
        event = {"type": "Normal", "reason": "Descheduled", "action": "Eviction"}
        events = [
            self._event(regarding, event | {"note": announcement.note}, announcement.at)
            for announcement in announcements
            for regarding in (
                _pod_reference(announcement.eviction.pod),
                _node_reference(announcement.eviction.node),
            )
        ]
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            for event, error in zip(events, pool.map(self._post, events), strict=True):
                self._log(event, error)

    def settled(self, record: EvictionRecord, note: str) -> bool:
        """Record the result of a move on the workload, and a failure on the node too.

        False if an Event could not be written.
        """
        failed = record.result in FAILURES
        event = {
            "type": "Warning" if failed else "Normal",
            "reason": "MoveFailed" if failed else "Moved",
            "action": "FollowUp",
            "note": note,
        }
        written = self._write(_workload_reference(record), event)
        return written and (not failed or self._write(_node_reference(record.node), event))

    def warn_on_self(self, reason: str, note: str, *, action: str = "Configuration") -> bool:
        """Record on desched's own pod, if it has one, what needs a person.

        `reason` and `action` are one word each in CamelCase. False if it could not be written.
        """
        own = self._own_pod
        if own is None:
            return True
        event = {"type": "Warning", "reason": reason, "action": action, "note": note}
        regarding = _pod_reference(own) | {"uid": self._uid(own)}
        return self._write(regarding, event)

    def _uid(self, pod: PodRef) -> str:
        """The uid, which `kubectl describe` needs to show the Event; empty if it is unknown."""
        path = GET_OWN_POD.path(pod.namespace, pod.name)
        try:
            answer = self._connection.get(path, deadline_seconds=_DEADLINE_SECONDS)
            return NAMED.decode(answer.body).metadata.uid
        except (DeschedError, *UNDECODABLE):
            return ""

    def _write(self, regarding: Mapping[str, str], event: Mapping[str, str]) -> bool:
        body = self._event(regarding, event, self._clock.now())
        error = self._post(body)
        self._log(body, error)
        return not error

    def _event(
        self, regarding: Mapping[str, str], event: Mapping[str, str], at: datetime
    ) -> dict[str, Any]:
        namespace = regarding.get("namespace") or _NODE_EVENT_NAMESPACE
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{regarding['name']}-", "namespace": namespace},
            "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "desched",
            "reportingInstance": self._instance,
            "regarding": dict(regarding),
            **event,
            "note": _shortened("\n".join(map(on_one_line, event["note"].split("\n")))),
        }

    def _post(self, event: Mapping[str, Any]) -> str:
        """Write the Event; return the error, empty without one."""
        path = CREATE_EVENT.path(event["metadata"]["namespace"])
        try:
            answer = self._connection.post(path, event, deadline_seconds=_DEADLINE_SECONDS)
        except DeschedError as unanswered:
            return str(unanswered)
        if answer.status == HTTPStatus.CREATED:
            return ""
        return f"The API server answered {answer.status}: {answer.explanation}."

    def _log(self, event: Mapping[str, Any], error: str) -> None:
        if error:
            log = _log.debug if self._failing else _log.warning
            about, namespace = event["regarding"], event["metadata"]["namespace"]
            names = {"kind": about["kind"], "namespace": namespace, "name": about["name"]}
            log("event.not_written", **names, error=error)
        self._failing = bool(error)


def _pod_reference(pod: PodRef) -> dict[str, str]:
    reference = {"apiVersion": "v1", "kind": "Pod"}
    return reference | {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _node_reference(name: str) -> dict[str, str]:
    # The kubelet uses the name as the uid in its Events; the same here groups them together.
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}


def _workload_reference(record: EvictionRecord) -> dict[str, str]:
    """The workload from its record `Kind namespace/name`, or the pod if the kind is unknown."""
    kind, _, path = record.workload.partition(" ")
    namespace, _, name = path.partition("/")
    if kind not in _API_VERSIONS or not name:
        return _pod_reference(record.pod)
    return {
        "apiVersion": _API_VERSIONS[kind],
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "uid": record.workload_uid,
    }


def _shortened(note: str) -> str:
    """The note within the limit, which is in bytes, without a broken character at its end."""
    encoded = note.encode()
    if len(encoded) <= LONGEST_NOTE_BYTES:
        return note
    return encoded[: LONGEST_NOTE_BYTES - 3].decode(errors="ignore") + "…"
