"""The samples of load that this replica has taken, at /load-samples for a single look."""

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock

from desched.service.process.http_endpoints import JSON, TEXT, Answer, Answers, Query
from desched.views.rendering import json_text

FRESH_SECONDS = 15.0
"""For so long the same text is the answer, which bounds what questions cost."""

NONE_TAKEN = (
    "This replica has taken no samples of load: another one leads, its first cycle has not ended, "
    "or its policy reads Prometheus, which has a history."
)


@dataclass(eq=False)
class SamplesEndpoint:
    """Answers with the text that `read` returns, empty if there are no samples.

    `monotonic` is a clock in seconds.
    """

    read: Callable[[], str]
    monotonic: Callable[[], float]
    _text: str = field(default="", init=False)
    _until: float = field(default=float("-inf"), init=False)
    _one_at_a_time: Lock = field(default_factory=Lock, init=False)

    def answer(self, _: Query) -> Answer:
        """The samples, or why there are none."""
        with self._one_at_a_time:
            if self.monotonic() >= self._until:
                self._text = self.read()
                self._until = self.monotonic() + FRESH_SECONDS
            text = self._text
        headers = {"Cache-Control": "no-store"}
        if text:
            return Answer(HTTPStatus.OK, TEXT, text.encode(), headers)
        body = json_text({"problem": NONE_TAKEN}).encode()
        return Answer(HTTPStatus.NOT_FOUND, JSON, body, headers)


def samples_answers(endpoint: SamplesEndpoint) -> Answers:
    """What the server answers at /load-samples."""
    return {"/load-samples": endpoint.answer}
