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


class LoggedStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the cycles of a step found and did, all together.

    `overloaded` counts (node, cycle), and `relieved` those for which an eviction was planned. For
    each reason, `refused` has the most pods in one cycle, and the pods of all cycles. `idle` has
    the cycles that evicted nothing although nodes were overloaded.
    """

    cycles: int = 0
    dry_runs: int = 0
    covered_seconds: float = 0.0
    overloaded: int = 0
    relieved: int = 0
    idle: Mapping[str, int] = {}
    refused: Mapping[str, tuple[int, int]] = {}
    verdicts: Mapping[str, int] = {}


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

    @property
    def started_at(self) -> datetime:
        """When the first step begins."""
        return datetime.fromtimestamp(self.first_step * self.step_seconds, UTC)


class SeenNode(msgspec.Struct, frozen=True, gc=False):
    """A node in one cycle: the load of each resource with its lines, if the node was judged."""

    name: str
    overloaded: bool
    loads: Sequence[tuple[Resource, float, Lines]]


class Entry(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One cycle as the logbook takes it; `settled` are earlier moves with their results."""

    at: datetime
    target: str
    instance: str
    totals: LoggedStep
    nodes: Sequence[SeenNode]
    moves: Sequence[LoggedMove]
    settled: Sequence[LoggedMove]
