"""What people and programs see of a plugin."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from desched.model.cluster import Pod
from desched.model.report import CycleReport
from desched.model.state import State
from desched.wording.section import PodAnswer, Section, Tile

if TYPE_CHECKING:  # it lies above
    from desched.decision import Decision


class Gauge(NamedTuple):
    """A metric of one cycle: its help text, its labels, and each value with theirs."""

    name: str
    help: str
    labels: Sequence[str]
    samples: Iterable[tuple[Sequence[str], float]]


class Counted(NamedTuple):
    """A metric that counts events, one series for each of the `values` of its label."""

    name: str
    help: str
    label: str
    values: Sequence[str]


class LogEvent(NamedTuple):
    """An event for the log; lists in its fields are cut."""

    name: str
    fields: Mapping[str, Any]
    warning: bool = False


class PluginViews:
    """How a plugin is seen; by default it shows nothing.

    `counted` are the metrics that count what happens in cycles of the replica that acts.
    """

    counted: ClassVar[tuple[Counted, ...]] = ()

    def sections(self, report: CycleReport) -> Iterable[Section]:
        """What a cycle has of the plugin, beside single nodes and moves."""
        return ()

    def tiles(self, report: CycleReport) -> Iterable[Tile]:
        """The numbers at the top of a page."""
        return ()

    def state_sections(self, state: State, now: datetime) -> Iterable[Section]:
        """What the state has of the plugin."""
        return ()

    def explain_node(self, node: str, decision: "Decision") -> Iterable[str]:
        """Sentences about a node."""
        return ()

    def explain_pod(self, pod: Pod, decision: "Decision") -> PodAnswer:
        """What is said of a pod."""
        return PodAnswer()

    def gauges(self, report: CycleReport) -> Iterable[Gauge]:
        """The metrics of a cycle."""
        return ()

    def figures(self, report: CycleReport) -> Mapping[str, float]:
        """The numbers of a cycle by which runs are compared, by what they count."""
        return {}

    def log_fields(self, report: CycleReport) -> Mapping[str, Sequence[str]]:
        """What the log line of a cycle has; what is empty is left out."""
        return {}

    def counts(self, report: CycleReport) -> Iterable[tuple[Counted, str]]:
        """What happened in a cycle, each event with the value of its label."""
        return ()

    def log_events(self, report: CycleReport) -> Iterable[LogEvent]:
        """The events of a cycle of the replica that acts."""
        return ()
