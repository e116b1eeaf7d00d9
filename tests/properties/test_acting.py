"""What must hold while a plan is carried out, whatever the API answers and whatever happens."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from desched.eviction import fresh_looks
from desched.eviction.fresh_looks import LONGEST_AGE_SECONDS
from desched.eviction.pacing import BURST
from desched.eviction.requests import MOST_TRIES
from desched.model.report import EvictionVerdict
from tests.unit.eviction.stage import (
    BLOCKED,
    FORBIDDEN,
    LOST,
    OK,
    TAKEN_OVER,
    Deed,
    Stage,
    throttled,
)

LATER = 10_000.0
"""Longer than any deadline: never."""

ROUNDING = 0.01

MAY_HAVE_BEGUN = {EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER, EvictionVerdict.UNKNOWN}

ANSWERS = st.sampled_from(
    [OK, BLOCKED, BLOCKED, BLOCKED, TAKEN_OVER, FORBIDDEN, throttled(3.0), throttled(None)]
)


def _allowed(opens: float, now: float, most: int = 1) -> int:
    return most if now >= opens else 0


WORKLOADS = ("u in 1", "v in 1", "w in 2", "x in 3", "y in 3", "z in 4")
"""In their namespaces."""


class Show:
    """A stage on which everything that can happen has been drawn."""

    def __init__(self, draw: st.DrawFn) -> None:
        count = draw(st.integers(0, 9))
        self.per_minute = draw(st.sampled_from([None, 1, 4, 20]))
        self.deadline = draw(st.sampled_from([1, 60, 240]))
        moves = (
            f"p{i}@{draw(st.sampled_from('mnop'))} of {draw(st.sampled_from(WORKLOADS))}"
            for i in range(count)
        )
        self.stage = Stage(*moves, per_minute=self.per_minute, deadline_seconds=self.deadline)
        for i in range(count):
            script = draw(st.lists(ANSWERS, max_size=9))
            self.stage.answers[f"p{i}"] = script + [LOST] * (draw(st.integers(0, 29)) == 0)
        for app in draw(st.sets(st.sampled_from("uvwxyz"))):
            opens = draw(st.sampled_from([0.0, 0.0, 7.0, 50.0, LATER]))
            self.stage.allowed[app] = partial(_allowed, opens)
        self.stage.spends = draw(st.booleans())
        self.stage.covers_all = draw(st.booleans()) and len(self.stage.allowed) == 1
        self.fenced_at = draw(st.sampled_from([LATER, LATER, LATER, 0.0, 2.5, 40.0]))
        self.stage.fence = lambda: self.stage.clock.monotonic() < self.fenced_at
        self.stopped_at = draw(st.sampled_from([LATER, LATER, LATER, 2.5, 40.0]))
        self.stage.clock.call_later(self.stopped_at, self.stage.clock.stop)
        if draw(st.integers(0, 9)) == 0:
            self.stage.store_fails_for = f"p{draw(st.integers(0, 9))}"
        slow = st.sampled_from([0.0, 0.0, 0.2, 6.0])
        self.stage.seconds_by_deed = {
            what: draw(slow) for what in ("looked", "remembered", "asked", "announced")
        }
        self.stage.run()

    @property
    def longest_wait(self) -> float:
        """From a look to its request."""
        seconds = self.stage.seconds_by_deed
        return LONGEST_AGE_SECONDS + seconds["looked"] + seconds["remembered"]

    @property
    def asked(self) -> list[Deed]:
        """All requests, in their order."""
        return [deed for deed in self.stage.log if deed.what == "asked"]

    def bound_pairs(self) -> Iterator[tuple[str, str]]:
        """Pods of one node or one workload, the earlier of the plan first."""
        for one, other in combinations(self.stage.plan.evictions, 2):
            if one.node == other.node or one.workload_uid == other.workload_uid:
                yield one.pod.name, other.pod.name


@st.composite
def shows(draw: st.DrawFn) -> Show:
    return Show(draw)


@given(shows())
def test_acting_keeps_to_its_limits(show: Show) -> None:
    times = [deed.at for deed in show.asked]
    pods = [deed.pod for deed in show.asked]

    assert all(pods.count(pod) <= MOST_TRIES for pod in pods)
    assert all(at < min(show.deadline, show.fenced_at, show.stopped_at) for at in times)
    if show.per_minute is not None:
        most = show.per_minute + min(BURST, show.per_minute)
        assert all(
            sum(start <= at < start + 60 - ROUNDING for at in times) <= most for start in times
        )


@given(shows())
def test_what_is_remembered_is_exactly_what_may_have_begun(show: Show) -> None:
    begun = {o.pod.name for o in show.stage.outcomes if o.verdict in MAY_HAVE_BEGUN}
    assert show.stage.remembered == begun


@given(shows())
def test_the_order_of_the_plan_holds_where_places_depend_on_it(show: Show) -> None:
    pods = [deed.pod for deed in show.asked]
    for first, second in show.bound_pairs():
        if second in pods:
            assert first not in pods[pods.index(second) :]


@given(shows())
def test_each_request_follows_a_fresh_look_that_saw_all_earlier_ones_of_its_place(
    show: Show,
) -> None:
    evictions = {each.pod.name: each for each in show.stage.plan.evictions}
    unused: dict[str, float] = {}
    for at, what, name in show.stage.log:
        if what == "looked":
            unused[name] = at
        if what == "asked":
            assert at - unused.pop(name) <= show.longest_wait + ROUNDING
            asked = evictions[name]
            for other in [*unused]:
                one = evictions[other]
                if one.node == asked.node or one.pod.namespace == asked.pod.namespace:
                    del unused[other]


MOVES = st.lists(st.tuples(st.sampled_from("mnop"), st.sampled_from(WORKLOADS)), max_size=9)
SPARE = st.dictionaries(st.sampled_from("uvwxyz"), st.tuples(st.integers(0, 3), st.integers(0, 50)))


def acted(
    moves: Sequence[tuple[str, str]],
    spare: Mapping[str, tuple[int, int]],
    per_minute: int | None,
    unreadable: str,
) -> tuple[list[str], list[str]]:
    """The verdicts and the requests where evictions use up budgets and replicas."""
    names = (f"p{i}@{node} of {workload}" for i, (node, workload) in enumerate(moves))
    stage = Stage(*names, per_minute=per_minute)
    stage.spends = True
    stage.unreadable = unreadable
    for app, (allowed, opens) in spare.items():
        stage.allowed[app] = partial(_allowed, opens, most=allowed)
    return stage.run(), stage.asked


@given(MOVES, SPARE, st.sampled_from([None, 4, 20]), st.sampled_from(["", "", "p2", "p5"]))
def test_looks_side_by_side_lead_to_the_same_requests_as_one_look_at_a_time(
    moves: Sequence[tuple[str, str]],
    spare: Mapping[str, tuple[int, int]],
    per_minute: int | None,
    unreadable: str,
) -> None:
    with mock.patch.object(fresh_looks, "MOST_LOOKS", 1):
        one_at_a_time = acted(moves, spare, per_minute, unreadable)
    assert acted(moves, spare, per_minute, unreadable) == one_at_a_time


@given(shows())
def test_an_answer_is_not_overruled_by_a_further_request(show: Show) -> None:
    pods = [deed.pod for deed in show.asked]
    for outcome in show.stage.outcomes:
        name = outcome.pod.name
        if outcome.verdict in MAY_HAVE_BEGUN:
            assert name in pods
        if outcome.verdict in {EvictionVerdict.NOT_BEGUN, EvictionVerdict.GONE}:
            assert name not in pods
        if outcome.verdict is EvictionVerdict.UNKNOWN:
            assert pods[-1] == name


@given(shows())
def test_acting_ends_with_the_deadline(show: Show) -> None:
    slowest = sum(show.stage.seconds_by_deed.values())
    assert show.stage.clock.monotonic() <= show.deadline + slowest
