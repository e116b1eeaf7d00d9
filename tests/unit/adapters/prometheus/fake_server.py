"""A Prometheus of our own on loopback that answers as a test says.

It takes a query of several parts apart, and puts each of them to the test.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from desched.adapters.prometheus.queries import PART_LABEL
from tests.loopback import Handler, Server

EVALUATED_AT = 1_777_636_800.0  # 2026-05-01 12:00 UTC


class Asked(NamedTuple):
    path: str
    query: str
    headers: Mapping[str, str]
    peer: tuple[str, int]
    times: tuple[float, ...] = ()  # of a range query


class Reply(NamedTuple):
    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {"Content-Type": "application/json"}
    chunks: Iterable[bytes] | None = None  # sent in place of the body, one after the other


def vector(*samples: tuple[Mapping[str, str], float], **more: Any) -> Reply:
    """An instant vector as Prometheus sends it."""
    result = [{"metric": dict(m), "value": [EVALUATED_AT, str(v)]} for m, v in samples]
    data = {"resultType": "vector", "result": result}
    return Reply(json.dumps({"status": "success", "data": data, **more}).encode())


def matrix(
    asked: Asked, *tracks: tuple[Mapping[str, str], Sequence[float | None]], **more: Any
) -> Reply:
    """A range vector: for each series its values from the first time on; None is left out."""
    result = [
        {
            "metric": dict(labels),
            "values": [
                [at, str(v)] for at, v in zip(asked.times, values, strict=True) if v is not None
            ],
        }
        for labels, values in tracks
    ]
    data = {"resultType": "matrix", "result": result}
    return Reply(json.dumps({"status": "success", "data": data, **more}).encode())


PART = re.compile(rf'label_replace\((.*?), "{PART_LABEL}", "(\w+)", "node", "\.\*"\)(?: or |$)')


def parts_of(query: str) -> list[tuple[str, str]]:
    """The name and the query of each part, none if the query has no parts."""
    return [(name, promql) for promql, name in PART.findall(query)]


def by_parts(asked: Asked, answer: Callable[[Asked], Reply]) -> Reply:
    """The answers to the parts of a query together, each with the label of its part."""
    parts = parts_of(asked.query)
    if not parts:
        return answer(asked)
    together: dict[str, Any] = {}
    for name, query in parts:
        reply = answer(asked._replace(query=query))
        try:
            found = json.loads(reply.body)
            for series in found["data"]["result"]:
                series["metric"] = {**series["metric"], PART_LABEL: name}
        except (ValueError, LookupError, TypeError):
            return reply  # this is no vector, so there is nothing to put together
        if reply.status != HTTPStatus.OK:
            return reply
        if together:
            together["data"]["result"] += found["data"]["result"]
            if said := [*together.get("warnings", ()), *found.get("warnings", ())]:
                together["warnings"] = said
        else:
            together = found
    return Reply(json.dumps(together).encode())


def _times(params: Mapping[str, str]) -> tuple[float, ...]:
    """When Prometheus evaluates a range query."""
    begin, end = float(params["start"]), float(params["end"])
    step_seconds = float(params["step"].removesuffix("s"))
    return tuple(begin + i * step_seconds for i in range(int((end - begin) / step_seconds) + 1))


def refusal(status: int, **body: Any) -> Reply:
    return Reply(json.dumps({"status": "error", **body}).encode(), status)


class FakePrometheus(Server):
    """Answers each part of a query by calling `answer`; `asked` records them."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.requests = 0
        self.takes_apart = True
        self.configuration = ""
        self.answer: Callable[[Asked], Reply] = lambda _: vector()
        fake = self

        class Prometheus(Handler):
            def respond(self) -> None:
                parts = urlsplit(self.path)
                params = {key: values[0] for key, values in parse_qs(parts.query).items()}
                asked = Asked(
                    parts.path,
                    params.get("query", ""),
                    dict(self.headers),
                    self.client_address,
                    _times(params) if parts.path.endswith("/query_range") else (),
                )
                fake.requests += 1
                self._send(fake.reply(asked))

            def _send(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.chunks is None:
                    self.send_header("Content-Length", str(len(reply.body)))
                else:
                    self.send_header("Connection", "close")
                self.end_headers()
                with suppress(OSError):  # the client may well have given up
                    for chunk in [reply.body] if reply.chunks is None else reply.chunks:
                        self.wfile.write(chunk)
                        self.wfile.flush()

        super().__init__(Prometheus)

    def reply(self, asked: Asked) -> Reply:
        """The answer to a query; the `configuration` of most servers cannot be read."""
        if asked.path.endswith("/status/config"):
            data = {"status": "success", "data": {"yaml": self.configuration}}
            return Reply(json.dumps(data).encode()) if self.configuration else refusal(404)
        return by_parts(asked, self._answered) if self.takes_apart else self._answered(asked)

    def _answered(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        return self.answer(asked)

    def replies(self, *replies: Reply) -> None:
        """Answer with these in turn, and then with the last of them."""
        left = list(replies)
        self.answer = lambda _: left.pop(0) if len(left) > 1 else left[0]
