"""Collections of the API server that a watch keeps up to date, which costs less than lists."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, Protocol

import urllib3

Objects = Sequence[dict[str, Any]]

AGAIN_SECONDS = 0.2


class OpenStream(Protocol):
    """Makes a GET request and returns the response, whose body has not been read."""

    def __call__(self, path: str) -> urllib3.BaseHTTPResponse: ...


class Watched:
    """The objects of a collection as of a moment ago; it lists them anew after each interruption.

    `items` is the same tuple for as long as nothing changes.
    """

    def __init__(self, open_stream: OpenStream, path: str) -> None:
        self.items: Objects = ()
        self._open = open_stream
        self._path = path
        self._stopping = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def stop(self) -> None:
        """Begin no further request; the thread ends when its last one does."""
        self._stopping.set()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            with suppress(urllib3.exceptions.HTTPError, ValueError, _InterruptedError):
                self._watch()
            self._stopping.wait(AGAIN_SECONDS)

    def _watch(self) -> None:
        (document,) = self._lines(self._path)
        known = {item["metadata"]["uid"]: item for item in document["items"]}
        self.items = tuple(known.values())
        version = document["metadata"]["resourceVersion"]
        for event in self._lines(f"{self._path}?watch=true&resourceVersion={version}"):
            item = event["object"]
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    known[item["metadata"]["uid"]] = item
                case "DELETED":
                    known.pop(item["metadata"]["uid"], None)
                case other:
                    raise _InterruptedError(other)
            self.items = tuple(known.values())

    def _lines(self, path: str) -> Iterator[Any]:
        with closing(self._open(path)) as response:
            if response.status != 200:
                raise _InterruptedError(response.status)
            rest = b""
            for part in response.stream():
                *lines, rest = (rest + part).split(b"\n")
                yield from map(json.loads, lines)
            if rest:
                yield json.loads(rest)


class _InterruptedError(Exception):
    """The API server ended the watch."""
