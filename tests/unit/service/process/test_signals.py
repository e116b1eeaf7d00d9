import signal
import subprocess
import sys

import pytest

from desched.service.process.signals import stop_on_signals

SERVICE = """
import sys
from desched.model.report import Mode
from desched.service.process.clock import SystemClock
from desched.service.process.health import Health
from desched.service.cycles.loop import ServiceLoop
from desched.service.telemetry.metrics import ServiceMetrics
from desched.service.cycles.schedule import every
from desched.service.process.signals import stop_on_signals

clock = SystemClock()

def cycle():
    for eviction in range(1000):
        if clock.stopping():
            print("not begun", flush=True)
            return
        print("began", eviction, flush=True)
        clock.wait(60)
        print("ended", eviction, flush=True)

with stop_on_signals(clock.stop):
    health = Health(clock.monotonic, 600)
    ServiceLoop(cycle, every(3600), clock, health, ServiceMetrics(Mode.EVICT)).run()
"""

STUBBORN = """
import time
from desched.service.process.signals import stop_on_signals

with stop_on_signals(lambda: print("asked", flush=True)):
    print("ready", flush=True)
    while True:
        time.sleep(60)
"""


def start(program):
    return subprocess.Popen(  # noqa: S603  (our own interpreter and program)
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_eviction_end_begins_no_other_and_exits_0(number):
    with start(SERVICE) as process:
        assert process.stdout.readline() == "began 0\n"
        process.send_signal(number)
        rest, _ = process.communicate(timeout=120)
    assert rest == "ended 0\nnot begun\n"
    assert process.returncode == 0


def test_a_second_signal_ends_the_process_at_once():
    with start(STUBBORN) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == -signal.SIGTERM


def test_the_handlers_of_before_are_back_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
