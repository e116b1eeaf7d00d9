"""What two policies decide differently on the same snapshot."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from desched.model.cluster import PodRef
from desched.model.plan import HoldReason, NodeClass, RefusalReason
from desched.model.report import CycleReport, NotActing


class PlannedMove(msgspec.Struct, frozen=True, order=True):
    """A pod that would leave a node."""

    pod: PodRef
    node: str


class ClassChange(msgspec.Struct, frozen=True, order=True):
    """A node that belongs to another class; None if a policy does not look at the node."""

    node: str
    before: NodeClass | None
    after: NodeClass | None


class RefusalChange(msgspec.Struct, frozen=True):
    """How many pods stay for a reason; only pods of overloaded nodes are counted."""

    reason: RefusalReason
    before: int
    after: int


class Hold(msgspec.Struct, frozen=True):
    """Why a whole cycle evicts nothing."""

    reason: HoldReason | NotActing | None = None
    detail: str = ""


class PlanComparison(msgspec.Struct, frozen=True):
    """The differences of two plans, and what they have in common."""

    evictions_in_both: int
    evictions_before: tuple[PlannedMove, ...]
    evictions_after: tuple[PlannedMove, ...]
    classes: tuple[ClassChange, ...]
    refusals: tuple[RefusalChange, ...]
    hold_before: Hold = Hold()
    hold_after: Hold = Hold()

    @property
    def equal(self) -> bool:
        """Whether both policies decide the same."""
        changes = self.evictions_before, self.evictions_after, self.classes, self.refusals
        return not any(changes) and self.hold_before.reason is self.hold_after.reason


def compare_reports(first: CycleReport, second: CycleReport) -> PlanComparison:
    """What the second plan has otherwise than the first; a policy with a limit of 0 moves none."""
    before, after = first.plan, second.plan
    old, new = _moves(first), _moves(second)
    classes = [{verdict.node: verdict.node_class for verdict in p.nodes} for p in (before, after)]
    reasons = [Counter(refusal.reason for refusal in p.refusals) for p in (before, after)]
    return PlanComparison(
        evictions_in_both=len(old & new),
        evictions_before=tuple(sorted(old - new)),
        evictions_after=tuple(sorted(new - old)),
        classes=tuple(
            ClassChange(node, *class_names)
            for node in sorted({*classes[0], *classes[1]})
            if len(set(class_names := [classes_of.get(node) for classes_of in classes])) > 1
        ),
        refusals=tuple(_refusal_changes(reasons[0], reasons[1])),
        hold_before=_hold(first),
        hold_after=_hold(second),
    )


def _hold(report: CycleReport) -> Hold:
    if report.not_acting is NotActing.LIMIT_ZERO:
        return Hold(report.not_acting, report.not_acting_detail)
    return Hold(report.plan.hold, report.plan.hold_detail)


def _moves(report: CycleReport) -> frozenset[PlannedMove]:
    planned = () if report.not_acting is NotActing.LIMIT_ZERO else report.plan.evictions
    return frozenset(PlannedMove(eviction.pod, eviction.node) for eviction in planned)


def _refusal_changes(
    before: Counter[RefusalReason], after: Counter[RefusalReason]
) -> Iterable[RefusalChange]:
    """The reasons whose number of pods differs, those first that differ most."""
    changed = [reason for reason in {*before, *after} if before[reason] != after[reason]]
    changed.sort(key=lambda reason: (-abs(after[reason] - before[reason]), reason))
    return (RefusalChange(reason, before[reason], after[reason]) for reason in changed)
