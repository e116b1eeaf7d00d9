"""The explanation of one node, pod or workload by the last cycle, as JSON at /explain."""

from dataclasses import dataclass, field
from http import HTTPStatus

from desched.decision import Decision
from desched.errors import ConfigurationError
from desched.service.process.http_endpoints import JSON, Answer, Answers, Query
from desched.views.explained.explain import explain
from desched.views.explained.subject import parse_subject
from desched.views.rendering import json_text

LONGEST_NAME = 600  # characters: more than a namespace and a name may have

NOTHING_YET = (
    "This replica has decided nothing yet: its first cycle has not ended, or another replica leads."
)


@dataclass(eq=False)
class ExplainEndpoint:
    """Keeps the decision of the last cycle; `target` is the cluster."""

    target: str
    _decision: Decision | None = field(default=None, init=False)

    def decided(self, decision: Decision) -> None:
        """Answer by this decision from now on."""
        self._decision = decision

    def answer(self, query: Query) -> Answer:
        """The explanation with all digits, or why there is none."""
        kind, name = query.get("kind", ""), query.get("name", "")
        if len(kind) + len(name) > LONGEST_NAME:
            return _problem(HTTPStatus.BAD_REQUEST, "No object has so long a name.")
        try:
            subject = parse_subject(kind, name)
        except ConfigurationError as error:
            return _problem(HTTPStatus.BAD_REQUEST, str(error))
        decision = self._decision
        if decision is None:
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, NOTHING_YET)
        try:
            explanation = explain(subject, decision, self.target)
        except ConfigurationError as error:
            return _problem(HTTPStatus.NOT_FOUND, str(error))
        return _answer(HTTPStatus.OK, explanation)


def explain_answers(endpoint: ExplainEndpoint) -> Answers:
    """What the server answers at /explain."""
    return {"/explain": endpoint.answer}


def _problem(status: HTTPStatus, problem: str) -> Answer:
    return _answer(status, {"problem": problem})


def _answer(status: HTTPStatus, value: object) -> Answer:
    return Answer(status, JSON, json_text(value).encode(), {"Cache-Control": "no-store"})
