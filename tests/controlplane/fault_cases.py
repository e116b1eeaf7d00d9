"""The faults of the API server that desched has to live through, and what it does about each."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.controlplane import faults
from tests.controlplane.fault_proxy import REFUSED, Exchange, Fault, FaultProxy
from tests.controlplane.faults import status
from tests.controlplane.manifests import Object

REQUEST_SECONDS = 3
"""The deadline of a request."""

LIST, WATCH = "limit", "watch"
LIST_NODES = rf"/api/v1/nodes\?{LIST}"
LIST_PODS = rf"/api/v1/pods\?{LIST}"
LIST_BUDGETS = rf"/apis/policy/v1/poddisruptionbudgets\?{LIST}"
WATCH_PODS = rf"/api/v1/pods\?{WATCH}"
WATCH_BUDGETS = rf"/apis/policy/v1/poddisruptionbudgets\?{WATCH}"
VERSION = "/version"
FRESH_POD = r"/api/v1/namespaces/[^/]+/pods/[^/]+$"
FRESH_BUDGETS = r"/apis/policy/v1/namespaces/"
EVICTION = r"/api/v1/namespaces/[^/]+/pods/[^/]+/eviction"
ALL_BUT_EVICTIONS = r"(?!.*/eviction)"
MEMORY = r"/api/v1/namespaces/[^/]+/configmaps"
NODE = r"/api/v1/nodes/"
LEASE = r"/apis/coordination.k8s.io/"


class Effect(StrEnum):
    """What a service does about a fault, for a person."""

    WAITS = "stays alive, is not ready, does not lead"
    SKIPS = "skips the cycle"
    ASKS_AGAIN = "asks again, and the cycle goes on"
    WATCHES_ON = "watches on from the last event"
    LISTS = "lists the kind again, and watches it"
    ASKS_THRICE = "asks again when it was told to, three times in all"
    DOES_NOT_EVICT = "does not evict"
    NOT_ACTING = "acts until the time of the taint is over, then does not act"
    LEADS_ON = "acts until its renew deadline"
    LOSES_LEASE = "evicts nothing any more"


@dataclass(frozen=True)
class Case:
    """A fault of some requests, and what a service does about it.

    `event` is the line of its log that shows it, and `says` what stands there. A line that ends a
    cycle has this result, and this verdict on the eviction.
    """

    of: str
    fault: Fault
    method: str
    path: str
    effect: Effect
    says: str = ""
    event: str = "cycle.completed"
    result: str = "not_evicted"
    verdict: str = "replaced"

    @property
    def asks(self) -> bool:
        """Whether it may ask for evictions all the same."""
        return self.effect not in {Effect.SKIPS, Effect.DOES_NOT_EVICT}

    @property
    def does(self) -> str:
        """A cell of the table."""
        if self.effect is Effect.ASKS_AGAIN:
            return self.effect
        word = self.verdict if self.event == "cycle.completed" else self.event
        if self.effect is Effect.NOT_ACTING:
            word = "taint_stayed"
        said = f": “{self.says}”" if self.says else ""
        return f"{self.effect} (`{word}`){said}"


def named(name: str, fault: Fault) -> Fault:
    """The same fault with another name."""
    return Fault(name, fault.act)


def half_of(document: Any) -> Any:
    """A list without its second half, of which only the server's count tells."""
    items = document["items"]
    kept = len(items) // 2
    metadata = {**document["metadata"], "remainingItemCount": len(items) - kept}
    return {**document, "items": items[:kept], "metadata": metadata}


def once(fault: Fault) -> Fault:
    """Each request that is struck is answered when it comes again."""
    turns: dict[FaultProxy, Iterator[bool]] = defaultdict(lambda: cycle((True, False)))

    def act(exchange: Exchange) -> None:
        if next(turns[exchange.proxy]):
            fault.act(exchange)
        else:
            exchange.pass_on()

    return Fault(f"{fault.name}, once", act)


