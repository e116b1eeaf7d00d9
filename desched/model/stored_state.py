"""State as text that outlives the process: `{"version": 1, "state": {…}}`, bounded and checked.

Within a version, fields that are not known are ignored, so that an older desched reads what a newer
one wrote. Anything else that is not understood is told as a problem, never raised.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from desched.errors import StateRefused
from desched.model.state import NodeRounds, Pause, State

VERSION = 1

LONGEST_BYTES = 512 * 1024
"""Half of what a ConfigMap can hold; the rest is for a state that was set aside."""

LONGEST_SET_ASIDE_BYTES = 256 * 1024
LONGEST_REMEMBERED = timedelta(hours=24)
"""How long after its end anything can still matter: no delay of a policy is longer."""

MOST_FORECASTS = 200
_YEARS = range(2000, 9000)  # so that adding a delay to any time of them stays within the calendar


class StoredState(NamedTuple):
    """What is remembered: None without a problem if there is none yet.

    None with a problem is a state that cannot be used; the next save puts it aside.
    """

    state: State | None = None
    problem: str = ""


class _Envelope(msgspec.Struct, gc=False):
    version: int
    state: msgspec.Raw = msgspec.Raw()


def decoded(text: str | bytes) -> StoredState:
    """The state in the text; whatever is wrong with it becomes the problem."""
    try:
        envelope = msgspec.json.decode(text, type=_Envelope)
        if envelope.version > VERSION:
            return StoredState(
                problem=f"it has version {envelope.version}, and this desched knows version "
                f"{VERSION} only; run the newer desched that wrote it"
            )
        if envelope.version != VERSION:
            return StoredState(problem=f"there is no version {envelope.version}")
        state = msgspec.json.decode(envelope.state, type=State)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return StoredState(problem=f"it is damaged ({error})")
    if not all(map(_is_usable, _times(state))):
        return StoredState(problem="it has a time without a time zone, or far from now")
    if any(min(record.cpu_millicores, record.memory_bytes) < 0 for record in state.evictions):
        return StoredState(problem="it has an eviction by which its node got more load")
    return StoredState(state)


def encoded(state: State) -> bytes:
    """The state as JSON, at most LONGEST_BYTES; what does not fit is left out, oldest first.

    First go forecast checks, then what became of evictions, cool-downs, rounds of nodes, failures,
    and the last cycle. Evictions in flight and pauses are never left out.

    Raises:
        StateRefused: these alone are too large.
    """
    text = _text(state)
    for part in _LESS_IMPORTANT:
        if len(text) <= LONGEST_BYTES:
            return text
        state = part.shortened(state, len(text) - LONGEST_BYTES)
        text = _text(state)
    if len(text) > LONGEST_BYTES:
        text = _text(msgspec.structs.replace(state, last_cycle=None))
    if len(text) > LONGEST_BYTES:
        raise StateRefused(
            f"{len(state.in_flight)} evictions in flight and {len(state.pauses)} pauses are more "
            f"than {LONGEST_BYTES >> 10} KiB of memory can hold, so nothing more is evicted; lower "
            "evictionLimits.inFlight in the policy, or end pauses with `desched resume`."
        )
    return text


def set_aside(text: str) -> str:
    """A state that cannot be used, as it is kept for people; its end is cut off if it is long."""
    return text.encode(errors="replace")[:LONGEST_SET_ASIDE_BYTES].decode(errors="ignore")


def pruned(state: State, now: datetime) -> State:
    """The state without what can no longer matter."""
    earliest = now - LONGEST_REMEMBERED
    return msgspec.structs.replace(
        state,
        cool_downs=tuple(
            cool_down
            for cool_down in state.cool_downs
            if now < cool_down.until or (cool_down.level > 0 and earliest < cool_down.until)
        ),
        nodes=tuple(node for node in state.nodes if not _is_over(node, now)),
        pauses=tuple(pause for pause in state.pauses if not is_done(pause, now)),
        failures=tuple(failure for failure in state.failures if earliest < failure.at),
        forecasts=tuple(check for check in state.forecasts if earliest < check.at)[
            -MOST_FORECASTS:
        ],
    )


def is_done(pause: Pause, now: datetime) -> bool:
    """Whether it is a person's and its time is over; others wait for their probe."""
    return bool(pause.by) and not pause.lasts(now)


def _is_over(node: NodeRounds, now: datetime) -> bool:
    cooling_nodes = node.cooling_down_until is not None and now < node.cooling_down_until
    return not cooling_nodes and node.last_eviction_at <= now - LONGEST_REMEMBERED


class _Part(NamedTuple):
    """A field of Memory whose items may be left out, those with the earliest time first."""

    field: str
    time_of: Callable[[Any], datetime]
    may_go: Callable[[Any], bool] = lambda _: True

    def shortened(self, state: State, excess_bytes: int) -> State:
        items = getattr(state, self.field)
        gone = set()
        for index in sorted(range(len(items)), key=lambda index: self.time_of(items[index])):
            if excess_bytes <= 0:
                break
            if self.may_go(items[index]):
                excess_bytes -= len(msgspec.json.encode(items[index])) + len(",")
                gone.add(index)
        kept = tuple(item for index, item in enumerate(items) if index not in gone)
        return msgspec.structs.replace(state, **{self.field: kept})


_LESS_IMPORTANT = (
    _Part("forecasts", lambda check: check.at),
    _Part("evictions", lambda record: record.evicted_at, lambda record: not record.in_flight),
    _Part("cool_downs", lambda cool_down: cool_down.until),
    _Part("nodes", lambda node: node.cooling_down_until or node.last_eviction_at),
    _Part("failures", lambda failure: failure.at),
)


def _text(state: State) -> bytes:
    return msgspec.json.encode({"version": VERSION, "state": state})


def _is_usable(time: datetime) -> bool:
    return time.tzinfo is not None and time.year in _YEARS


def _times(value: object) -> Iterator[datetime]:
    """All times in a state, or in a part of it."""
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _times(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _times(item)
