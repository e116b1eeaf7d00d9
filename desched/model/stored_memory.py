"""Memory as text that outlives the process: `{"version": 1, "memory": {…}}`, bounded and checked.

Within a version, fields that are not known are ignored, so that an older desched reads what a newer
one wrote. Anything else that is not understood is told as a problem, never raised.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from desched.errors import MemoryRefused
from desched.model.memory import Memory, NodeRounds, Pause

VERSION = 1

LONGEST_BYTES = 512 * 1024
"""Half of what a ConfigMap can hold; the rest is for a memory that was set aside."""

LONGEST_SET_ASIDE_BYTES = 256 * 1024
LONGEST_REMEMBERED = timedelta(hours=24)
"""How long after its end anything can still matter: no delay of a policy is longer."""

MOST_FORECASTS = 200
_YEARS = range(2000, 9000)  # so that adding a delay to any time of them stays within the calendar


class Recollection(NamedTuple):
    """What is remembered: None without a problem if there is none yet.

    None with a problem is a memory that cannot be used; the next save puts it aside.
    """

    memory: Memory | None = None
    problem: str = ""


class _Envelope(msgspec.Struct, gc=False):
    version: int
    memory: msgspec.Raw = msgspec.Raw()


def decoded(text: str | bytes) -> Recollection:
    """The memory in the text; whatever is wrong with it becomes the problem."""
    try:
        envelope = msgspec.json.decode(text, type=_Envelope)
        if envelope.version > VERSION:
            return Recollection(
                problem=f"it has version {envelope.version}, and this desched knows version "
                f"{VERSION} only; run the newer desched that wrote it"
            )
        if envelope.version != VERSION:
            return Recollection(problem=f"there is no version {envelope.version}")
        memory = msgspec.json.decode(envelope.memory, type=Memory)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return Recollection(problem=f"it is damaged ({error})")
    if not all(map(_is_usable, _times(memory))):
        return Recollection(problem="it has a time without a time zone, or far from now")
    if any(min(record.cpu_millicores, record.memory_bytes) < 0 for record in memory.evictions):
        return Recollection(problem="it has an eviction by which its node got more load")
    return Recollection(memory)


def encoded(memory: Memory) -> bytes:
    """The memory as JSON, at most LONGEST_BYTES; what does not fit is left out, oldest first.

    First go forecast checks, then what became of evictions, cool-downs, rounds of nodes, failures,
    and the last cycle. Evictions in flight and pauses are never left out.

    Raises:
        MemoryRefused: these alone are too large.
    """
    text = _text(memory)
    for part in _LESS_IMPORTANT:
        if len(text) <= LONGEST_BYTES:
            return text
        memory = part.shortened(memory, len(text) - LONGEST_BYTES)
        text = _text(memory)
    if len(text) > LONGEST_BYTES:
        text = _text(msgspec.structs.replace(memory, last_cycle=None))
    if len(text) > LONGEST_BYTES:
        raise MemoryRefused(
            f"{len(memory.in_flight)} evictions in flight and {len(memory.pauses)} pauses are more "
            f"than {LONGEST_BYTES >> 10} KiB of memory can hold, so nothing more is evicted; lower "
            "evictionLimits.inFlight in the policy, or end pauses with `desched resume`."
        )
    return text


def set_aside(text: str) -> str:
    """A memory that cannot be used, as it is kept for people; its end is cut off if it is long."""
    return text.encode(errors="replace")[:LONGEST_SET_ASIDE_BYTES].decode(errors="ignore")


def pruned(memory: Memory, now: datetime) -> Memory:
    """The memory without what can no longer matter."""
    earliest = now - LONGEST_REMEMBERED
    return msgspec.structs.replace(
        memory,
        cool_downs=tuple(
            rest
            for rest in memory.cool_downs
            if now < rest.until or (rest.level > 0 and earliest < rest.until)
        ),
        nodes=tuple(node for node in memory.nodes if not _is_over(node, now)),
        pauses=tuple(pause for pause in memory.pauses if not is_done(pause, now)),
        failures=tuple(failure for failure in memory.failures if earliest < failure.at),
        forecasts=tuple(check for check in memory.forecasts if earliest < check.at)[
            -MOST_FORECASTS:
        ],
    )


def is_done(pause: Pause, now: datetime) -> bool:
    """Whether it is a person's and its time is over; others wait for their probe."""
    return bool(pause.by) and not pause.lasts(now)


def _is_over(node: NodeRounds, now: datetime) -> bool:
    parked = node.parked_until is not None and now < node.parked_until
    return not parked and node.last_eviction_at <= now - LONGEST_REMEMBERED


class _Part(NamedTuple):
    """A field of Memory whose items may be left out, those with the earliest time first."""

    field: str
    time_of: Callable[[Any], datetime]
    may_go: Callable[[Any], bool] = lambda _: True

    def shortened(self, memory: Memory, excess_bytes: int) -> Memory:
        items = getattr(memory, self.field)
        gone = set()
        for index in sorted(range(len(items)), key=lambda index: self.time_of(items[index])):
            if excess_bytes <= 0:
                break
            if self.may_go(items[index]):
                excess_bytes -= len(msgspec.json.encode(items[index])) + len(",")
                gone.add(index)
        kept = tuple(item for index, item in enumerate(items) if index not in gone)
        return msgspec.structs.replace(memory, **{self.field: kept})


_LESS_IMPORTANT = (
    _Part("forecasts", lambda check: check.at),
    _Part("evictions", lambda record: record.evicted_at, lambda record: not record.in_flight),
    _Part("cool_downs", lambda rest: rest.until),
    _Part("nodes", lambda node: node.parked_until or node.last_eviction_at),
    _Part("failures", lambda failure: failure.at),
)


def _text(memory: Memory) -> bytes:
    return msgspec.json.encode({"version": VERSION, "memory": memory})


def _is_usable(time: datetime) -> bool:
    return time.tzinfo is not None and time.year in _YEARS


def _times(value: object) -> Iterator[datetime]:
    """All times in a memory, or in a part of it."""
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _times(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _times(item)
