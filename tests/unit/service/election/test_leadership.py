import threading
from datetime import UTC, datetime
from socket import gethostname

import msgspec
import pytest
from structlog.testing import capture_logs

from desched.errors import LeaseError
from desched.lab.clock import VirtualClock
from desched.ports import LeaseRecord
from desched.service.election.leadership import (
    JITTER_RATIO,
    Leadership,
    LeadershipChange,
    LeaseTiming,
    own_identity,
)
from desched.service.process.clock import seconds_since_boot
from tests.fake_lease import FakeLease

TIMING = LeaseTiming(15, 10, 2)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
PATIENCE_SECONDS = 20


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def lease():
    """A lease that its last holder has released."""
    fake = FakeLease()
    fake.create(LeaseRecord("", 15, 3, LONG_AGO, LONG_AGO))
    return fake


@pytest.fixture
def replica(clock, lease):
    def start(identity="a", timing=TIMING):
        return Leadership(
            lease,
            identity,
            timing,
            now=clock.now,
            random=lambda: 0.0,
            seconds=clock.monotonic,
        )

    return start


def contend(clock, seconds, *replicas):
    """Each takes a step every retry period for so long."""
    for _ in range(int(seconds / TIMING.retry_period_seconds)):
        clock.advance(TIMING.retry_period_seconds)
        for each in replicas:
            each.step()


def test_before_its_first_look_a_replica_may_not_act(replica):
    a = replica()
    assert not a.may_act()
    assert a.why_not() == "the lease has not been requested yet"


def test_a_released_lease_is_taken_at_once_and_counts_as_a_change_of_hands(replica, lease, clock):
    a = replica("a")
    a.step()
    assert a.may_act()
    assert a.why_not() is None
    assert (a.holder, a.transitions) == ("a", 4)
    expected = LeaseRecord("a", 15, 4, clock.now(), clock.now(), lease.stored.version)
    assert lease.stored == expected


def test_a_renewal_changes_the_time_of_renewal_only(replica, lease, clock):
    a = replica("a")
    a.step()
    first = lease.stored
    clock.advance(2)
    a.step()
    renewed = msgspec.structs.replace(first, renewed_at=clock.now(), version=lease.stored.version)
    assert lease.stored == renewed
    assert lease.stored.version != first.version


def test_a_holder_that_renews_goes_on_and_the_other_waits(replica, clock):
    a, b = replica("a"), replica("b")
    contend(clock, 120, a, b)
    assert a.may_act()
    assert not b.may_act()
    assert b.why_not() == "a holds the lease"
    assert b.holder == "a"


def test_a_holder_that_cannot_renew_stops_at_the_deadline_counted_from_its_last_renewal(
    replica, lease, clock
):
    a = replica()
    a.step()
    lease.refuse()
    contend(clock, 8, a)
    assert a.seconds_left() == pytest.approx(2)
    clock.advance(1.9)
    assert a.may_act()
    clock.advance(0.1)
    assert not a.may_act()


def test_a_pause_of_the_whole_process_is_noticed_without_any_step(replica, clock):
    a = replica()
    a.step()
    clock.advance(10)
    assert not a.may_act()
    assert a.seconds_left() == 0
    assert a.why_not() == "the lease was not renewed in time"


def test_the_deadline_counts_from_the_start_of_a_slow_renewal(replica, lease, clock, mocker):
    a = replica()

    def slowly(record):
        stored = FakeLease.replace(lease, record)
        clock.advance(9)
        return stored

    mocker.patch.object(lease, "replace", side_effect=slowly)
    a.step()
    assert a.seconds_left() == pytest.approx(1)


def test_an_answer_that_comes_after_the_deadline_gains_nothing(replica, lease, clock, mocker):
    a = replica()

    def slowly():
        clock.advance(11)
        return lease.stored

    mocker.patch.object(lease, "read", side_effect=slowly)
    a.step()
    assert lease.stored.holder == "a"
    assert not a.may_act()


def test_an_abandoned_lease_is_taken_over_once_it_was_seen_unchanged_for_its_duration(
    replica, clock
):
    a, b = replica("a"), replica("b")
    a.step()
    clock.advance(5)
    b.step()  # sees it for the first time
    clock.advance(14.9)
    b.step()
    assert not b.may_act()
    clock.advance(0.1)
    b.step()
    assert b.may_act()
    assert (b.holder, b.transitions) == ("b", 5)


