"""Kubernetes Events: they say on a pod, a node and desched itself what desched did or needs."""

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from desched.adapters.kubernetes import wire
from desched.adapters.kubernetes.access import CREATE_EVENT, GET_POD
from desched.adapters.kubernetes.connection import KubernetesConnection
from desched.errors import DeschedError, ObservationError, ObservationSource
from desched.model.plan import PlannedEviction
from desched.ports import Clock

LONGEST_NOTE_BYTES = 1024
"""The API server's limit for the text of an Event."""

_LONGEST_WORD = 128  # characters; its limit for names of controllers and their instances
_NODE_EVENT_NAMESPACE = "default"  # of Events about objects that are in no namespace
_DEADLINE_SECONDS = 5.0  # an Event is not worth holding up evictions
_CREATED = 201

_log = structlog.get_logger(__name__)


class EventWriter:
    """Writes Events; a failure is logged and swallowed, because nothing depends on them.

    `instance` signs them: by custom the name of the pod that desched runs in.
    """

    def __init__(
        self, connection: KubernetesConnection, clock: Clock, instance: str = "desched"
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._instance = instance[:_LONGEST_WORD] or "desched"

    def announce(self, eviction: PlannedEviction, note: str) -> None:
        """Say on the pod and on its node that it was evicted, and why."""
        pod = eviction.pod
        # The kubelet's Events name a node by its name in place of a uid, and so find each other.
        node = {"apiVersion": "v1", "kind": "Node", "name": eviction.node, "uid": eviction.node}
        event = {"type": "Normal", "reason": "Descheduled", "action": "Eviction", "note": note}
        self._write(_pod_reference(pod.namespace, pod.name, pod.uid), event)
        self._write(node, event)

    def warn_on_self(self, pod_name: str, namespace: str, reason: str, note: str) -> None:
        """Say on desched's own pod that a person should look, say at a policy that is refused.

        `reason` is one word in CamelCase.
        """
        event = {"type": "Warning", "reason": reason, "action": "Configuration", "note": note}
        self._write(_pod_reference(namespace, pod_name, self._uid(namespace, pod_name)), event)

    def _uid(self, namespace: str, name: str) -> str:
        """The uid, without which `kubectl describe` would not show the Event; empty if unknown."""
        try:
            answer = self._connection.get(
                GET_POD.path(namespace, name), deadline_seconds=_DEADLINE_SECONDS
            )
            return msgspec.json.decode(answer.body, type=wire.Named).metadata.uid
        except (DeschedError, msgspec.DecodeError):
            return ""

    def _write(self, regarding: Mapping[str, str], event: Mapping[str, str]) -> None:
        namespace = regarding.get("namespace") or _NODE_EVENT_NAMESPACE
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{regarding['name']}-", "namespace": namespace},
            "eventTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "desched",
            "reportingInstance": self._instance,
            "regarding": dict(regarding),
            **event,
            "note": _shortened(event["note"]),
        }
        try:
            answer = self._connection.post(
                CREATE_EVENT.path(namespace), body, deadline_seconds=_DEADLINE_SECONDS
            )
            if answer.status != _CREATED:
                raise ObservationError(
                    ObservationSource.CLUSTER, f"The API server answered {answer.status}."
                )
        except DeschedError as error:
            _log.warning(
                "event.not_written",
                kind=regarding["kind"],
                namespace=namespace,
                name=regarding["name"],
                error=str(error),
            )


def _pod_reference(namespace: str, name: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}


def _shortened(note: str) -> str:
    """The note within the limit, which counts bytes, without half a character at its end."""
    encoded = note.encode()
    if len(encoded) <= LONGEST_NOTE_BYTES:
        return note
    return encoded[: LONGEST_NOTE_BYTES - 3].decode(errors="ignore") + "…"
