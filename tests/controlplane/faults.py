"""What goes wrong with requests, by the names that faults.md has for it."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from tests.controlplane.fault_proxy import REFUSED, Answer, Exchange, Fault, FaultProxy

__all__ = ["REFUSED", "Answer", "Exchange", "Fault", "FaultProxy"]


def _broken_off(exchange: Exchange) -> None:
    answer = exchange.forwarded()
    exchange.begin(answer)
    exchange.send(answer.body[: len(answer.body) // 2])
    exchange.reset()


BROKEN_OFF = Fault("connection reset in mid-body", _broken_off)
"""The server has done what was asked; half of its answer arrives."""


def _never(exchange: Exchange) -> None:
    exchange.hold(float("inf"))


NEVER = Fault("never answers", _never)
"""The request does not reach the server."""


def late(seconds: float) -> Fault:
    """The server does what was asked, and its answer comes so much later."""

    def act(exchange: Exchange) -> None:
        answer = exchange.forwarded()
        exchange.hold(seconds)
        exchange.reply(answer)

    return Fault("answers after the deadline", act)


def drip(pause_seconds: float = 0.1) -> Fault:
    """The answer comes byte by byte."""

    def act(exchange: Exchange) -> None:
        answer = exchange.forwarded()
        exchange.begin(answer)
        for byte in answer.body:
            exchange.hold(pause_seconds)
            exchange.send(bytes([byte]))

    return Fault("slow drip", act)


def answer(name: str, given: Answer, *, after_effect: bool = False) -> Fault:
    """This answer instead of the server's, which has done what was asked if `after_effect`."""

    def act(exchange: Exchange) -> None:
        if after_effect:
            exchange.forwarded()
        exchange.reply(given)

    return Fault(name, act)


def status(
    code: int,
    message: str = "injected",
    *,
    reason: str = "",
    cause: str = "",
    retry_after_seconds: int | None = None,
    after_effect: bool = False,
) -> Fault:
    """A refusal in the API server's own form."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {"causes": [{"reason": cause, "message": message}]} if cause else {},
        "code": code,
    }
    headers = {"Content-Type": "application/json"}
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(retry_after_seconds)
    given = Answer(code, headers, json.dumps(body).encode())
    return answer(f"status {code}", given, after_effect=after_effect)


def redirect(location: str) -> Fault:
    """The client is sent elsewhere."""
    return answer("redirect", Answer(307, {"Location": location}))


def changed(name: str, change: Callable[[Answer], Answer]) -> Fault:
    """The server's answer, changed on its way; a refusal passes as it is."""

    def act(exchange: Exchange) -> None:
        given = exchange.forwarded()
        exchange.reply(change(given) if given.status == HTTPStatus.OK else given)

    return Fault(name, act)


def edited(name: str, edit: Callable[[Any], Any]) -> Fault:
    """The server's JSON as `edit` returns it."""

    def change(given: Answer) -> Answer:
        return given._replace(body=json.dumps(edit(json.loads(given.body))).encode())

    return changed(name, change)


MALFORMED = changed("malformed JSON", lambda a: a._replace(body=a.body.replace(b":", b"=")))

CUT_SHORT = changed("half an answer", lambda a: a._replace(body=a.body[: len(a.body) // 2]))
"""Complete by its Content-Length."""


def nulls(*names: str) -> Fault:
    """Every member of these names is null, however deep."""

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(item) for item in value]
        if isinstance(value, dict):
            return {k: None if k in names else without(v) for k, v in value.items()}
        return value

    return edited("nulls", without)
