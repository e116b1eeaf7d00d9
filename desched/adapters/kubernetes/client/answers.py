"""An answer of the API server."""

from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from desched.adapters.kubernetes.client.api_types.status import Status
from desched.api_objects.decoding import UNDECODABLE

_STATUS = msgspec.json.Decoder(Status)


class Answer(NamedTuple):
    """A complete answer of the API server, whatever its status.

    `date` is the server's clock at that time, in whole seconds, None if the answer has none.
    """

    status: int
    body: bytes
    retry_after_seconds: float | None = None
    date: datetime | None = None

    @property
    def status_object(self) -> Status | None:
        """The server's Status object, None if something in between answered."""
        try:
            status = _STATUS.decode(self.body)
        except UNDECODABLE:
            return None
        return status if status.kind == "Status" else None

    @property
    def explanation(self) -> str:
        """The message of the server's Status object, without a period."""
        status = self.status_object
        if status is None:
            return "an answer that no API server gives"
        return (status.message or "no message").rstrip(".")

    @property
    def is_done(self) -> bool:
        """Whether a read or a write was carried out."""
        return self.status in {HTTPStatus.OK, HTTPStatus.CREATED}

    def is_from_server(self, status: HTTPStatus) -> bool:
        """Whether the server itself, and nothing in between, answered with this status."""
        return self.status == status and self.status_object is not None
