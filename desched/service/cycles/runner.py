"""Runs one cycle with the current policy and state, and passes the report on."""

import threading
from collections.abc import Callable, Sequence

from desched.cycle import run_cycle
from desched.cycle_report import CycleInfo
from desched.decision import Decision
from desched.errors import ConfigurationError, ObservationError, ObservationSource
from desched.model.plan import HoldReason
from desched.model.report import CycleReport
from desched.model.state import PolicyEdit
from desched.model.text import shortened
from desched.ports import World
from desched.service.inputs.policy_file import PolicyFile, PolicyReading
from desched.service.inputs.state_keeper import StateKeeper

ReportSink = Callable[[CycleReport], None]
DecisionListener = Callable[[Decision], None]
PolicyListener = Callable[[PolicyReading], None]


MOST_CHANGES = 20
"""Of an edit that the state keeps."""


class CycleRunner:
    """Cycles, one after the other; each hands its state to the next.

    `info` goes into their reports, which are numbered from 1 on.
    """

    def __init__(
        self, world: World, policy_file: PolicyFile, state: StateKeeper, info: CycleInfo
    ) -> None:
        self._world = world
        self._policy_file = policy_file
        self._state = state
        self._info = info._replace(number=0)
        self._sinks: tuple[ReportSink, ...] = ()
        self._listeners: tuple[PolicyListener, ...] = ()
        self._deciding: tuple[DecisionListener, ...] = ()
        self._at_work = threading.Lock()

    def on_report(self, *sinks: ReportSink) -> None:
        """Call these as well with each report."""
        self._sinks += sinks

    def on_decision(self, *listeners: DecisionListener) -> None:
        """Call these as well with the decision of each cycle that ends with a report."""
        self._deciding += listeners

    def on_policy(self, *listeners: PolicyListener) -> None:
        """Call these as well with the policy of each cycle, news or not, and with each edit."""
        self._listeners += listeners

    def run(self) -> CycleReport:
        """Run one cycle.

        Raises:
            ObservationError: the cluster or its load could not be read.
            ConfigurationError: there is no valid policy.
        """
        with self._at_work:
            self._info = self._info._replace(number=self._info.number + 1)
            reading = self._policy_file.read()
            try:
                report = self._run_with(reading)
            except ConfigurationError as error:
                reading = self._policy_file.refuse(reading.policy, error)
                report = self._run_with(reading)
            except ObservationError as error:
                if error.source is ObservationSource.PROMETHEUS:
                    self._state.write_skipped(str(error))
                raise
            finally:
                self._publish(reading)
            self._policy_file.accept(reading)
            for sink in self._sinks:
                sink(report)
            return report

    def read_edit(self) -> None:
        """Between cycles, pass on an edit of the policy file that the next cycle will use.

        While a cycle runs, nothing is read: its own policy is in force until it ends.
        """
        if not self._at_work.acquire(blocking=False):
            return
        try:
            reading = self._policy_file.read_edit()
            if reading is not None:
                self._publish(reading)
        finally:
            self._at_work.release()

    def _publish(self, reading: PolicyReading) -> None:
        reading = self._policy_file.mark_news(reading)
        if reading.changes:
            edit = PolicyEdit(self._world.clock.now(), _bounded(reading.changes))
            self._info = self._info._replace(edit=edit)
        for listen in self._listeners:
            listen(reading)

    def _run_with(self, reading: PolicyReading) -> CycleReport:
        policy, info = reading.policy, self._info._replace(refused_edit=reading.problem)
        state = self._state.load(policy)
        report, decision = run_cycle(self._world, policy, state, info, self._state.write)
        if report.plan.hold is not HoldReason.CLOCKS_DIFFER:  # pruning would use the wrong time
            self._state.write_last(report.state)
        for listen in self._deciding:
            listen(decision)
        return report


def _bounded(changes: Sequence[str]) -> tuple[str, ...]:
    kept = tuple(map(shortened, changes[:MOST_CHANGES]))
    more = len(changes) - len(kept)
    return (*kept, f"and {more} more") if more else kept
