"""What `desched policy diff` prints: differences of meaning, and of plans on a snapshot."""

from collections.abc import Iterable

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from desched.model.plan import NodeClass
from desched.policy_file.difference import Difference
from desched.snapshot_file.comparison import Hold, PlanComparison, PlannedMove
from desched.wording.formatting import count, plain, words
from desched.wording.reasons import describe

_INDENT = (0, 0, 0, 2)


class PolicyComparison(msgspec.Struct, frozen=True):
    """In what two policies differ, and what they decide differently if a snapshot was given."""

    policy: tuple[Difference, ...]
    plan: PlanComparison | None


def print_differences(comparison: PolicyComparison, console: Console) -> None:
    """Print the differences, each key with its meaning; then those of the plans."""
    for change in comparison.policy:
        console.print(Text(change.line, style="bold"))
        console.print(Padding(Text(plain(change.meaning), style="dim"), _INDENT))
    number = count(len(comparison.policy), "difference") if comparison.policy else "No difference"
    console.print(Text(f"{number} in meaning."))
    if comparison.plan is not None:
        _print_comparison(comparison.plan, console)


def _print_comparison(comparison: PlanComparison, console: Console) -> None:
    before, after = len(comparison.evictions_before), len(comparison.evictions_after)
    if comparison.equal:
        same = count(comparison.evictions_in_both, "eviction")
        console.print(Text(f"On the snapshot both decide the same: {same}."))
        return
    console.print()
    both = comparison.evictions_in_both
    console.print(Text(f"On the snapshot: {both + before} → {count(both + after, 'eviction')}."))
    _print_hold("The first policy evicts nothing", comparison.hold_before, console)
    _print_hold("The second policy evicts nothing", comparison.hold_after, console)
    _print_list("Evicted with the first policy only", _moves(comparison.evictions_before), console)
    _print_list("Evicted with the second policy only", _moves(comparison.evictions_after), console)
    classes = (
        f"{plain(c.node)}: {_class(c.before)} → {_class(c.after)}" for c in comparison.classes
    )
    _print_list("Nodes of another class", classes, console)
    refusals = (
        f"{r.reason.value}: {r.before} → {count(r.after, 'pod')}" for r in comparison.refusals
    )
    _print_list("Pods on overloaded nodes that stay, by reason", refusals, console)


def _print_hold(who: str, hold: Hold, console: Console) -> None:
    if hold.reason is not None:
        console.print(Text(f"{who}: {describe(hold.reason, plain(hold.detail))}"))


def _print_list(title: str, lines: Iterable[str], console: Console) -> None:
    listed = list(lines)
    if listed:
        console.print(Text(f"{title}:", style="bold"))
    for line in listed:
        console.print(Padding(Text(line), _INDENT))


def _moves(moves: Iterable[PlannedMove]) -> Iterable[str]:
    return (f"{plain(str(move.pod))} from {plain(move.node)}" for move in moves)


def _class(node_class: NodeClass | None) -> str:
    return "not looked at" if node_class is None else words(node_class)
