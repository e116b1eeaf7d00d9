"""What pause and resume do to a state that others write too."""

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timedelta

import msgspec
import pytest

from desched.bootstrap.interventions import ATTEMPTS, Change, Intervention
from desched.commands.pause import pausing
from desched.commands.resume import resuming
from desched.errors import ConfigurationError, ObservationError
from desched.lab.clock import VirtualClock
from desched.model.state import CoolDown, NodeRounds, Pause, PauseScope, State
from tests.builders import NOW
from tests.simulated_state_store import SimulatedConfigMap, SimulatedStateStore

HOUR = timedelta(hours=1)
FOLLOWED = "Evictions in flight are followed; no new one starts.\n"
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

    def run(self, change: Change) -> str:
        """Apply the change; returns what it printed."""
        self.stdout.truncate(0)
        self.stdout.seek(0)
        clock = self.clock
        store = self.store()
        with redirect_stdout(self.stdout), redirect_stderr(self.stderr):
            Intervention(store, clock.now, clock.wait, "alice").make(change)
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
    assert office.run(pausing({})) == (
        f"Paused everything until it is resumed (`desched resume`). {FOLLOWED}"
    )
    assert office.state.pauses == (pause(PauseScope.EVERYTHING),)
    assert office.state.since == REMEMBERED.since


def test_a_pause_may_have_an_end_and_a_reason():
    office = Office()
    said = office.run(pausing({"for": "1h30m", "because": "storage\n\x1b[2J \udc80"}))
    assert said == f"Paused everything until 13:30 UTC (1 h 30 min). {FOLLOWED}"
    (paused,) = office.state.pauses
    assert paused.until == NOW + 1.5 * HOUR
    assert paused.why == "storage\\n\\x1b[2J \\udc80"


@pytest.mark.parametrize(
    ("flag", "written", "paused"),
    [
        ("workload", "shop/web", (PauseScope.WORKLOAD, "shop/web")),
        ("workload", "Deployment shop/web", (PauseScope.WORKLOAD, "shop/web")),
        ("workload", " StatefulSet  shop/web ", (PauseScope.WORKLOAD, "shop/web")),
        ("namespace", "shop", (PauseScope.NAMESPACE, "shop")),
        ("pool", "gpu", (PauseScope.POOL, "gpu")),
    ],
)
def test_a_part_of_the_cluster_is_paused_by_its_name(flag, written, paused):
    office = Office()
    said = office.run(pausing({flag: written}))
    assert f"Paused {flag} {paused[1]} until" in said
    assert f"`desched resume --{flag} {paused[1]}`" in said
    assert office.state.pauses == (pause(*paused),)


def test_a_pause_before_the_first_cycle_starts_the_state():
    office = Office(state=None)
    office.run(pausing({}))
    assert office.state == State(since=NOW, pauses=(pause(PauseScope.EVERYTHING),))


def test_a_damaged_state_is_reported_and_does_not_prevent_a_pause():
    office = Office()
    office.place.write("{")
    office.run(pausing({}))
    assert "damaged" in office.stderr.getvalue()
    assert office.state.pauses == (pause(PauseScope.EVERYTHING),)
    assert office.place.set_aside == "{"


def test_what_can_no_longer_matter_goes_with_the_next_write():
    over = pause(PauseScope.POOL, "gpu", until=NOW - HOUR)
    office = Office(msgspec.structs.replace(REMEMBERED, pauses=(over,)))
    office.run(pausing({}))
    assert office.state.pauses == (pause(PauseScope.EVERYTHING),)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"for": "2"}, '--for: "2" has no unit'),
        ({"for": "0s"}, "--for.*omit it"),
        ({"for": "9000h"}, "366 days"),
        ({"workload": "web"}, r"--workload.*shop/web"),
        ({"workload": "shop/"}, "--workload"),
        ({"workload": "a/b/c"}, "--workload"),
        ({"workload": "Shop/Web"}, "--workload"),
        ({"pool": " "}, "--pool"),
        ({"pool": "gpu", "workload": "shop/web"}, "name only one of them"),
        ({"pool": "gpu", "namespace": "shop"}, "--namespace and --pool: name only one of them"),
        ({"namespace": "shop/web"}, "is not a namespace"),
    ],
)
def test_invalid_flags_are_refused_before_any_request(flags, said):
    with pytest.raises(ConfigurationError, match=said):
        pausing(flags)


# --- resume ----------------------------------------------------------------------------------


def test_a_resume_ends_its_pause_and_lists_what_is_still_paused():
    pool = pause(PauseScope.POOL, "gpu", until=NOW + HOUR)
    office = Office(
        msgspec.structs.replace(REMEMBERED, pauses=(pause(PauseScope.EVERYTHING), pool))
    )
    assert office.run(resuming({})).splitlines() == [
        "Ended the pause of everything, started by alice 0 s ago (12:00 UTC).",
        "Still paused: pool gpu ends in 1 h (13:00 UTC) (started by alice 0 s ago (12:00 UTC)).",
    ]
    assert office.state.pauses == (pool,)


def test_a_resume_without_a_pause_reports_it_and_writes_nothing():
    office = Office()
    version = office.place.version
    assert office.run(resuming({"pool": "gpu"})) == "There was no pause of pool gpu.\n"
    assert office.run(resuming({"all": ""})) == "There was no pause.\n"
    assert office.place.version == version


def test_all_ends_pauses_cool_downs_of_workloads_and_nodes():
    state = msgspec.structs.replace(
        REMEMBERED,
        pauses=(pause(PauseScope.POOL, "gpu", by=""),),
        cool_downs=(CoolDown("u", "Deployment shop/web", NOW + HOUR),),
        nodes=(NodeRounds("n1", 3, NOW, NOW + HOUR),),
    )
    office = Office(state)
    assert office.run(resuming({"all": ""})).splitlines() == [
        "Ended the pause of pool gpu, started automatically 0 s ago (12:00 UTC).",
        "Ended the cool-down of Deployment shop/web.",
        "Reset the rounds of n1.",
    ]
    assert office.state == REMEMBERED


def test_all_is_not_narrowed():
    with pytest.raises(ConfigurationError, match="--all"):
        resuming({"all": "", "pool": "gpu"})


# --- others write too ------------------------------------------------------------------------


def test_a_concurrent_change_is_kept_beside_the_pause():
    office = Office()
    theirs = msgspec.structs.replace(REMEMBERED, pauses=(pause(PauseScope.POOL, "gpu"),))
    changes = iter([theirs])

    def once() -> None:
        for state in changes:
            other = office.store()
            other.load()
            other.save(state)

    office.clock = BusyClock(once)
    office.run(pausing({}))
    assert set(office.state.pauses) == {
        pause(PauseScope.POOL, "gpu"),
        Pause(PauseScope.EVERYTHING, office.clock.now(), None, by="alice"),
    }


def test_if_others_write_during_every_attempt_it_gives_up_with_an_error():
    office = Office()
    office.clock = BusyClock(lambda: office.place.write(office.place.text))
    before = office.place.version
    with pytest.raises(ObservationError, match="nothing was written; run the command again"):
        office.run(pausing({}))
    assert office.place.version == before + ATTEMPTS
    assert office.state == REMEMBERED
