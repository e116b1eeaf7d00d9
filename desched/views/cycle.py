"""A cycle as people see it: computed once; the terminal, the pages and the log write it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

import msgspec

from desched.errors import ConfigurationError
from desched.model.cluster import PodRef
from desched.model.groups import grouped
from desched.model.load import UnknownReason
from desched.model.plan import (
    RELIEF,
    NodeClass,
    NodeReason,
    NodeVerdict,
    PlannedEviction,
    Refusal,
    RefusalReason,
    ResourcePressure,
    UnjudgedLoad,
    Unreserved,
)
from desched.model.report import (
    CycleReport,
    CycleResult,
    EvictionVerdict,
    Mode,
    NodeDeviceLoad,
    NotActing,
    Outcome,
    RecentLoad,
    TaintChange,
)
from desched.model.resources import Resource
from desched.model.state import FAILURES, EvictionRecord, MoveResult
from desched.plugins import HOUSE
from desched.policy.durations import duration_text
from desched.views.rendering import View
from desched.views.status import StateView
from desched.wording.formatting import (
    MODE_NAMES,
    RESOURCE_NAMES,
    clock_time,
    count,
    first_names,
    percent,
    plain,
    words,
)
from desched.wording.reasons import (
    OTHER_DESCHEDULERS,
    describe,
    describe_outlook,
    describe_unsteered,
    sentence_of,
)
from desched.wording.section import Member, ReasonGroup, Section

_CHOICES: Mapping[str, str] = {
    "": "possibly on any node where it fits; scheduler.others in the policy can name its profile",
    "KubeScheduler": "a kube-scheduler by the policy",
    "Volcano": "forecast by what is known of its scores; equal nodes at random, and back to its "
    "node if no other has room",
    "KAI": "forecast by what is known of its scores; it fills the fullest node, and ignores soft "
    "taints",
}
"""What is known of the choice of another scheduler, by its profile."""

_NEVER_MOVED = frozenset(
    {
        RefusalReason.MIRROR_POD,
        RefusalReason.STATIC_POD,
        RefusalReason.DAEMONSET_POD,
        RefusalReason.BARE_POD,
        RefusalReason.SYSTEM_NAMESPACE,
    }
)
"""Why pods stay that nobody expects to move."""

MOST_EXCLUDED = 3
"""Names of namespaces that the policy excludes, in one line."""

MOST_STEERED = 3
"""Names of nodes with a soft taint, in one line."""

_SUMMARIES: Mapping[CycleResult, str] = {
    CycleResult.NOTHING_TO_DO: "No node is overloaded; there is nothing to do.",
    CycleResult.HELD: "Nothing is evicted: {hold}",
    CycleResult.NOTHING_MOVABLE: (
        "{overloaded} overloaded, but no pod may move now; the reasons show what would have to "
        "change."
    ),
    CycleResult.PLANNED: (
        "Dry run: nothing was changed. It would evict {planned}.\n"
        "To evict, run `desched {acting} …` with the same flags; in a cluster, omit --dry-run."
    ),
    CycleResult.EVICTED: "Evicted {gone} of {planned} planned; {next_look}.",
    CycleResult.NOT_EVICTED: (
        "Evicted none of {planned} planned; the answers above show why, and the next {look} plans "
        "again."
    ),
    CycleResult.NOT_ACTING: "{planned} would be evicted, but not now: {not_acting}",
    CycleResult.STOPPED: (
        "Stopped after evicting {gone} of {planned}, because the result of an eviction is unknown; "
        "the answers above show why; {next_look}."
    ),
}
_LIMIT_ZERO = "{not_acting} Without it, this cycle would evict {planned}."
_SOME_NOT_JUDGED = "None of the {judged} with known load is overloaded; {not_judged} not judged."
_NOTHING_JUDGED = (
    " The source of load has data for none of them; `desched doctor` says why, and which "
    "metrics.sources or metrics.matchers select this cluster."
)
_GONE = frozenset({EvictionVerdict.EVICTED, EvictionVerdict.TAKEN_OVER})


class LoadView(NamedTuple):
    """The load of one resource of a node; `pressure` is None if it decides nothing.

    `measured` has (window in seconds, ratio).
    """

    measured: Sequence[tuple[int, float]]
    pressure: ResourcePressure | None = None
    recent: RecentLoad | None = None

    @property
    def highest_ratio(self) -> float:
        """The level in the window with the highest one."""
        if self.pressure is not None and not self.measured:
            return self.pressure.highest_ratio
        return max((ratio for _, ratio in self.measured), default=0.0)


class NodeView(NamedTuple):
    """A node; `loads` has its known loads, `detail` also until when its reason lasts."""

    verdict: NodeVerdict
    loads: Mapping[Resource, LoadView]
    detail: str

    @property
    def name(self) -> str:
        """Its name."""
        return self.verdict.node

    @property
    def node_class(self) -> str:
        """Its class in words."""
        return words(self.verdict.node_class)

    @property
    def why(self) -> str:
        """Why it is left alone; empty if it is not."""
        return describe(self.verdict.reason, self.detail) if _is_left_alone(self.verdict) else ""


class NodeColumn(NamedTuple):
    """A column of the table of nodes beside state and loads, in terminals, pages and JSON.

    `key` is its name in JSON. It is shown where it has a text for any node; a `wide` one only on
    pages.
    """

    key: str
    title: str
    text: Callable[[NodeView], str]
    wide: bool = False


NODE_COLUMNS = (
    NodeColumn("pool", "Pool", lambda node: node.verdict.pool),
    NodeColumn("why", "Why it is left alone", lambda node: node.why, wide=True),
)


class EvictionView(NamedTuple):
    """A planned eviction; `outcome` is None before it was tried."""

    number: int
    eviction: PlannedEviction
    outcome: Outcome | None

    @property
    def relief(self) -> Sequence[str]:
        """What it takes off its node, by resource; nothing if that is not what it is for."""
        if self.eviction.purpose != RELIEF:
            return []
        return [
            f"{percent(part.ratio)} points of {RESOURCE_NAMES[part.resource]}"
            for part in self.eviction.relief
        ]

    @property
    def most_relief(self) -> float:
        """The largest share of its node that it takes off."""
        return max((part.ratio for part in self.eviction.relief), default=0.0)

    @property
    def notes(self) -> Iterator[str]:
        """What else decides about it."""
        eviction = self.eviction
        if eviction.saving:
            yield eviction.saving
        if eviction.purpose != RELIEF:
            yield f"purpose: {eviction.purpose}"
        if eviction.steered:
            yield f"kept off {first_names(eviction.steered, MOST_STEERED)} by soft taints"
        if eviction.scheduler:
            choice = _CHOICES.get(eviction.scheduler_profile, _CHOICES[""])
            note = f" ({eviction.scheduler_note})" if eviction.scheduler_note else ""
            yield f"placed by {eviction.scheduler}, {choice}{note}"
        if eviction.queue:
            yield eviction.queue

    @property
    def result(self) -> Iterator[str]:
        """What came of it, with the reasons."""
        if self.outcome is None:
            return
        for reason in (self.outcome.verdict, self.outcome.refusal):
            if reason is not None:
                yield f"{reason}: {sentence_of(reason)}"
        if self.outcome.detail:
            yield self.outcome.detail


class CycleView(View):
    """A report as it is shown.

    `single` means that no other cycle follows, so that nothing waits for the measurements. With
    `node`, only what is about this node is there: its pods, and the likeliest nodes of theirs;
    with `all_pods`, a table has each pod that stays. JSON always has everything.

    Raises:
        ConfigurationError: the report has no such node.
    """

    def __init__(
        self,
        report: CycleReport,
        *,
        single: bool = False,
        node: str = "",
        all_pods: bool = False,
    ) -> None:
        self.report, self.node, self.all_pods, self._single = report, node, all_pods, single
        if node and all(each.node != node for each in report.plan.nodes):
            among = count(len(report.plan.nodes), "node")
            raise ConfigurationError(f'There is no node "{node}" among the {among}.')

    @property
    def document(self) -> Mapping[str, object]:
        """The report with the columns of its nodes, sorted by name; refusals by node and pod."""
        document = msgspec.structs.asdict(self.report)
        plan = msgspec.structs.asdict(self.report.plan)
        plan["nodes"] = [
            msgspec.structs.asdict(node.verdict) | {c.key: c.text(node) for c in NODE_COLUMNS}
            for node in sorted(_nodes(self.report.plan.nodes, self.report), key=lambda n: n.name)
        ]
        plan["refusals"] = sorted(self.report.plan.refusals, key=by_name)
        return document | {"plan": plan}

    @cached_property
    def nodes(self) -> Sequence[NodeView]:
        """The nodes, those with the most load above a target first."""
        plan, node = self.report.plan, self.node
        about = {
            node,
            *(eviction.expected_node for eviction in plan.evictions if eviction.node == node),
        }
        verdicts = [each for each in plan.nodes if not node or each.node in about]
        return list(_nodes(verdicts, self.report))

    def columns(self, *, wide: bool) -> Sequence[NodeColumn]:
        """The columns that any node has a text for; without `wide`, those of a terminal."""
        of_place = (each for each in NODE_COLUMNS if wide or not each.wide)
        return [column for column in of_place if any(map(column.text, self.nodes))]

    @cached_property
    def refusals(self) -> Sequence[Refusal]:
        """The pods on overloaded nodes that stay, in the order of the plan."""
        return [refusal for refusal in self.report.plan.refusals if self.node in {"", refusal.node}]

    @cached_property
    def evictions(self) -> Sequence[EvictionView]:
        """The planned evictions, with what came of each."""
        outcomes = {outcome.pod: outcome for outcome in self.report.outcomes}
        shown = (
            eviction for eviction in self.report.plan.evictions if self.node in {"", eviction.node}
        )
        return [
            EvictionView(number, each, outcomes.get(each.pod))
            for number, each in enumerate(shown, 1)
        ]

    @property
    def mode(self) -> str:
        """Whether it may act."""
        return MODE_NAMES[self.report.mode]

    @property
    def dry_run(self) -> bool:
        """Whether it may not."""
        return self.report.mode is Mode.DRY_RUN

    @property
    def policy(self) -> str:
        """Number and time of the cycle, and the policy."""
        at = f"{self.report.started_at:%Y-%m-%d %H:%M:%S} UTC"
        return f"cycle {self.report.cycle} at {at} · policy {self.report.policy}"

    @property
    def observed(self) -> str:
        """How much was seen."""
        seen = self.report.observed
        asked = f" of {seen.pods_asked} whose usage matters" if seen.pods_asked < seen.pods else ""
        sizes = f"{count(seen.nodes, 'node')}, {count(seen.pods, 'pod')}"
        line = f"{sizes}, {seen.pods_measured} measured{asked}"
        if seen.unresolved_series:
            line += f", {seen.unresolved_series} series that match no known node"
        return line

    @cached_property
    def names_by_class(self) -> Mapping[NodeClass, Sequence[str]]:
        """The names of the nodes of each class, sorted."""
        names_of = grouped((node.node_class, node.node) for node in self.report.plan.nodes)
        return {kind: sorted(names_of.get(kind, ())) for kind in NodeClass}

    @property
    def resources(self) -> Sequence[Resource]:
        """Those of which a load is known, in the order of tables."""
        return [r for r in RESOURCE_NAMES if any(r in node.loads for node in self.nodes)]

    def most_important(self, most: int) -> tuple[Sequence[NodeView], str]:
        """At most this many nodes, the highest load first, and how many others of each class.

        Overloaded nodes and those of the plan are always among them.
        """
        matters = set(self.names_by_class[NodeClass.OVERLOADED])
        for eviction in self.evictions:
            matters |= {eviction.eviction.node, *eviction.eviction.likely_nodes}
        chosen = sorted(self.nodes, key=lambda each: each.name not in matters)[:most]
        names = {each.name for each in chosen}
        left = Counter(node.node_class for node in self.nodes if node.name not in names)
        shown = [node for node in self.nodes if node.name in names]
        return shown, ", ".join(f"{number} more {kind}" for kind, number in sorted(left.items()))

    @property
    def unknown_gpus(self) -> Iterator[tuple[str, str]]:
        """The nodes with GPUs of unknown load, and why."""
        names = {node.name for node in self.nodes}
        for gpu in self.report.device_loads:
            if gpu.ratio is None and gpu.node in names:
                yield gpu.node, gpu.detail

    @property
    def left_alone(self) -> Sequence[ReasonGroup]:
        """The nodes that are not judged, not relieved, or no destination, by reason."""
        by_reason = grouped(
            ((type(reason), reason), Member(node.name, node.detail))
            for node in self.nodes
            if (reason := node.verdict.reason) is not None and _is_left_alone(node.verdict)
        )
        return [ReasonGroup(reason, members) for (_, reason), members in by_reason.items()]

    @property
    def stays(self) -> Sequence[ReasonGroup]:
        """The pods on overloaded nodes that stay by reason, the most frequent first."""
        by_reason = grouped((r.reason, Member(str(r.pod), r.detail, r.node)) for r in self.refusals)
        ranked = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
        return [ReasonGroup(*group) for group in ranked]

    @property
    def sections(self) -> Iterator[Section]:
        """What is beside single moves; of one node, only what is expected of it."""
        outlooks = (describe_outlook(node.verdict) for node in self.nodes)
        yield Section("The next hour", list(filter(None, outlooks)))
        if not self.node:
            yield Section("Soft taints (desched.io/overloaded)", list(self._taints()))
            waiting = list(map(_unreserved, self.report.plan.unreserved))
            yield Section("Pending pods without reserved room", waiting)
            for plugin in HOUSE:
                yield from plugin.views.sections(self.report)

    def _taints(self) -> Iterator[str]:
        """What happened to the soft taints; in a dry run, what would happen."""
        if not self.dry_run:
            yield from map(_taint_line, self.report.taints)
            return
        for removal in self.report.plan.removed_taints:
            yield f"{removal.node} would lose it: {removal.why}"
        reasons: dict[str, str] = {}
        for taint in self.report.plan.taints:
            reasons.setdefault(taint.node, taint.why)  # several moves may need the same taint
        for node, reason in reasons.items():
            yield f"{node} would get it: {reason}"

    @property
    def settled(self) -> Sequence[EvictionRecord]:
        """The earlier evictions whose results became known, failures first."""
        return sorted(self.report.settled, key=lambda record: record.result not in FAILURES)

    @property
    def results(self) -> Sequence[ReasonGroup]:
        """The results of earlier evictions, failures first."""
        order = tuple(MoveResult)
        by_result = grouped(
            (record.result, Member(_route(record)))
            for record in self.report.settled
            if record.result is not None
        )
        ranked = sorted(by_result.items(), key=lambda e: (e[0] not in FAILURES, order.index(e[0])))
        return [ReasonGroup(*group) for group in ranked]

    @cached_property
    def state(self) -> StateView:
        """What is under way and what rests after it."""
        return StateView(self.report.state, self.report.started_at)

    @property
    def earlier(self) -> Sequence[Section]:
        """The sections of the state that have anything."""
        return [section for section in self.state.sections if section.lines]

    @property
    def warnings(self) -> Iterator[str]:
        """What needs attention beside the plan; the summary covers a plan that must wait."""
        report = self.report
        if report.other_deschedulers:
            yield OTHER_DESCHEDULERS.format(others=", ".join(report.other_deschedulers))
        yield from report.unmet
        if report.plan.unsteered is not None:
            yield describe_unsteered(report.plan.unsteered)
        in_summary = report.result is CycleResult.NOT_ACTING or self._is_held_by_zero
        if report.not_acting is not None and not in_summary:
            reason = describe(report.not_acting, report.not_acting_detail)
            yield f"Evictions are not allowed now: {reason}"

    @property
    def notes(self) -> Iterator[str]:
        """What is worth knowing and needs no attention."""
        if self.report.acknowledged_deschedulers:
            yield f"Beside desched on purpose: {', '.join(self.report.acknowledged_deschedulers)}."

    @property
    def tone(self) -> str:
        """Whether the summary is good or bad news."""
        match self.report.result:
            case CycleResult.HELD | CycleResult.STOPPED | CycleResult.NOT_EVICTED:
                return "bad"
            case CycleResult.NOTHING_TO_DO:
                return "good"
            case _:
                return "plain"

    @property
    def summary(self) -> Sequence[str]:
        """What the cycle did or would do, and what to do next."""
        report, plan, classes = self.report, self.report.plan, self.names_by_class
        not_judged = len(classes[NodeClass.UNKNOWN]) + len(classes[NodeClass.OUT_OF_SCOPE])
        judged = len(plan.nodes) - not_judged
        if report.result is CycleResult.NOTHING_TO_DO and not_judged:
            some, others = count(judged, "node"), count(not_judged, "was", "were")
            return [_SOME_NOT_JUDGED.format(judged=some, not_judged=others)]
        unknown = {node.reason for node in plan.nodes if node.node_class is NodeClass.UNKNOWN}
        all_absent = not judged and unknown == {UnknownReason.ABSENT}
        text = _LIMIT_ZERO if self._is_held_by_zero else _SUMMARIES[report.result]
        filled = text.format(
            overloaded=count(len(classes[NodeClass.OVERLOADED]), "node is", "nodes are"),
            planned=count(len(plan.evictions), "pod"),
            gone=sum(outcome.verdict in _GONE for outcome in report.outcomes),
            hold=describe(plan.hold, plain(plan.hold_detail)) + _NOTHING_JUDGED * all_absent,
            not_acting=describe(report.not_acting, plain(report.not_acting_detail)),
            acting="--evict --once" if self._single else "--evict",
            look="run" if self._single else "cycle",
            next_look=self._next_look,
        )
        return [*filled.splitlines(), *self._excluded]

    @property
    def _excluded(self) -> Iterator[str]:
        """That the policy excludes at least half of the pods that could move, if that is so."""
        plan = self.report.plan
        movable = [refusal for refusal in plan.refusals if refusal.reason not in _NEVER_MOVED]
        namespaces = {
            candidate.pod.namespace
            for candidate in movable
            if candidate.reason is RefusalReason.NAMESPACE_EXCLUDED
        }
        excluded = sum(candidate.pod.namespace in namespaces for candidate in movable)
        if excluded and not plan.evictions and 2 * excluded >= len(movable):
            yield (
                f"{excluded} of {count(len(movable), 'pod')} there that could be created again are "
                "in namespaces that the policy excludes: "
                f"{first_names(sorted(namespaces), MOST_EXCLUDED)}. Remove them from "
                "evictableNamespaces.exclude to let those move that no other reason keeps."
            )

    @property
    def _is_held_by_zero(self) -> bool:
        """Whether a dry run shows moves that its policy does not make."""
        planned = self.report.result is CycleResult.PLANNED
        return planned and self.report.not_acting is NotActing.LIMIT_ZERO

    @property
    def _next_look(self) -> str:
        if not self._single:
            return "the next cycle counts their load as gone"
        pressures = [part for node in self.report.plan.nodes for part in node.pressures]
        windows = {window for part in pressures for window, _ in part.measured}
        wait = duration_text(max(windows)) if windows else "the longest window"
        return f"run it again only after {wait}, when the measurements show the effect"


def _is_left_alone(verdict: NodeVerdict) -> bool:
    return verdict.reason not in {None, NodeReason.RECURRING_OVERLOAD}


def by_name(refusal: Refusal) -> tuple[str, PodRef]:
    """The order of refusals where each has a line of its own."""
    return refusal.node, refusal.pod


def _nodes(verdicts: Iterable[NodeVerdict], report: CycleReport) -> Iterator[NodeView]:
    """The nodes by how far a resource is above its target; those without numbers come last.

    The lowest window counts, as it does for overload.
    """
    recent = {
        (recent_load.node, recent_load.resource): recent_load for recent_load in report.recent_loads
    }
    gpus = {gpu_load.node: gpu_load for gpu_load in report.device_loads}

    def excess(verdict: NodeVerdict) -> float:
        above = (part.lowest_ratio - part.target_ratio for part in verdict.pressures)
        return max(above, default=float("-inf"))

    for verdict in sorted(verdicts, key=lambda verdict: (-excess(verdict), verdict.node)):
        loads = dict(_loads(verdict, recent, gpus.get(verdict.node)))
        yield NodeView(verdict, loads, _detail(verdict, report.started_at))


def _loads(
    verdict: NodeVerdict,
    recent: Mapping[tuple[str, Resource], RecentLoad],
    gpu: NodeDeviceLoad | None,
) -> Iterator[tuple[Resource, LoadView]]:
    """The loads of a node, also of one that is not judged, and that of GPUs without a target."""
    if gpu is not None and gpu.ratio is not None:
        yield gpu.resource, LoadView([(gpu.window_seconds, gpu.ratio)])
    judged: Sequence[ResourcePressure | UnjudgedLoad] = (*verdict.unjudged, *verdict.pressures)
    for load in judged:
        pressure = load if isinstance(load, ResourcePressure) else None
        if load.measured or pressure:
            last = recent.get((verdict.node, load.resource))
            yield load.resource, LoadView(load.measured, pressure, last)


def _detail(verdict: NodeVerdict, now: datetime) -> str:
    """The detail of the node's reason, and until when it is left alone."""
    if verdict.until is None or " until " in verdict.detail:
        return verdict.detail
    until = f"until {clock_time(verdict.until, now)} at the earliest"
    return f"{verdict.detail}, {until}" if verdict.detail else until


def _taint_line(change: TaintChange) -> str:
    if change.done:
        return f"{change.node} {'has' if change.tainted else 'lost'} it: {change.why}"
    verb = "get" if change.tainted else "lose"
    return f"{change.node} did not {verb} it ({change.why}): {change.detail}"


def _unreserved(share: Unreserved) -> str:
    pods = f"{count(share.pods, 'pod')} of namespace {share.namespace}"
    return f"{pods} ({share.reason.value}): {sentence_of(share.reason)}"


def _route(record: EvictionRecord) -> str:
    """From where to where a pod moved, and why its replacement waits."""
    waits = f", {record.waiting_for}" if record.waiting_for else ""
    return f"{record.pod} {record.node} → {record.landed_on or '?'}{waits}"
