"""The samples of load that this replica has taken, at /load-samples for a single look."""

from collections.abc import Callable
from http import HTTPStatus

from desched.service.process.http_endpoints import JSON, TEXT, Answer, Answers, Query
from desched.views.rendering import json_text

NONE_TAKEN = (
    "This replica has taken no samples of load: another one leads, its first cycle has not ended, "
    "or its policy reads Prometheus, which has a history."
)


def samples_answers(read: Callable[[], str]) -> Answers:
    """What the server answers at /load-samples: what `read` returns, or why that is empty."""

    def samples(_: Query) -> Answer:
        text, headers = read(), {"Cache-Control": "no-store"}
        if text:
            return Answer(HTTPStatus.OK, TEXT, text.encode(), headers)
        body = json_text({"problem": NONE_TAKEN}).encode()
        return Answer(HTTPStatus.NOT_FOUND, JSON, body, headers)

    return {"/load-samples": samples}
