"""What `desched policy diff` prints: differences of meaning, and of plans on a snapshot."""

from collections.abc import Iterable, Iterator

import msgspec
from rich.padding import Padding

from desched.model.plan import NodeClass
from desched.policy_file.difference import Difference
from desched.snapshot_file.comparison import PlanComparison, PlannedMove
from desched.views.blocks import Block, listed, styled
from desched.wording.formatting import count, words
from desched.wording.reasons import describe

_INDENT = (0, 0, 0, 2)


class PolicyComparison(msgspec.Struct, frozen=True):
    """In what two policies differ, and what they decide differently if a snapshot was given."""

    policy: tuple[Difference, ...]
    plan: PlanComparison | None


def difference_blocks(comparison: PolicyComparison) -> Iterator[Block]:
    """The differences, each key with its meaning; then those of the plans."""
    for change in comparison.policy:
        yield styled(change.line)
        yield Padding(styled(change.meaning, "dim"), _INDENT)
    number = count(len(comparison.policy), "difference") if comparison.policy else "No difference"
    yield f"{number} in meaning."
    if comparison.plan is not None:
        yield from _plans(comparison.plan)


def _plans(plans: PlanComparison) -> Iterator[Block]:
    both, before, after = plans.evictions_in_both, plans.evictions_before, plans.evictions_after
    if plans.equal:
        yield f"On the snapshot both decide the same: {count(both, 'eviction')}."
        return
    yield ""
    evictions = count(both + len(after), "eviction")
    yield f"On the snapshot: {both + len(before)} → {evictions}."
    for which, hold in (("first", plans.hold_before), ("second", plans.hold_after)):
        if hold.reason is not None:
            yield f"The {which} policy evicts nothing: {describe(hold.reason, hold.detail)}"
    yield from listed("Evicted with the first policy only", _moves(before))
    yield from listed("Evicted with the second policy only", _moves(after))
    classes = (f"{c.node}: {_class(c.before)} → {_class(c.after)}" for c in plans.classes)
    yield from listed("Nodes of another class", classes)
    refusals = (f"{r.reason.value}: {r.before} → {count(r.after, 'pod')}" for r in plans.refusals)
    yield from listed("Pods on overloaded nodes that stay, by reason", refusals)


def _moves(moves: Iterable[PlannedMove]) -> Iterable[str]:
    return (f"{move.pod} from {move.node}" for move in moves)


def _class(node_class: NodeClass | None) -> str:
    return "not looked at" if node_class is None else words(node_class)
