"""An answer of an aggregated API with its time, or why there is none."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import why_refused
from desched.api_objects.access import Access
from desched.errors import AnswerTooLarge, ObservationError, ObservationSource


class AnsweredBody(NamedTuple):
    """The body, and the server's clock then."""

    body: bytes
    at: datetime


class MetricsApi(NamedTuple):
    """An API that has no pages, so that each list is one request.

    `absent` is what to say and to do about an answer of these statuses.
    """

    connection: KubernetesConnection
    deadline_seconds: float
    absent: Mapping[HTTPStatus, str]

    def read(self, access: Access, name: str = "") -> AnsweredBody:
        """What the API has at the path of a right, of one object or of all.

        Raises:
            ObservationError: it could not be read in time.
        """
        path = access.path(name=name)
        try:
            answer = self.connection.get(path, deadline_seconds=self.deadline_seconds)
        except AnswerTooLarge as error:
            raise unread(
                f"{error} {access.group} has no pages; set metrics.type to prometheus in so large "
                "a cluster."
            ) from error
        if answer.status in self.absent:
            raise unread(f"{self.absent[HTTPStatus(answer.status)]} (status {answer.status}).")
        if answer.status != HTTPStatus.OK:
            refusal = why_refused(answer, access)
            raise unread(f"The {access.resource} of {access.group} could not be read: {refusal}.")
        if answer.date is None:
            raise unread(
                f"The answer of {access.group} has no time, so the age of its samples is unknown; "
                "configure the proxies between to pass the header Date on."
            )
        return AnsweredBody(answer.body, answer.date)


def unread(text: str) -> ObservationError:
    """The error of an answer that cannot be used."""
    return ObservationError(ObservationSource.CLUSTER, text)