def test_how_old_a_renewal_claims_to_be_does_not_matter(replica, lease, clock):
    lease.replace(msgspec.structs.replace(lease.stored, holder="a", renewed_at=LONG_AGO))
    b = replica("b")
    contend(clock, 14, b)
    assert not b.may_act()


def test_any_write_to_the_lease_starts_the_wait_anew(replica, lease, clock):
    a, b = replica("a"), replica("b")
    a.step()
    contend(clock, 14, b)
    lease.touch()
    contend(clock, 14, b)
    assert not b.may_act()
    contend(clock, 4, b)
    assert b.may_act()


def test_a_holder_that_promised_a_longer_duration_is_given_it(replica, clock):
    a, b = replica("a", LeaseTiming(40, 30, 2)), replica("b")
    a.step()
    contend(clock, 40, b)
    assert not b.may_act()
    contend(clock, 2, b)
    assert b.may_act()


def test_who_finds_another_holder_stops_at_once(replica, lease, clock):
    a = replica("a")
    a.step()
    lease.replace(msgspec.structs.replace(lease.stored, holder="b"))
    clock.advance(2)
    a.step()
    assert not a.may_act()
    assert a.why_not() == "b holds the lease"


def test_a_write_in_between_makes_the_renewal_fail_and_the_next_one_succeeds(
    replica, lease, clock, mocker
):
    a = replica()
    a.step()

    def meddled():
        read = lease.stored
        lease.touch()
        return read

    mocker.patch.object(lease, "read", side_effect=meddled)
    clock.advance(2)
    a.step()
    assert a.seconds_left() == pytest.approx(8)
    mocker.stopall()
    a.step()
    assert a.seconds_left() == pytest.approx(10)


def test_a_write_whose_answer_was_lost_is_recognised_as_its_own(replica, lease, clock, mocker):
    a = replica("a")

    def lost(record):
        FakeLease.replace(lease, record)
        raise LeaseError("the deadline passed")

    mocker.patch.object(lease, "replace", side_effect=lost)
    a.step()
    assert not a.may_act()
    mocker.stopall()
    clock.advance(2)
    a.step()
    assert a.may_act()
    assert a.transitions == 4


def test_who_lost_the_lease_follows_and_may_gain_it_again(replica, clock):
    a, b = replica("a"), replica("b")
    a.step()
    contend(clock, 20, b)
    contend(clock, 4, a, b)
    assert (a.may_act(), b.may_act()) == (False, True)
    contend(clock, 20, a)
    assert (a.may_act(), b.may_act()) == (True, False)


# A lease that is not there


def test_the_first_lease_is_made_but_nobody_acts_before_its_duration_has_passed(
    replica, lease, clock
):
    lease.delete()
    a = replica("a")
    a.step()
    assert (lease.stored.holder, lease.stored.transitions) == ("a", 0)
    contend(clock, 14, a)
    assert not a.may_act()
    assert "no lease" in a.why_not()
    contend(clock, 2, a)
    assert a.may_act()


def test_a_lease_that_was_made_anew_is_not_released_before_its_duration_has_passed(replica, lease):
    a, b, c = replica("a"), replica("b"), replica("c")
    a.step()
    lease.delete()
    b.step()
    b.release()
    c.step()
    assert a.may_act()
    assert not c.may_act()


# Releasing


def test_a_released_lease_is_free_for_the_next_step_of_another(replica, lease, clock):
    a, b = replica("a"), replica("b")
    contend(clock, 4, a, b)
    a.release()
    assert not a.may_act()
    assert lease.stored.holder == ""
    b.step()
    assert b.may_act()
    assert b.transitions == 5


def test_only_its_own_lease_is_released(replica, lease, clock):
    a, b = replica("a"), replica("b")
    a.step()
    contend(clock, 20, b)
    a.release()
    assert lease.stored.holder == "b"


def test_who_cannot_release_acts_no_more_all_the_same(replica, lease):
    a = replica()
    a.step()
    lease.refuse()
    with capture_logs() as logs:
        a.release()
    assert not a.may_act()
    assert ("leadership.not_released", "connection refused") in [
        (line["event"], line.get("why")) for line in logs
    ]


# Telling


def test_gaining_and_losing_are_logged_and_published_once_each(replica, lease, clock):
    a = replica("a")
    told: list[LeadershipChange] = []
    a.on_change(told.append)
    with capture_logs() as logs:
        contend(clock, 6, a)
        lease.refuse("the API server answered 403")
        contend(clock, 14, a)
        lease.broken = None
        contend(clock, 6, a)
    assert told == [
        LeadershipChange(leading=True, holder="a", transitions=4),
        LeadershipChange(
            leading=False, holder="a", transitions=4, why="the API server answered 403"
        ),
        LeadershipChange(leading=True, holder="a", transitions=4),
    ]
    events = [line["event"] for line in logs if line["log_level"] != "debug"]
    assert events == [
        "leadership.gained",
        "leadership.renewal_failed",
        "leadership.lost",
        "leadership.gained",
    ]


