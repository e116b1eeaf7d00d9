"""State as text: what is kept, what may go, and what is told of a text that cannot be used."""

import json
from datetime import datetime, timedelta

import msgspec
import pytest

from desched.errors import StopActing
from desched.model.cluster import PodRef
from desched.model.extras import Essential, PluginState, without_oldest
from desched.model.state import (
    CoolDown,
    EvictionRecord,
    Failure,
    ForecastCheck,
    LastCycle,
    MoveResult,
    Newcomers,
    NodeRounds,
    Pause,
    PauseScope,
    SkippedCycles,
    State,
)
from desched.model.stored_state import (
    LONGEST_BYTES,
    LONGEST_SET_ASIDE_BYTES,
    MOST_FORECASTS,
    PluginStates,
    StoredState,
    decode,
    encode_state,
    pruned,
    set_aside,
)
from tests.builders import NOW, certain

HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)


class Item(msgspec.Struct, frozen=True):
    at: datetime
    text: str = ""
    stays: bool = False


class Kept(PluginState, frozen=True):
    plugin = "example"

    items: tuple[Item, ...] = ()

    @property
    def essentials(self) -> tuple[Essential, ...]:
        staying = [item for item in self.items if item.stays]
        return (Essential("items that stay", staying, "write fewer"),)

    def shortened(self, excess_bytes: int) -> "Kept":
        kept = without_oldest(
            self.items, excess_bytes, lambda item: item.at, lambda item: not item.stays
        )
        return Kept(kept)


DECODERS: PluginStates = {"example": msgspec.json.Decoder(Kept)}


def decode_state(text: str | bytes) -> StoredState:
    return decode(text, DECODERS)


def record(number: int, result: MoveResult | None = None) -> EvictionRecord:
    return EvictionRecord(
        PodRef("shop", f"web-{number}", f"uid-{number}"),
        "n1",
        "uid-web",
        NOW + timedelta(seconds=number),
        certain("n2"),
        result=result,
    )


def check(number: int) -> ForecastCheck:
    at = NOW - timedelta(seconds=MOST_FORECASTS * 2 - number)
    return ForecastCheck(at, "", 0.1, bad=False, probability=0.9, hit=True)


def wordy_pauses(count: int) -> tuple[Pause, ...]:
    return tuple(
        Pause(PauseScope.WORKLOAD, NOW, None, f"shop/w{i}", why="x" * 1000, by="alice")
        for i in range(count)
    )


# --- text and back ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "damaged"),
        ("null", "damaged"),
        ("[]", "damaged"),
        ('{"version": null, "memory": {}}', "damaged"),
        ('{"version": 1, "state": null}', "damaged"),
        ('{"version": 1, "state": {"pauses": null}}', "pauses"),
        ('{"version": 1, "state": {"evictions": [{"pod": 1}]}}', "evictions"),
        ('{"version": 0, "memory": {}}', "no version 0"),
        ('{"version": 2, "memory": {}}', "version 2.*run the newer desched"),
        ('{"version": 2, "memory": {"of": "another shape"}}', "run the newer desched"),
        ('{"version": 1, "state": {"since": "2026-05-01T12:00:00"}}', "without a time zone"),
        ('{"version": 1, "state": {"since": "9999-12-31T23:59:59Z"}}', "far from now"),
        ('{"version": 1, "state": {"x": ' + "[" * 100_000, "damaged"),
        (b"\xff\xfe", "damaged"),
    ],
)
def test_a_text_that_cannot_be_used_is_a_problem(text, problem):
    found = decode_state(text)
    assert found.state is None
    assert found.problem
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(found.problem)


def test_times_are_looked_at_wherever_they_are():
    paused = State(pauses=(Pause(PauseScope.EVERYTHING, datetime(2026, 5, 1), None),))  # noqa: DTZ001  (the case)
    assert "time zone" in decode_state(encode_state(paused)).problem


def test_a_pause_with_a_scope_of_a_newer_version_is_one_of_everything():
    """So that neither it nor the other pauses are lost with a rollback."""
    pauses = (Pause(PauseScope.POOL, NOW, None, "gpu"), Pause(PauseScope.WORKLOAD, NOW, None, "w"))
    text = encode_state(State(pauses=pauses)).replace(b'"pool"', b'"rack"')
    whole = Pause(PauseScope.EVERYTHING, NOW, None, "gpu")
    assert decode_state(text).state == State(pauses=(whole, pauses[1]))


def test_the_gang_of_an_eviction_is_kept():
    moved = msgspec.structs.replace(record(1), gang="gang shop/llama (Volcano)")
    state = State(evictions=(moved, record(2)))
    assert decode_state(encode_state(state)).state == state
    assert encode_state(state).count(b'"gang"') == 1


