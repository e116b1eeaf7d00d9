"""Whatever is remembered can be stored and read again; whatever is stored can be read safely."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from desched.errors import StopActing
from desched.model.state import State
from desched.model.stored_state import LONGEST_BYTES, encode_state, pruned
from desched.plugins.gpus.drains.drain import Drains, drains_of
from desched.plugins.states import decode_state
from tests.builders import NOW

times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  (bounds are naive by contract)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


def values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Any value of a type of the model, by the types of its fields."""
    match kind:
        case msgspec.inspect.StructType():
            fields = {field.name: values_of(field.type) for field in kind.fields}
            return st.builds(kind.cls, **fields)
        case msgspec.inspect.VarTupleType():
            return st.lists(values_of(kind.item_type), max_size=2).map(tuple)
        case msgspec.inspect.UnionType():
            return st.one_of([values_of(each) for each in kind.types])
        case msgspec.inspect.EnumType():
            return st.sampled_from(kind.cls)
        case msgspec.inspect.NoneType():
            return st.none()
        case _:
            return SIMPLE[type(kind)]


SIMPLE: dict[type[msgspec.inspect.Type], st.SearchStrategy[Any]] = {
    msgspec.inspect.DictType: st.just({}),  # what plugins keep
    msgspec.inspect.StrType: words,
    msgspec.inspect.IntType: st.integers(0, 2**31),
    msgspec.inspect.FloatType: st.floats(min_value=0, allow_infinity=False),
    msgspec.inspect.BoolType: st.booleans(),
    msgspec.inspect.DateTimeType: times,
}
states = st.builds(
    State.with_extra,
    values_of(msgspec.inspect.type_info(State)),
    values_of(msgspec.inspect.type_info(Drains)),
)


@settings(deadline=None)
@given(states)
def test_any_memory_is_read_as_it_was_written(state: State) -> None:
    assert decode_state(encode_state(state)) == (state, "")


@settings(deadline=None)
@given(states, st.sampled_from([1, 1000, 3000]))
def test_any_memory_fits_or_says_that_it_does_not(state: State, times_over: int) -> None:
    grown = msgspec.structs.replace(
        state,
        **{
            name: getattr(state, name) * times_over
            for name in ("evictions", "cool_downs", "nodes", "failures", "forecasts")
        },
    ).with_extra(Drains(drains_of(state) * times_over))
    try:
        text = encode_state(grown)
    except StopActing:
        drains = Drains(Drains.of(grown.extras).under_way)
        essential = State(
            evictions=grown.in_flight,
            since=grown.since,
            pauses=grown.pauses,
            extras=drains.extras,
        )
        assert len(msgspec.json.encode(essential)) > LONGEST_BYTES - 100
        return
    kept = decode_state(text).state
    assert len(text) <= LONGEST_BYTES
    assert kept is not None
    assert kept.in_flight == grown.in_flight
    assert kept.pauses == grown.pauses
    assert set(Drains.of(grown.extras).under_way) <= set(drains_of(kept))


@settings(deadline=None)
@given(states, times)
def test_pruning_twice_is_pruning_once_and_lets_nothing_go_that_lasts(
    state: State, now: datetime
) -> None:
    kept = pruned(state, now)
    assert pruned(kept, now) == kept
    assert kept.evictions == state.evictions
    assert {p for p in state.pauses if p.lasts(now)} <= set(kept.pauses)
    assert {c for c in state.cool_downs if now < c.until} <= set(kept.cool_downs)


@given(st.binary() | st.text().map(lambda text: text.encode(errors="surrogatepass")))
def test_any_bytes_are_a_problem_and_no_error(data: bytes) -> None:
    found = decode_state(data)
    assert found.state is None
    assert found.problem


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)  # what JSON can hold
json_values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None)
@given(
    state=states,
    changes=st.dictionaries(st.sampled_from(State.__struct_fields__), json_values, max_size=2),
    more=st.dictionaries(
        words.filter(lambda key: key not in State.__struct_fields__), json_values, max_size=2
    ),
)
def test_any_edit_of_a_memory_is_read_or_a_problem(
    state: State, changes: dict[str, Any], more: dict[str, Any]
) -> None:
    document = json.loads(encode_state(state))
    document["state"] |= more
    assert decode_state(json.dumps(document)) == (state, "")
    document["state"] |= changes
    found = decode_state(json.dumps(document))
    assert (found.state is None) == bool(found.problem)
    if found.state is not None:
        pruned(found.state, NOW)