def in_pages(*, lasting: bool) -> Fault:
    """Lists come in small pages; the token for the next one expires always or every other time."""
    expired = status(410, "the provided continue parameter is too old", reason="Expired")
    expires: dict[FaultProxy, bool] = {}

    def act(exchange: Exchange) -> None:
        request = exchange.request
        if "continue=" not in request.path:
            expires[exchange.proxy] = lasting or not expires.get(exchange.proxy, False)
        elif expires[exchange.proxy]:
            expired.act(exchange)
            return
        path = request.path.replace("limit=500", "limit=3")
        exchange.reply(exchange.forwarded(request._replace(path=path)))

    how_often = "every time" if lasting else "once"
    return Fault(f"continue token expired (410), {how_often}", act)


def lines(name: str, body: bytes) -> Fault:
    """A watch that begins, sends this and ends."""
    return faults.answer(name, faults.Answer(200, {"Content-Type": "application/json"}, body))


EXPIRED = status(410, "too old resource version", reason="Expired")
EXPIRY = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}\n'
LATE = faults.late(REQUEST_SECONDS + 1)
NO_LIST = faults.edited("an object that is no list", lambda _: {})
HALF_A_LIST = faults.edited("half a list", half_of)
THROTTLED = named("status 429, Retry-After", status(429, retry_after_seconds=1))
THROTTLED_FOR_LONG = named(
    "status 429, Retry-After of a minute", status(429, retry_after_seconds=60)
)
THROTTLED_SILENTLY = named("status 429 without Retry-After", status(429))
BUDGET = named(
    "status 429 for a budget",
    status(429, "the budget allows none", cause="DisruptionBudget", retry_after_seconds=10),
)
FAILED = named("status 500 after it took effect", status(500, after_effect=True))
ROTATED = "status 401 once the token was replaced"

TOO_LATE = "the deadline passed"
BROKE_OFF = "the connection broke off"
NO_NODES = "The list of Nodes cannot be read"
NO_PODS = "The list of Pods cannot be read"
NO_POD = "The Pod without a name cannot be read"
NO_BUDGETS = "The list of PodDisruptionBudgets cannot be read"


def skipped(of: str, fault: Fault, path: str, says: str) -> Case:
    """Not everything is seen, so nothing is decided."""
    return Case(of, fault, "GET", path, Effect.SKIPS, says, "cycle.skipped")


def again(of: str, fault: Fault, method: str, path: str) -> Case:
    """It is over when it is tried again."""
    return Case(of, fault, method, path, Effect.ASKS_AGAIN)


NODES, PODS, BUDGETS = "list of nodes", "list of pods", "list of budgets"
READ, WRITTEN, LOOK = "state, read", "state, written", "fresh look"
TAINT, LEASED, EVICTED = "soft taint", "Lease", "eviction"

OBSERVING = [
    skipped("every request", REFUSED, "", "no connection"),
    skipped(PODS, faults.BROKEN_OFF, LIST_PODS, BROKE_OFF),
    skipped(NODES, faults.NEVER, LIST_NODES, TOO_LATE),
    skipped(NODES, LATE, LIST_NODES, TOO_LATE),
    skipped(PODS, faults.drip(), LIST_PODS, TOO_LATE),
    skipped(NODES, status(401), LIST_NODES, "the credentials are not accepted (401)"),
    skipped(BUDGETS, status(403), LIST_BUDGETS, "the account may not list poddisruptionbudgets"),
    again(PODS, once(THROTTLED), "GET", LIST_PODS),
    skipped(PODS, THROTTLED_FOR_LONG, LIST_PODS, "the server is throttling (429)"),
    skipped(PODS, THROTTLED_SILENTLY, LIST_PODS, "the server is throttling (429)"),
    again(PODS, once(status(500)), "GET", LIST_PODS),
    skipped(PODS, status(500), LIST_PODS, "status 500"),
    skipped(BUDGETS, status(503), LIST_BUDGETS, "status 503"),
    skipped(NODES, faults.MALFORMED, LIST_NODES, NO_NODES),
    skipped(PODS, faults.CUT_SHORT, LIST_PODS, NO_PODS),
    skipped(PODS, faults.nulls("metadata"), LIST_PODS, NO_POD),
    skipped(
        NODES, faults.nulls("spec"), LIST_NODES, "cannot be read (Expected `object`, got `null`"
    ),
    skipped(NODES, HALF_A_LIST, LIST_NODES, f"{NO_NODES} (it ends"),
    skipped(BUDGETS, NO_LIST, LIST_BUDGETS, NO_BUDGETS),
    again(NODES, in_pages(lasting=False), "GET", LIST_NODES),
    skipped(NODES, in_pages(lasting=True), LIST_NODES, "expired twice"),
    skipped(NODES, faults.redirect("/elsewhere"), LIST_NODES, "status 307"),
    skipped(READ, status(500), MEMORY, "status 500"),
    skipped(READ, status(403), MEMORY, "the account may not get configmaps"),
    skipped(READ, faults.MALFORMED, MEMORY, "the answer is no ConfigMap"),
]


