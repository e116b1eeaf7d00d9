"""The logbook: what a service keeps of its cycles, so that days of them can be judged.

Its size is bounded. Time is cut into steps of equal length; if the logbook becomes too large, two
steps become one, and at last the oldest go. It decides nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from desched.history.timeline import Lines
from desched.model.cluster import PodRef
from desched.model.resources import Resource

KEPT = timedelta(days=8)
SHORTEST_STEP_SECONDS = 300
LONGEST_STEP_SECONDS = SHORTEST_STEP_SECONDS << 6
MOST_MOVES = 2_000
"""The newest are kept."""

UNKNOWN = 255
"""In place of a percentage."""

HIGHEST_PERCENT = 250
MOST_COUNTED = 255


class LoggedMove(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An eviction, or one that a dry run would have begun.

    A dry run plans the same eviction again while its node stays overloaded: it is one move, planned
    in `cycles` cycles from `at` until `last_at`. `verdict`, `result` and `purpose` are codes.
    """

    at: datetime
    last_at: datetime
    pod: PodRef
    node: str
    workload: str
    expected_on: str
    landing_risk: float
    reason: str
    dry_run: bool = False
    cycles: int = 1
    verdict: str = ""
    landed_on: str = ""
    settled_at: datetime | None = None
    result: str = ""
    purpose: str = "relief"


class ForecastTotals(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What was expected of the next hour, and what came in it.

    `node_hours` counts the hours of nodes of which overload was expected, `expected_minutes` and
    `came_minutes` those above a target in them, `unexpected_minutes` what came on other nodes.
    `likely` are the node hours of which at least half was expected to be above a target,
    `likely_came` those of them that were so. Nodes whose pods desched moved, or whose load was
    unknown in between, do not count.
    """

    node_hours: int = 0
    expected_minutes: float = 0.0
    came_minutes: float = 0.0
    unexpected_minutes: float = 0.0
    likely: int = 0
    likely_came: int = 0


class ForecastHour(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The hour since the forecast that is compared next.

    `expected` has the minutes above a target of each node that expected overload, and `came` those
    that came so far, by node. Nodes that are `left_out` are in neither.
    """

    began_at: datetime
    covered_seconds: float = 0.0
    expected: Mapping[str, float] = {}
    came: Mapping[str, float] = {}
    left_out: tuple[str, ...] = ()


class LoggedStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the cycles of a step found and did, all together.

    `overloaded` counts (node, cycle), and `relieved` those for which an eviction was planned. For
    each reason, `refused` has the most pods in one cycle, and the pods of all cycles. `idle` has
    the cycles that evicted nothing although nodes were overloaded. `forecast` is of the hours that
    ended in the step.
    """

    cycles: int = 0
    dry_runs: int = 0
    covered_seconds: float = 0.0
    overloaded: int = 0
    relieved: int = 0
    idle: Mapping[str, int] = {}
    refused: Mapping[str, tuple[int, int]] = {}
    verdicts: Mapping[str, int] = {}
    forecast: ForecastTotals = ForecastTotals()


class LoggedLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of one resource in percent: a byte for each step of each node, node by node.

    `lines` are those of the newest cycle that had any for the node.
    """

    resource: Resource
    lines: tuple[Lines | None, ...]
    percents: bytes


class Logbook(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is kept, from the beginning of the step `first_step` on, counted from 1970.

    `overloaded` has for each step of each node in how many cycles it was overloaded; if the step
    has more than MOST_COUNTED, in how many of so many.
    `moves` are oldest first; they are complete from `moves_since` on, None if they always were.
    """

    target: str
    instance: str
    newest_at: datetime
    step_seconds: int
    first_step: int
    nodes: tuple[str, ...] = ()
    loads: tuple[LoggedLoad, ...] = ()
    overloaded: bytes = b""
    steps: tuple[LoggedStep, ...] = ()
    moves: tuple[LoggedMove, ...] = ()
    moves_since: datetime | None = None
    hour: ForecastHour | None = None

    @property
    def started_at(self) -> datetime:
        """When the first step begins."""
        return datetime.fromtimestamp(self.first_step * self.step_seconds, UTC)


class SeenNode(msgspec.Struct, frozen=True, gc=False):
    """A node in one cycle: the load of each resource with its lines, if the node was judged.

    `expected_minutes` is how long it is expected to be above a target in the next hour, None if it
    expects no overload.
    """

    name: str
    overloaded: bool
    loads: Sequence[tuple[Resource, float, Lines]]
    expected_minutes: float | None = None


class Entry(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One cycle as the logbook takes it; `settled` are earlier moves with their results."""

    at: datetime
    target: str
    instance: str
    totals: LoggedStep
    nodes: Sequence[SeenNode]
    moves: Sequence[LoggedMove]
    settled: Sequence[LoggedMove]
