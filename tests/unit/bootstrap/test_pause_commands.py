"""What people's orders do to a state that others write too."""

import io
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
import pytest

from desched.bootstrap.pause_commands import ATTEMPTS, OperatorContext, pausing, resuming
from desched.errors import ConfigurationError, ObservationError
from desched.model.state import CoolDown, NodeRounds, Pause, PauseScope, State
from desched.simulation.clock import VirtualClock
from tests.builders import NOW
from tests.simulated_state_store import SimulatedConfigMap, SimulatedStateStore

HOUR = timedelta(hours=1)
GOES_ON = "Evictions under way are finished; no new one begins.\n"
REMEMBERED = State(since=NOW - HOUR)


class BusyClock(VirtualClock):
    """A clock whose every reading gives somebody else the time to write."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(NOW)
        self._meanwhile = meanwhile

    def now(self) -> datetime:
        self._meanwhile()
        return super().now()


class Office:
    """A state, and a person who gives commands; what they print is kept."""

    def __init__(self, state: State | None = REMEMBERED) -> None:
        self.place = SimulatedConfigMap()
        self.clock = VirtualClock(NOW)
        self.stdout, self.stderr = io.StringIO(), io.StringIO()
        if state is not None:
            self.store().save(state)

    def store(self) -> SimulatedStateStore:
        return SimulatedStateStore(self.place)

    def give(self, order: Callable[[OperatorContext], None]) -> str:
        """The order is carried out; returns what it printed."""
        self.stdout.truncate(0)
        self.stdout.seek(0)
        order(OperatorContext(self.store(), self.clock, "alice", self.stdout, self.stderr))
        return self.stdout.getvalue()

    @property
    def state(self) -> State:
        found = self.store().load().state
        assert found is not None
        return found


def pause(scope: PauseScope, subject: str = "", until=None, by: str = "alice") -> Pause:
    return Pause(scope, NOW, until, subject, by=by)


# --- pause -----------------------------------------------------------------------------------


def test_without_flags_everything_is_paused_until_it_is_resumed():
    office = Office()
    assert office.give(pausing({})) == (
        f"Paused everything until it is resumed (`desched resume`). {GOES_ON}"
    )
    assert office.state.pauses == (pause(PauseScope.EVERYTHING),)
    assert office.state.since == REMEMBERED.since


def test_a_pause_may_have_an_end_and_a_reason():
    office = Office()
    said = office.give(pausing({"for": "1h30m", "because": "storage\n\x1b[2J \udc80"}))
    assert said == f"Paused everything until 13:30 UTC (1 h 30 min). {GOES_ON}"
    (paused,) = office.state.pauses
    assert paused.until == NOW + 1.5 * HOUR
    assert paused.why == "storage\\n\\x1b[2J \\udc80"


@pytest.mark.parametrize("written", ["shop/web", "Deployment shop/web", " StatefulSet  shop/web "])
def test_a_workload_is_paused_by_its_namespace_and_name(written):
    office = Office()
    said = office.give(pausing({"workload": written}))
    assert "Paused workload shop/web until" in said
    assert "`desched resume --workload shop/web`" in said
    assert office.state.pauses == (pause(PauseScope.WORKLOAD, "shop/web"),)


def test_a_pool_is_paused_by_its_name():
    office = Office()
    assert "Paused pool gpu" in office.give(pausing({"pool": "gpu"}))
    assert office.state.pauses == (pause(PauseScope.POOL, "gpu"),)


def test_a_pause_may_come_before_the_first_cycle_and_remembers_since_when():
    office = Office(state=None)
    office.give(pausing({}))
    assert office.state == State(since=NOW, pauses=(pause(PauseScope.EVERYTHING),))


def test_a_damaged_memory_is_told_and_does_not_keep_a_pause_from_holding():
    office = Office()
    office.place.write("{")
    office.give(pausing({}))
    assert "damaged" in office.stderr.getvalue()
    assert office.state.pauses == (pause(PauseScope.EVERYTHING),)
    assert office.place.set_aside == "{"


def test_what_can_no_longer_matter_goes_with_the_next_write():
    over = pause(PauseScope.POOL, "gpu", until=NOW - HOUR)
    office = Office(msgspec.structs.replace(REMEMBERED, pauses=(over,)))
    office.give(pausing({}))
    assert office.state.pauses == (pause(PauseScope.EVERYTHING),)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"for": "2"}, '--for: "2" has no unit'),
        ({"for": "0s"}, "--for.*leave it out"),
        ({"for": "9000h"}, "366 days"),
        ({"workload": "web"}, r"--workload.*shop/web"),
        ({"workload": "shop/"}, "--workload"),
        ({"workload": "a/b/c"}, "--workload"),
        ({"workload": "Shop/Web"}, "--workload"),
        ({"pool": " "}, "--pool"),
        ({"pool": "gpu", "workload": "shop/web"}, "name one of them"),
    ],
)
def test_flags_that_cannot_be_understood_are_refused_before_anything_is_asked(flags, said):
    with pytest.raises(ConfigurationError, match=said):
        pausing(flags)


# --- resume ----------------------------------------------------------------------------------


def test_a_resume_ends_its_pause_and_says_what_is_still_paused():
    pool = pause(PauseScope.POOL, "gpu", until=NOW + HOUR)
    office = Office(
        msgspec.structs.replace(REMEMBERED, pauses=(pause(PauseScope.EVERYTHING), pool))
    )
    assert office.give(resuming({})).splitlines() == [
        "Ended the pause of everything, started by alice 0 s ago (12:00 UTC).",
        "Still paused: pool gpu ends in 1 h (13:00 UTC) (started by alice 0 s ago (12:00 UTC)).",
    ]
    assert office.state.pauses == (pool,)


def test_a_resume_of_what_is_not_paused_says_so_and_writes_nothing():
    office = Office()
    version = office.place.version
    assert office.give(resuming({"pool": "gpu"})) == "Nothing was paused as pool gpu.\n"
    assert office.give(resuming({"all": ""})) == "Nothing was paused.\n"
    assert office.place.version == version


def test_all_ends_pauses_cool_downs_of_workloads_and_nodes():
    state = msgspec.structs.replace(
        REMEMBERED,
        pauses=(pause(PauseScope.POOL, "gpu", by=""),),
        cool_downs=(CoolDown("u", "Deployment shop/web", NOW + HOUR),),
        nodes=(NodeRounds("n1", 3, NOW, NOW + HOUR),),
    )
    office = Office(state)
    assert office.give(resuming({"all": ""})).splitlines() == [
        "Ended the pause of pool gpu, started automatically 0 s ago (12:00 UTC).",
        "Ended the cool-down of Deployment shop/web.",
        "Forgot the rounds of n1.",
    ]
    assert office.state == REMEMBERED


def test_all_is_not_narrowed():
    with pytest.raises(ConfigurationError, match="--all"):
        resuming({"all": "", "pool": "gpu"})


# --- others write too ------------------------------------------------------------------------


def test_a_change_that_gets_in_between_is_kept_and_the_pause_holds_as_well():
    office = Office()
    theirs = msgspec.structs.replace(REMEMBERED, pauses=(pause(PauseScope.POOL, "gpu"),))
    changes = iter([theirs])

    def once() -> None:
        for state in changes:
            other = office.store()
            other.load()
            other.save(state)

    office.clock = BusyClock(once)
    office.give(pausing({}))
    assert set(office.state.pauses) == {
        pause(PauseScope.POOL, "gpu"),
        Pause(PauseScope.EVERYTHING, office.clock.now(), None, by="alice"),
    }


def test_if_others_get_in_between_every_time_it_gives_up_and_says_so():
    office = Office()
    office.clock = BusyClock(lambda: office.place.write(office.place.text))
    before = office.place.version
    with pytest.raises(ObservationError, match="nothing was written; give the command again"):
        office.give(pausing({}))
    assert office.place.version == before + ATTEMPTS
    assert office.state == REMEMBERED