def test_a_follower_logs_once_whom_it_follows(replica, clock):
    a, b = replica("a"), replica("b")
    a.step()
    with capture_logs() as logs:
        contend(clock, 10, a, b)
    observed = [line["holder"] for line in logs if line["event"] == "leadership.observed"]
    assert observed == ["a"]


def test_whatever_a_call_raises_is_a_failed_renewal(replica, lease, clock):
    a = replica()
    a.step()
    lease.broken = RuntimeError("a bug")
    with capture_logs() as logs:
        contend(clock, 20, a)
    assert not a.may_act()
    assert a.why_not() == "RuntimeError: a bug"
    assert any(line["event"] == "leadership.crashed" for line in logs)
    lease.broken = None
    contend(clock, 2, a)
    assert a.may_act()


def test_a_listener_that_raises_ends_nothing(replica, clock):
    a = replica()

    def listener(_):
        raise RuntimeError("a bug")

    a.on_change(listener)
    contend(clock, 6, a)
    assert a.may_act()


# The thread


def threaded(lease, retry_period_seconds=0.005, random=lambda: 0.0):
    timing = LeaseTiming(15, 10, retry_period_seconds)
    return Leadership(lease, "a", timing, now=lambda: LONG_AGO, random=random)


def test_the_thread_leads_meanwhile_and_releases_at_the_end(lease):
    a, leads = threaded(lease), threading.Event()
    a.on_change(lambda change: leads.set() if change.leading else None)
    with a.contend():
        assert leads.wait(PATIENCE_SECONDS)
        assert lease.stored.holder == "a"
        assert a.may_act()
    assert not a.may_act()
    assert lease.stored.holder == ""


def test_the_thread_survives_errors_of_every_kind(lease):
    tries, leads = [], threading.Event()

    class Shaky(FakeLease):
        def read(self):
            tries.append(1)
            if len(tries) <= 2:
                raise (LeaseError if len(tries) == 1 else RuntimeError)("no")
            return super().read()

    shaky = Shaky()
    shaky.stored = lease.stored
    a = threaded(shaky)
    a.on_change(lambda change: leads.set() if change.leading else None)
    with a.contend():
        assert leads.wait(PATIENCE_SECONDS)


def test_a_stop_does_not_wait_for_the_retry_period(lease):
    a = threaded(lease, retry_period_seconds=9)
    with a.contend():
        pass
    assert lease.stored.holder == ""


def test_pauses_are_shortened_by_chance_and_never_longer_than_the_retry_period(lease, mocker):
    a = threaded(lease, 2, random=mocker.Mock(side_effect=[0.0, 0.5, 0.999]))
    stop = mocker.patch.object(a, "_stop")
    stop.is_set.side_effect = [False, False, False, True]
    a.run()
    pauses = [call.args[0] for call in stop.wait.call_args_list]
    assert pauses == pytest.approx([2, 2 * (1 - JITTER_RATIO / 2), 2 * (1 - JITTER_RATIO * 0.999)])


# What it is made of


@pytest.mark.parametrize(
    ("duration", "deadline", "period"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (10, 15, 2)]
)
def test_a_timing_that_would_let_two_act_is_impossible(duration, deadline, period):
    with pytest.raises(ValueError, match="not duration > renew deadline > retry period > 0"):
        LeaseTiming(duration, deadline, period)


@pytest.mark.parametrize("timing", [TIMING, LeaseTiming(3, 2, 1)])
def test_one_failed_renewal_leaves_time_for_another(timing):
    renewal_seconds = 2 * timing.request_seconds
    assert renewal_seconds + timing.retry_period_seconds < timing.renew_deadline_seconds


def test_each_process_has_an_identity_of_its_own_that_begins_with_its_pod():
    first, second = own_identity("desched-x1"), own_identity("desched-x1")
    assert first != second
    assert first.startswith("desched-x1_")


def test_outside_of_a_pod_the_identity_begins_with_the_machine():
    assert own_identity(None).startswith(f"{gethostname()}_")


def test_the_clock_of_the_fence_does_not_run_backwards():
    first = seconds_since_boot()
    assert seconds_since_boot() >= first