def interrupted(fault: Fault, effect: Effect, says: str) -> Case:
    """A watch has a fault, and cycles go on."""
    event = "watch.interrupted"
    return Case("watch of pods", once(fault), "GET", WATCH_PODS, effect, says, event)


WATCHING = [
    interrupted(EXPIRED, Effect.LISTS, "no longer has the changes since the last event (410)"),
    interrupted(lines("an event of expiry", EXPIRY), Effect.LISTS, "ended the watch: too old"),
    interrupted(lines("garbage", b"{garbage\n"), Effect.LISTS, "is no event"),
    interrupted(lines("half an event", b'{"ty'), Effect.WATCHES_ON, "in the middle of a line"),
    interrupted(THROTTLED, Effect.WATCHES_ON, "the server is throttling (429)"),
    interrupted(status(500), Effect.WATCHES_ON, "status 500"),
    skipped("watch of pods", lines("an end at once", b""), WATCH_PODS, "ended the watch at once"),
    skipped("watch of pods", faults.NEVER, WATCH_PODS, TOO_LATE),
    skipped("watch of budgets", status(403), WATCH_BUDGETS, "may not watch poddisruptionbudgets"),
    skipped("list after a watch", status(403), LIST_BUDGETS, "may not list poddisruptionbudgets"),
    skipped("list after a watch", HALF_A_LIST, LIST_NODES, f"{NO_NODES} (it ends"),
    skipped("list after a watch", faults.NEVER, LIST_PODS, TOO_LATE),
    skipped("version of the API server", status(503), VERSION, "does not work: status 503"),
]
"""Of services that watch."""


def unreadable(fault: Fault, says: str, path: str = FRESH_POD) -> Case:
    """The fresh look just before the eviction fails."""
    return Case(LOOK, fault, "GET", path, Effect.DOES_NOT_EVICT, says, verdict="unreadable")


def not_begun(fault: Fault, says: str) -> Case:
    """The eviction cannot be written down."""
    return Case(WRITTEN, fault, "PATCH", MEMORY, Effect.DOES_NOT_EVICT, says, verdict="not_begun")


def not_tainted(fault: Fault, says: str) -> Case:
    """A soft taint can neither be renewed nor, once its time is over, be taken away."""
    return Case(
        *(TAINT, fault, "PATCH", NODE, Effect.NOT_ACTING, says),
        result="not_acting",
        verdict="not_begun",
    )


ACTING = [
    unreadable(faults.NEVER, TOO_LATE),
    unreadable(status(500), "status 500"),
    unreadable(status(403), "the account may not get pods"),
    unreadable(faults.MALFORMED, NO_POD),
    unreadable(NO_LIST, NO_BUDGETS, FRESH_BUDGETS),
    Case(LOOK, status(404), "GET", FRESH_POD, Effect.DOES_NOT_EVICT, verdict="gone"),
    not_begun(status(409), "Somebody else changed"),
    not_begun(status(403), "the account may not patch configmaps"),
    not_begun(status(500), "is not known"),
    not_begun(faults.NEVER, TOO_LATE),
    not_begun(faults.BROKEN_OFF, BROKE_OFF),
    again(TAINT, once(status(409)), "PATCH", NODE),
    not_tainted(status(409), "changed by others 3 times"),
    not_tainted(status(403), "needs the right to patch nodes"),
    not_tainted(status(500), "status 500"),
    not_tainted(faults.NEVER, TOO_LATE),
    not_tainted(faults.BROKEN_OFF, BROKE_OFF),
    Case(EVICTED, THROTTLED, "POST", EVICTION, Effect.ASKS_THRICE, verdict="throttled"),
]


