"""However replicas, network and clocks misbehave, no two replicas may act at the same time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from threading import Semaphore, Thread

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from desched.errors import LeaseError
from desched.ports import LeaseRecord
from desched.service.election.leadership import Leadership, LeaseTiming
from tests.fake_lease import FakeLease

TICK_SECONDS = 0.5
TIMINGS = (LeaseTiming(15, 14, 1), LeaseTiming(20, 14, 3))


class Fate(Enum):
    """What becomes of a request, or of its answer, that is under way."""

    ARRIVES = auto()
    IS_LOST = auto()
    COMES_LATE = auto()  # a write that the server carries out after the sender has given up


class Happening(Enum):
    """What processes, people and clocks do."""

    KILLED = auto()
    STOPPED = auto()
    LEASE_DELETED = auto()
    LEASE_LABELLED = auto()
    WALL_CLOCK_JUMPED = auto()


PLACES = st.integers(0, 1)
FATES = st.sampled_from([Fate.ARRIVES] * 4 + [Fate.IS_LOST, Fate.COMES_LATE])


class Killed(BaseException):
    """As SIGKILL: no handler sees it."""


class Replica:
    """One process with its own clocks; it stands still wherever a request or an answer travels.

    Its thread and the test's take turns, so that every order of events is possible and repeatable.
    It is its own Lease port: the network between it and the stored lease.
    """

    def __init__(self, world: "Replicas", name: str, timing: LeaseTiming, offset: float) -> None:
        self._world = world
        self._fate = Fate.ARRIVES
        self._resumed, self._stands_still = Semaphore(0), Semaphore(0)
        self._killed = False
        self._crash: BaseException | None = None
        self.idle = True
        self.leaving = False
        self.leadership = Leadership(
            self,
            name,
            timing,
            now=lambda: world.wall_clock,
            random=lambda: 0.0,
            seconds=lambda: world.elapsed_seconds + offset,
        )
        self._thread = Thread(target=self._live, daemon=True)
        self._thread.start()
        self._stands_still.acquire()

    def resume(self, fate: Fate = Fate.ARRIVES) -> None:
        """Let it run on until it waits for the network again, or has nothing to do."""
        self._fate = fate
        self._resumed.release()
        self._stands_still.acquire()
        if self._crash is not None:
            raise self._crash

    def kill(self) -> None:
        self._killed = True
        self._resumed.release()
        self._thread.join()

    def read(self) -> LeaseRecord | None:
        return self._travel(self._world.lease.read)

    def create(self, record: LeaseRecord) -> LeaseRecord | None:
        return self._travel(lambda: self._world.lease.create(record), writes=True)

    def replace(self, record: LeaseRecord) -> LeaseRecord | None:
        return self._travel(lambda: self._world.lease.replace(record), writes=True)

    def _travel(
        self, request: Callable[[], LeaseRecord | None], *, writes: bool = False
    ) -> LeaseRecord | None:
        fate = self._stand_still()
        if fate is Fate.COMES_LATE and writes:
            self._world.late.append(request)
        if fate is not Fate.ARRIVES:
            raise LeaseError("the request was lost")
        answer = request()
        if self._stand_still() is not Fate.ARRIVES:
            raise LeaseError("the answer was lost")
        return answer

    def _stand_still(self) -> Fate:
        self._stands_still.release()
        self._resumed.acquire()
        if self._killed:
            raise Killed
        return self._fate

    def _live(self) -> None:
        try:
            while True:
                self.idle = True
                self._stand_still()
                self.idle = False
                if self.leaving:
                    self.leadership.release()
                else:
                    self.leadership.step()
        except Killed:
            return
        except BaseException as error:  # noqa: BLE001 (the test that waits for it has to know)
            self._crash = error
            self._stands_still.release()


class Replicas(RuleBasedStateMachine):
    """Two replicas with timings of their own, and one stored lease."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = FakeLease()
        self.late: list[Callable[[], LeaseRecord | None]] = []
        self.elapsed_seconds = 0.0
        self.wall_clock = datetime(2026, 1, 10, 8, tzinfo=UTC)
        self._started = 0
        self._replicas = [self._start(destination) for destination in range(2)]

    def _start(self, destination: int) -> Replica:
        self._started += 1
        offset = 1000.0 * self._started
        return Replica(self, f"replica-{self._started}", TIMINGS[destination], offset)

    @rule(destination=PLACES, fates=st.lists(FATES, min_size=1, max_size=6))
    def a_replica_runs_on(self, destination: int, fates: list[Fate]) -> None:
        for fate in fates:
            self._replicas[destination].resume(fate)
            self.at_most_one_may_act()

    @rule(destinations=st.sets(PLACES, min_size=1), ticks=st.integers(1, 50))
    def some_replicas_run_without_trouble(self, destinations: set[int], ticks: int) -> None:
        for _ in range(ticks):
            for destination in sorted(destinations):
                self._finish_step(self._replicas[destination])
            self.time_passes(2)

    @rule(ticks=st.integers(1, 40))
    def time_passes(self, ticks: int) -> None:
        for _ in range(ticks):
            self.elapsed_seconds += TICK_SECONDS
            self.at_most_one_may_act()

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def a_late_write_arrives(self, data: st.DataObject) -> None:
        self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))()

    @rule(
        destination=PLACES,
        happening=st.sampled_from(Happening),
        jump_seconds=st.integers(-9999, 9999),
    )
    def something_happens(self, destination: int, happening: Happening, jump_seconds: int) -> None:
        match happening:
            case Happening.KILLED:
                self._restart(destination)
            case Happening.STOPPED:
                self._replicas[destination].leaving = True
            case Happening.LEASE_DELETED:
                self.lease.delete()
            case Happening.LEASE_LABELLED:
                self.lease.touch()
            case Happening.WALL_CLOCK_JUMPED:
                self.wall_clock += timedelta(seconds=jump_seconds)

    @invariant()
    def at_most_one_may_act(self) -> None:
        assert sum(replica.leadership.may_act() for replica in self._replicas) <= 1

    def teardown(self) -> None:
        try:
            self._someone_leads_once_all_is_well()
        finally:
            for replica in self._replicas:
                replica.kill()

    def _someone_leads_once_all_is_well(self) -> None:
        for destination, replica in enumerate(self._replicas):
            if replica.leaving:
                self._restart(destination)
        self.some_replicas_run_without_trouble({0, 1}, 45)
        assert any(replica.leadership.may_act() for replica in self._replicas)

    def _finish_step(self, replica: Replica) -> None:
        replica.resume()
        while not replica.idle:
            replica.resume()
            self.at_most_one_may_act()

    def _restart(self, destination: int) -> None:
        self._replicas[destination].kill()
        self._replicas[destination] = self._start(destination)


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(
    deadline=None, max_examples=2 * settings().max_examples, stateful_step_count=30
)
