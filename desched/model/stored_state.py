"""State as stored text: `{"version": 1, "state": {…}}`, bounded and checked.

Within a version, unknown fields are ignored, and unknown scopes of pauses count as everything, so
that an older desched can read what a newer one wrote. Everything else that is invalid becomes a
problem, never an exception.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from desched.errors import StateRefused
from desched.model.extras import Essential, PluginState, without_oldest
from desched.model.state import NodeRounds, Pause, PauseScope, State

VERSION = 1

LONGEST_BYTES = 512 * 1024
"""Half of the limit of a ConfigMap; the other half is for a state that was set aside."""

LONGEST_SET_ASIDE_BYTES = 256 * 1024
LONGEST_KEPT = timedelta(days=7)
"""How long anything matters after its end; no delay in a policy is longer."""

CHECKS_KEPT = timedelta(hours=24)
"""How long the check of a forecast matters."""

MOST_FORECASTS = 200
_YEARS = range(2000, 9000)  # a time plus a delay stays within the calendar


class StoredState(NamedTuple):
    """The stored state, None if there is none yet.

    With a problem, the state cannot be used, and the next save sets it aside.
    """

    state: State | None = None
    problem: str = ""


class _Envelope(msgspec.Struct, gc=False):
    version: int
    state: msgspec.Raw = msgspec.Raw()


class _Extras(msgspec.Struct):
    extras: Mapping[str, msgspec.Raw] = {}


PluginStates = Mapping[str, msgspec.json.Decoder[PluginState]]
"""The decoders of what plugins keep in the state, by the name of the plugin."""

_ENVELOPE = msgspec.json.Decoder(_Envelope)
_STATE = msgspec.json.Decoder(State)
_EXTRAS = msgspec.json.Decoder(_Extras)


def decode(text: str | bytes, plugins: PluginStates) -> StoredState:
    """The state from the text; anything invalid becomes the problem.

    What other plugins than these keep in it is ignored.
    """
    try:
        envelope = _ENVELOPE.decode(text)
        if envelope.version > VERSION:
            return StoredState(
                problem=f"it has version {envelope.version}, but this desched supports version "
                f"{VERSION} only; run the newer desched that wrote it"
            )
        if envelope.version != VERSION:
            return StoredState(problem=f"there is no version {envelope.version}")
        state = _with_extras(_STATE.decode(envelope.state), envelope.state, plugins)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return StoredState(problem=f"it is damaged ({error})")
    if not all(map(_is_usable, _times(state))):
        return StoredState(problem="it has a time without a time zone, or far from now")
    if any(
        min(record.cpu_millicores, record.memory_bytes, record.devices) < 0
        for record in state.evictions
    ):
        return StoredState(problem="it has an eviction with negative usage")
    return StoredState(state)


def _with_extras(state: State, text: msgspec.Raw, plugins: PluginStates) -> State:
    """The state with what these plugins keep in it, each part with its own type."""
    stored = _EXTRAS.decode(text).extras
    extras = {name: plugins[name].decode(stored[name]) for name in stored if name in plugins}
    return msgspec.structs.replace(state, extras=extras)


def encode_state(state: State) -> bytes:
    """The state as JSON of at most LONGEST_BYTES; what does not fit is omitted, oldest first.

    Forecast checks are omitted first, then settled evictions, cool-downs, rounds of nodes,
    failures, what plugins may miss, and the last cycle. Evictions in flight, pauses and what is
    essential to plugins are never omitted.

    Raises:
        StateRefused: evictions in flight, pauses and what is essential to plugins are too large.
    """
    text = _text(state)
    for part in _LESS_IMPORTANT:
        if len(text) <= LONGEST_BYTES:
            return text
        state = part.shortened(state, len(text) - LONGEST_BYTES)
        text = _text(state)
    for extra in state.extras.values():
        if len(text) > LONGEST_BYTES:
            state = state.with_extra(extra.shortened(len(text) - LONGEST_BYTES))
            text = _text(state)
    if len(text) > LONGEST_BYTES:
        text = _text(msgspec.structs.replace(state, last_cycle=None, newcomers=None, skipped=None))
    if len(text) > LONGEST_BYTES:
        raise StateRefused(_why_full(state))
    return text


def _why_full(state: State) -> str:
    """What is more than the state can hold, the largest part first, and what to do about that."""
    in_flight = "evictions in flight", state.in_flight
    parts = (
        Essential(*in_flight, "lower evictionLimits.inFlight in the policy"),
        *(part for extra in state.extras.values() for part in extra.essentials),
        Essential("pauses", state.pauses, "end those that nobody needs with `desched resume`"),
    )
    sized = sorted(
        ((len(msgspec.json.encode(items)), f"{len(items)} {name}", advice))
        for name, items, advice in parts
    )
    filled = ", ".join(f"{name} ({size >> 10} KiB)" for size, name, _ in reversed(sized))
    return (
        f"The state holds at most {LONGEST_BYTES >> 10} KiB, and this is more: {filled}; evictions "
        f"stop until you {sized[-1][2]}."
    )


def set_aside(text: str) -> str:
    """An unusable state as kept for people, cut off if it is long."""
    return text.encode(errors="replace")[:LONGEST_SET_ASIDE_BYTES].decode(errors="ignore")


def pruned(state: State, now: datetime) -> State:
    """The state without what no longer matters."""
    earliest = now - LONGEST_KEPT
    return msgspec.structs.replace(
        state,
        cool_downs=tuple(
            cool_down
            for cool_down in state.cool_downs
            if (earliest if cool_down.level > 0 else now) < cool_down.until
        ),
        nodes=tuple(node for node in state.nodes if not _is_over(node, now)),
        pauses=tuple(pause for pause in state.pauses if not is_done(pause, now)),
        failures=tuple(failure for failure in state.failures if earliest < failure.at),
        forecasts=tuple(c for c in state.forecasts if now - CHECKS_KEPT < c.at)[-MOST_FORECASTS:],
    )


def is_done(pause: Pause, now: datetime) -> bool:
    """Whether a pause is over; automatic ones wait for their probe, but not those of a workload."""
    ends = bool(pause.by) or pause.scope is PauseScope.WORKLOAD
    return ends and not pause.lasts(now)


def _is_over(node: NodeRounds, now: datetime) -> bool:
    return not node.is_cooling_down(now) and node.last_eviction_at <= now - LONGEST_KEPT


class _Part(NamedTuple):
    """A field of State whose items may be omitted, those with the earliest time first."""

    field: str
    time_of: Callable[[Any], datetime]
    may_omit: Callable[[Any], bool] = lambda _: True

    def shortened(self, state: State, excess_bytes: int) -> State:
        items = getattr(state, self.field)
        kept = without_oldest(items, excess_bytes, self.time_of, self.may_omit)
        return msgspec.structs.replace(state, **{self.field: kept})


_LESS_IMPORTANT = (
    _Part("forecasts", lambda check: check.at),
    _Part("evictions", lambda record: record.evicted_at, lambda record: not record.in_flight),
    _Part("cool_downs", lambda cool_down: cool_down.until),
    _Part("nodes", lambda node: node.cooling_down_until or node.last_eviction_at),
    _Part("failures", lambda failure: failure.at),
    _Part("moves", lambda move: move.at),
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
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _times(item)
