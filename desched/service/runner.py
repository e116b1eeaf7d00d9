"""Runs one cycle: the policy as it is now, the five words, and the report to everyone."""

from collections.abc import Callable

from desched.cycle import CycleContext, run_cycle
from desched.errors import ConfigurationError
from desched.model.memory import Memory
from desched.model.report import CycleReport, Mode
from desched.policy.policy import Policy
from desched.ports import World
from desched.service.policy_file import PolicyFile, PolicyReading

ReportSink = Callable[[CycleReport], None]
PolicyListener = Callable[[PolicyReading], None]


class CycleRunner:
    """Cycles, one after the other; each hands its memory to the next."""

    def __init__(
        self,
        world: World,
        policy_file: PolicyFile,
        mode: Mode,
        target: str,
        memory: Memory | None = None,
    ) -> None:
        self._world = world
        self._policy_file = policy_file
        self._mode = mode
        self._target = target
        self._sinks: tuple[ReportSink, ...] = ()
        self._listeners: tuple[PolicyListener, ...] = ()
        self._memory = memory or Memory()
        self._cycles = 0

    def report_to(self, *sinks: ReportSink) -> None:
        """Hand each report also to these."""
        self._sinks += sinks

    def tell_policy_to(self, *listeners: PolicyListener) -> None:
        """Hand each reading of the policy file also to these, news or not."""
        self._listeners += listeners

    def run(self) -> CycleReport:
        """Run the next cycle.

        Raises:
            ObservationError: the cluster or its load could not be read.
            ConfigurationError: there is no policy that can be used.
        """
        self._cycles += 1
        reading = self._policy_file.read()
        try:
            report = self._run_by(reading.policy)
        except ConfigurationError as error:
            reading = self._policy_file.refuse(reading.policy, error)
            report = self._run_by(reading.policy)
        finally:
            reading = self._policy_file.tell(reading)
            for listen in self._listeners:
                listen(reading)
        self._policy_file.accept(reading)
        for sink in self._sinks:
            sink(report)
        return report

    def _run_by(self, policy: Policy) -> CycleReport:
        context = CycleContext(self._cycles, self._mode, self._target)
        report, _ = run_cycle(self._world, policy, self._memory, context, self._keep)
        return report

    def _keep(self, memory: Memory) -> None:
        self._memory = memory
