"""Requests evictions, and turns each answer of the Eviction API into a verdict."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from desched.adapters.kubernetes.client.access import EVICT_POD
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.api_types.status import Status
from desched.adapters.kubernetes.client.connection import DEADLINE_SECONDS, KubernetesConnection
from desched.adapters.kubernetes.events import EventWriter
from desched.errors import ObservationError, ObservationSource, StopActing
from desched.model.cluster import PodRef
from desched.model.report import EvictionVerdict
from desched.model.text import shortened
from desched.ports import Announcement, EvictionAnswer

LONGEST_MESSAGE = 1000
"""Characters; admission webhooks may write long messages."""

_REASON_ANNOTATION = "desched.io/reason"
_TAKEN_OVER = re.compile(r"triggered (evacuation|migration)", re.IGNORECASE)  # KubeVirt's webhook
_DENIED = re.compile(r"^(admission webhook|ValidatingAdmissionPolicy) .* denied (the )?request")
"""Whatever its status; a webhook that rolls the pod itself may choose 500 (Strimzi's does)."""

_NOT_CALLED = re.compile(r"failed calling webhook \"([^\"]*)\"")
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
_PLAIN = {
    200: EvictionVerdict.EVICTED,
    201: EvictionVerdict.EVICTED,
    400: EvictionVerdict.FORBIDDEN,  # admission webhooks refuse with 400 and 422 too
    403: EvictionVerdict.FORBIDDEN,
    404: EvictionVerdict.GONE,
    409: EvictionVerdict.REPLACED,
    422: EvictionVerdict.FORBIDDEN,
}
"""What these statuses mean, provided that the body is the server's Status object."""

_BUDGET_CONFLICT = "couldn't update PodDisruptionBudget"


@dataclass
class KubernetesEvictor:
    """The Evictor for a real API server; it never deletes a pod and never retries.

    `seconds_left` is how long this process may still act; no request lasts longer.
    """

    connection: KubernetesConnection
    events: EventWriter
    _: KW_ONLY
    deadline_seconds: float = DEADLINE_SECONDS
    seconds_left: Callable[[], float] = lambda: math.inf

    def evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """Request the eviction of exactly this pod, once.

        The reason is for audit logs and admission webhooks.

        Raises:
            StopActing: the answer is missing or not understood; the pod may be evicted or not.
        """
        try:
            return self._ask(pod, reason)
        except ObservationError as error:
            raise StopActing(
                f"Whether {pod} is evicted is not known. {error} "
                "desched evicts nothing more in this cycle."
            ) from error

    def would_evict(self, pod: PodRef, reason: str) -> EvictionAnswer:
        """The answer that `evict` would get now, with all budgets and admission webhooks.

        Only in the query, and not in the body, does a dry run reach the webhooks as one.

        Raises:
            ObservationError: the answer is missing or not understood; the pod is not evicted.
        """
        return self._ask(pod, reason, "?dryRun=All")

    def announce(self, announcements: Sequence[Announcement]) -> None:
        """Record Events on the pods and their nodes; a failure is logged, never raised."""
        self.events.announce(announcements)

    def _ask(self, pod: PodRef, reason: str, query: str = "") -> EvictionAnswer:
        if not pod.uid:
            raise ValueError(f"{pod} has no uid, so another pod could have its name by now")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {
                "namespace": pod.namespace,
                "name": pod.name,
                "annotations": {_REASON_ANNOTATION: reason},
            },
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        seconds = min(self.deadline_seconds, self.seconds_left())
        path = EVICT_POD.path(pod.namespace, pod.name) + query
        return _understood(self.connection.post(path, body, deadline_seconds=seconds), pod)


def _understood(answer: Answer, pod: PodRef) -> EvictionAnswer:
    """The verdict, from the status and the body: the status alone is ambiguous."""
    status = answer.status_object
    message = shortened((status.message or "") if status is not None else "", LONGEST_MESSAGE)
    if _DENIED.search(message) and not _TAKEN_OVER.search(message):
        return EvictionAnswer(EvictionVerdict.FORBIDDEN, message)
    if status is not None and answer.status in _PLAIN:
        verdict = _PLAIN[answer.status]
        return EvictionAnswer(verdict, "" if verdict is EvictionVerdict.EVICTED else message)
    match answer.status:
        case 429:
            return _refused_for_now(answer, status, message)
        case 500 if _SEVERAL_BUDGETS in message:
            return EvictionAnswer(EvictionVerdict.SEVERAL_BUDGETS, message)
        case 500 | 504 if _BUDGET_CONFLICT in message:
            return EvictionAnswer(EvictionVerdict.BLOCKED_BY_BUDGET, message)
        case _:
            said = f": {message}" if message else ""
            if webhook := _NOT_CALLED.search(message):
                raise ObservationError(
                    ObservationSource.CLUSTER,
                    f"The API server could not call the admission webhook {webhook[1]} for the "
                    f"eviction of {pod}{said}. Repair that webhook, or remove its configuration.",
                )
            raise ObservationError(
                ObservationSource.CLUSTER,
                f"The API server answered the eviction of {pod} with {answer.status}{said}, which "
                "desched does not understand.",
            )


def _refused_for_now(answer: Answer, status: Status | None, message: str) -> EvictionAnswer:
    """A budget, throttling or a webhook, by cause and message: all use 429."""
    causes = (status.details.causes or ()) if status is not None and status.details else ()
    for cause in causes:
        if cause.reason == "DisruptionBudget":
            said = shortened(cause.message or message, LONGEST_MESSAGE)
            return EvictionAnswer(EvictionVerdict.BLOCKED_BY_BUDGET, said)
    if _TAKEN_OVER.search(message):
        return EvictionAnswer(EvictionVerdict.TAKEN_OVER, message)
    if status is not None and answer.retry_after_seconds is None:
        # Throttling comes with Retry-After; without it an admission webhook refused.
        return EvictionAnswer(EvictionVerdict.FORBIDDEN, message)
    return EvictionAnswer(
        EvictionVerdict.THROTTLED,
        message or "the API server is throttling requests",
        answer.retry_after_seconds,
    )