def test_a_field_of_an_earlier_version_is_ignored():
    text = encode_state(State(evictions=(record(1),)))
    earlier = text[:-2] + b',"counted_since":"2026-05-01T12:00:00Z"}}'
    assert decode_state(earlier).state == State(evictions=(record(1),))


def test_the_text_has_its_version():
    assert json.loads(encode_state(State(since=NOW))) == {
        "version": 1,
        "state": {"since": "2026-05-01T12:00:00Z"},
    }


# --- plugins ---------------------------------------------------------------------------------


def kept_by_example(*items: Item) -> State:
    return State(since=NOW, extras=Kept(items).extras)


def test_what_a_plugin_keeps_is_read_with_its_own_type():
    state = kept_by_example(Item(NOW))
    assert decode_state(encode_state(state)).state == state


def test_what_an_unknown_plugin_keeps_is_ignored_and_nothing_else_is_lost():
    text = encode_state(kept_by_example(Item(NOW)))
    assert decode(text, {}) == StoredState(State(since=NOW))
    newer = text.replace(b'"extras":{', b'"extras":{"newer":{"items":[[]]},')
    assert decode_state(newer).state == kept_by_example(Item(NOW))


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ('[{"at": "soon"}]', "damaged"),
        ('[{"at": "2026-05-01T12:00:00"}]', "without a time zone"),
        ('[{"at": "9999-12-31T23:59:59Z"}]', "far from now"),
    ],
)
def test_what_a_plugin_keeps_is_checked_as_the_rest(items, problem):
    text = f'{{"version": 1, "state": {{"extras": {{"example": {{"items": {items}}}}}}}}}'
    found = decode_state(text)
    assert found.state is None
    assert problem in found.problem


def test_an_entry_of_a_plugin_goes_with_the_last_of_what_it_keeps():
    assert kept_by_example(Item(NOW)).with_extra(Kept()) == State(since=NOW)


# --- bounds ----------------------------------------------------------------------------------


def test_what_informs_people_goes_before_what_steers_decisions():
    forecasts = tuple(check(i) for i in range(200))
    state = State(
        evictions=(record(1, MoveResult.LANDED_AS_FORECAST), record(2)),
        forecasts=forecasts,
        pauses=wordy_pauses(470),
    )
    size = len(encode_state(State(pauses=state.pauses)))
    assert LONGEST_BYTES - 20_000 < size < LONGEST_BYTES - 2000  # or the test shows nothing
    kept = decode_state(encode_state(state)).state
    assert kept is not None
    assert kept.evictions == state.evictions
    assert kept.pauses == state.pauses
    assert 0 < len(kept.forecasts) < 200
    assert kept.forecasts == forecasts[-len(kept.forecasts) :]


def test_the_oldest_settled_evictions_go_and_those_in_flight_stay():
    settled = MoveResult.LANDED_AS_FORECAST
    state = State(
        evictions=tuple(record(i, None if i % 10 == 0 else settled) for i in range(5000)),
        cool_downs=(CoolDown("uid", "w", NOW + HOUR, level=1),),
        forecasts=tuple(check(i) for i in range(50)),
    )
    kept = decode_state(encode_state(state)).state
    assert kept is not None
    assert kept.in_flight == state.in_flight
    assert kept.forecasts == ()
    assert kept.cool_downs == state.cool_downs
    stayed = [r for r in kept.evictions if not r.in_flight]
    assert stayed == [r for r in state.evictions if not r.in_flight][-len(stayed) :]
    assert stayed


def test_the_cool_downs_that_end_first_go_first():
    state = State(
        cool_downs=tuple(
            CoolDown(f"uid-{i}", "w" * 300, NOW + timedelta(seconds=(i * 7) % 3001), level=1)
            for i in range(3001)
        )
    )
    kept = decode_state(encode_state(state)).state
    assert kept is not None
    gone = set(state.cool_downs) - set(kept.cool_downs)
    assert gone
    assert max(cool_down.until for cool_down in gone) < min(
        cool_down.until for cool_down in kept.cool_downs
    )


def test_the_last_cycle_is_left_out_if_it_alone_is_too_large():
    cycle = LastCycle(NOW, "desched-1", "evict", "held", overloaded=("n" * LONGEST_BYTES,))
    assert decode_state(encode_state(State(since=NOW, last_cycle=cycle))).state == State(since=NOW)