def renewal(fault: Fault, says: str, method: str = "PATCH") -> Case:
    """The Lease is not renewed, but not for so long that it is lost."""
    event = "leadership.renewal_failed"
    return Case(LEASED, fault, method, LEASE, Effect.LEADS_ON, says, event)


def lost(fault: Fault, says: str, method: str = "PATCH") -> Case:
    """The Lease is not renewed for longer than --renew-deadline."""
    return Case(LEASED, fault, method, LEASE, Effect.LOSES_LEASE, says, "leadership.lost")


ROTATION = Case(
    *("every request", named(ROTATED, status(401)), ".*", ALL_BUT_EVICTIONS, Effect.ASKS_AGAIN),
)
STARTING = Case(
    *("every request, at the start", REFUSED, "", "", Effect.WAITS, "no connection"),
    event="leadership.renewal_failed",
)
LEADING = [
    renewal(status(500), "the API server answered 500"),
    renewal(status(403), "the API server answered 403"),
    renewal(faults.MALFORMED, "JSON is malformed", "GET"),
    renewal(faults.BROKEN_OFF, BROKE_OFF),
]
LOSING = [
    lost(faults.NEVER, TOO_LATE, "GET"),
    lost(status(409), "another writer of the lease was faster"),
]


class Afterwards(StrEnum):
    """What the next cycle does about an eviction that met a fault."""

    FOLLOWED = "finds the pod gone, and follows it up as evicted"
    ASKED = "finds the pod there, and asks again"
    RESTS = "leaves the workload alone for its cool-down"


class Deed(NamedTuple):
    """A fault of the eviction itself, and how a single run with some rules ends.

    `asked` is the most requests that it makes.
    """

    fault: Fault
    result: str
    verdict: str
    afterwards: Afterwards
    asked: int = 1
    rules: Mapping[str, Any] = MappingProxyType({})


def unknown(fault: Fault, afterwards: Afterwards, asked: int = 1) -> Deed:
    """Whether it took effect is not known; nothing more is evicted in that cycle."""
    return Deed(fault, "stopped", "unknown", afterwards, asked)


LONG_WINDOW_SECONDS = 30
PATIENT: Object = {
    "windows": {of: [f"{LONG_WINDOW_SECONDS}s"] for of in ("cpu", "memory")},
    "evictionLimits": {"deadline": "10s"},
}
"""The load stays young enough while an eviction waits for its budget, which it does once."""

DONE = {
    "broken-off": unknown(faults.BROKEN_OFF, Afterwards.FOLLOWED),
    "late": unknown(LATE, Afterwards.FOLLOWED),
    "failed": unknown(FAILED, Afterwards.FOLLOWED),
}
BLOCKED = Deed(BUDGET, "not_evicted", "blocked_by_budget", Afterwards.ASKED, asked=2, rules=PATIENT)
NOT_DONE = {
    "never": unknown(faults.NEVER, Afterwards.RESTS),
    "unavailable": unknown(status(503), Afterwards.RESTS),
    "redirect": unknown(faults.redirect("/elsewhere"), Afterwards.RESTS),
    # Once more, with renewed credentials.
    "unauthorized": unknown(status(401), Afterwards.RESTS, asked=2),
    "forbidden": Deed(status(403), "not_evicted", "forbidden", Afterwards.RESTS),
    "webhook": Deed(THROTTLED_SILENTLY, "not_evicted", "forbidden", Afterwards.RESTS),
}
