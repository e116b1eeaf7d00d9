"""How the API server has answered lately."""

import re
from collections import deque
from http import HTTPStatus
from statistics import median
from threading import Lock
from time import monotonic
from typing import NamedTuple

from desched.model.cluster import ServerHealth

LATELY_SECONDS = 120.0
USUALLY_SECONDS = 3600.0
MOST_KEPT = 10_000
FEWEST_TIMED = 3
"""Fewer small requests do not show how fast the server is."""

_LARGEST_SMALL_BYTES = 16 * 2**10

_BUILT_IN = re.compile(
    r"/(version|api/v1|apis/(apps|autoscaling|batch|coordination\.k8s\.io|policy"
    r"|scheduling\.k8s\.io|storage\.k8s\.io))(/|\?|$)"
)
"""What the API server answers by itself.

Others may stand behind all else: adapters of metrics, webhooks that convert objects. Writes are not
counted either, because webhooks of tenants may refuse those of their objects.
"""


class _Request(NamedTuple):
    at: float
    failed: bool
    small_seconds: float | None


class RequestLog:
    """The latest reads of one process, for all of its threads.

    Cycles of a service that watches read little themselves: its Lease and its watches show more.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: deque[_Request] = deque(maxlen=MOST_KEPT)

    def add(self, url: str, began: float, status: int | None, size_bytes: int = 0) -> None:
        """Add a read that ends now, and began at this monotonic time; no status: no answer."""
        if not _BUILT_IN.match(url):
            return
        now = monotonic()
        failed = status is None or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        timed = not failed and size_bytes <= _LARGEST_SMALL_BYTES
        with self._lock:
            self._requests.append(_Request(now, failed, now - began if timed else None))

    def health(self) -> ServerHealth:
        """What the requests of the last minutes show, compared with those of the hour before."""
        now = monotonic()
        with self._lock:
            requests = [request for request in self._requests if now - request.at < USUALLY_SECONDS]
        latest = [request for request in requests if now - request.at < LATELY_SECONDS]
        usual = requests[: len(requests) - len(latest)]
        return ServerHealth(
            len(latest),
            sum(request_counts.failed for request_counts in latest),
            _middle(latest),
            _middle(usual),
        )


def _middle(requests: list[_Request]) -> float | None:
    times = [request.small_seconds for request in requests if request.small_seconds is not None]
    return median(times) if len(times) >= FEWEST_TIMED else None