def test_what_was_seen_of_new_pods_is_left_out_before_a_state_is_refused():
    large = Newcomers(0.5, (0.5,) * LONGEST_BYTES, NOW)
    state = State(since=NOW, newcomers=large, skipped=SkippedCycles(NOW, "no answer"))
    assert decode_state(encode_state(state)).state == State(since=NOW)


def test_more_pauses_than_fit_stop_acting_and_none_is_left_out_in_silence():
    with pytest.raises(StopActing, match=r"600 pauses.*desched resume"):
        encode_state(State(pauses=wordy_pauses(600)))


def test_what_fills_the_state_is_named_largest_first_with_what_to_do_about_it():
    with pytest.raises(StopActing) as raised:
        encode_state(State(pauses=wordy_pauses(600), evictions=(record(1),)))
    assert str(raised.value).startswith(
        "The state holds at most 512 KiB, and this is more: 600 pauses ("
    )
    assert "KiB), 1 evictions in flight (0 KiB); " in str(raised.value)
    assert str(raised.value).endswith(
        "until you end those that nobody needs with `desched resume`."
    )


def test_a_plugin_omits_what_it_may_and_what_must_stay_stops_acting():
    old, new = (
        Item(NOW + timedelta(seconds=i), "x" * 1000, stays) for i, stays in ((0, False), (1, True))
    )
    state = kept_by_example(*[old] * 300, *[new] * 300)
    found = decode_state(encode_state(state)).state
    assert found is not None
    kept = Kept.of(found.extras).items
    assert kept.count(new) == 300
    assert 0 < kept.count(old) < 300
    with pytest.raises(StopActing, match=r"600 items that stay .*until you write fewer\."):
        encode_state(kept_by_example(*[new] * 600))


def test_what_is_set_aside_is_bounded_in_bytes_and_stays_text():
    assert set_aside("ä" * LONGEST_BYTES) == "ä" * (LONGEST_SET_ASIDE_BYTES // 2)
    assert set_aside("short") == "short"


# --- pruning ---------------------------------------------------------------------------------


def test_cool_downs_are_kept_while_they_last_and_their_level_for_a_week_after():
    lasting = CoolDown("1", "w", NOW + HOUR)
    remembered = CoolDown("2", "w", NOW - HOUR, level=1)
    over = CoolDown("3", "w", NOW - HOUR)
    long_over = CoolDown("4", "w", NOW - WEEK - HOUR, level=3)
    state = State(cool_downs=(lasting, remembered, over, long_over))
    assert pruned(state, NOW).cool_downs == (lasting, remembered)


def test_a_pause_of_a_person_goes_when_it_is_over_and_an_automatic_one_waits_for_its_probe():
    over = Pause(PauseScope.EVERYTHING, NOW - HOUR, NOW, by="alice")
    lasting = Pause(PauseScope.EVERYTHING, NOW - HOUR, None, by="alice")
    due = Pause(PauseScope.POOL, NOW - HOUR, NOW, "gpu")
    assert pruned(State(pauses=(over, lasting, due)), NOW).pauses == (lasting, due)


def test_rounds_of_a_node_are_kept_for_a_week_or_while_it_cools_down():
    fresh = NodeRounds("n1", 1, NOW - HOUR)
    old = NodeRounds("n2", 1, NOW - WEEK)
    cooling_nodes = NodeRounds("n3", 9, NOW - WEEK, cooling_down_until=NOW + HOUR)
    left = NodeRounds("n4", 9, NOW - WEEK, cooling_down_until=NOW - HOUR)
    assert pruned(State(nodes=(fresh, old, cooling_nodes, left)), NOW).nodes == (
        fresh,
        cooling_nodes,
    )


def test_failures_are_kept_for_the_longest_time_that_a_policy_may_let_them_count():
    failures = tuple(
        Failure("w", "", NOW - age, MoveResult.NOT_READY)
        for age in (WEEK + HOUR, WEEK, WEEK - HOUR, 24 * HOUR, 0 * HOUR)
    )
    assert pruned(State(failures=failures), NOW).failures == failures[2:]


def test_the_newest_forecasts_are_kept_for_a_day():
    forecasts = tuple(check(i) for i in range(MOST_FORECASTS + 5))
    kept = pruned(State(forecasts=forecasts), NOW)
    assert kept.forecasts == forecasts[5:]
    assert pruned(kept, NOW + 24 * HOUR) == State()


def test_what_an_earlier_desched_made_room_for_is_left_out():
    kept = json.loads(encode_state(State(evictions=(record(1),))))
    kept["state"]["chains"] = [{"chain": {"source": "n1"}, "until": "2026-03-04T12:00:00Z"}]
    assert decode_state(json.dumps(kept)).state == State(evictions=(record(1),))
