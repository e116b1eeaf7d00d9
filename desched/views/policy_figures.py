"""Figures of policies side by side, as tables: all figures, and each node before and after."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.views.formatting import percent, plain
from desched.views.grouped_list import print_section
from desched.views.reasons import sentence_of
from desched.whatif.figures import NodeFigures, PolicyFigures

MOST_NODES = 20
MOST_WORKLOADS = 10

Row = tuple[str, Callable[[PolicyFigures], str], Callable[[PolicyFigures], str]]
"""A label, what happens without desched, and with the policy."""

_NONE = "-"


def figures_table(policies: Sequence[PolicyFigures], without: str) -> Table:
    """The figures of each policy, beside the time without it under that heading."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold")
    table.add_column(without, justify="right", overflow="fold")
    for policy in policies:
        table.add_column(Text(plain(policy.policy)), justify="right", overflow="fold")
    for label, of_without, of_policy in ROWS:
        table.add_row(label, of_without(policies[0]), *map(of_policy, policies))
    if len({policy.without for policy in policies}) > 1:
        for policy in policies[1:]:  # their targets differ, and so does what is overloaded
            own = f"{policy.without.node_minutes:,.0f}"
            table.add_row(Text(f"… {without}, by {plain(policy.policy)}"), own)
    return table


def _number(value: Callable[[PolicyFigures], float]) -> Callable[[PolicyFigures], str]:
    return lambda policy: f"{value(policy):,.0f}"


def _nothing(_: PolicyFigures) -> str:
    return _NONE


ROWS: tuple[Row, ...] = (
    (
        "overloaded node-minutes",
        _number(lambda each: each.without.node_minutes),
        _number(lambda each: each.with_policy.node_minutes),
    ),
    (
        "  avoided",
        _nothing,
        lambda each: _NONE if each.avoided_share is None else f"{percent(each.avoided_share)} %",
    ),
    (
        "longest episode, minutes",
        _number(lambda each: each.without.longest_episode_minutes),
        _number(lambda each: each.with_policy.longest_episode_minutes),
    ),
    (
        "nodes that were overloaded",
        _number(lambda each: each.without.nodes),
        _number(lambda each: each.with_policy.nodes),
    ),
    ("evictions", _nothing, _number(lambda each: each.evictions)),
    ("  a day", _nothing, lambda each: f"{each.evictions_per_day:,.1f}"),
    ("moved again within the hour", _nothing, _number(lambda each: each.replicas_moved_again)),
    ("came back to the node", _nothing, _number(lambda each: each.came_back)),
    ("landed too hot elsewhere", _nothing, _number(lambda each: each.landed_overloaded)),
    ("minutes pending, all pods", _nothing, lambda each: f"{each.pending_minutes:,.1f}"),
    (
        "most of a workload in an hour",
        _nothing,
        lambda each: f"{percent(each.most_of_a_workload_within_an_hour)} %",
    ),
    (
        "hours with evictions / idle / quiet",
        _nothing,
        lambda each: (
            f"{each.hours.evicting} / {sum(i.hours for i in each.hours.idle)} / {each.hours.quiet}"
        ),
    ),
)


def print_nodes(policies: Sequence[PolicyFigures], without: str, console: Console) -> None:
    """Print the nodes that were overloaded or changed, those with most minutes first."""
    by_node = list(zip(*(policy.nodes for policy in policies), strict=True))
    interesting = [each for each in by_node if _matters(each)]
    interesting.sort(key=lambda each: (-each[0].overloaded_minutes_before, each[0].node))
    if not interesting:
        console.print(Text("No node is overloaded, and nothing moves.\n"))
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("Node", overflow="fold")
    table.add_column(without, justify="right", overflow="fold")
    for policy in policies:
        table.add_column(Text(plain(policy.policy)), justify="right", overflow="fold")
        table.add_column("out/in", justify="right", overflow="fold")
    for figures in interesting[:MOST_NODES]:
        cells = [f"{figures[0].overloaded_minutes_before:,.0f}"]
        for each in figures:
            cells += [f"{each.overloaded_minutes_after:,.0f}", f"{each.evictions}/{each.landings}"]
        table.add_row(Text(plain(figures[0].node)), *cells)
    print_section("Minutes overloaded, and pods that left and came, by node:", table, console)
    _print_more(len(interesting) - MOST_NODES, console)


def _matters(figures: Sequence[NodeFigures]) -> bool:
    return any(
        each.overloaded_minutes_before or each.overloaded_minutes_after or each.landings
        for each in figures
    )


def print_workloads(policies: Sequence[PolicyFigures], console: Console) -> None:
    """Print the workloads with most evictions by any policy."""
    evicted: dict[str, list[int]] = {}
    for number, policy in enumerate(policies):
        for each in policy.workloads:
            evicted.setdefault(each.workload, [0] * len(policies))[number] = each.evictions
    if not evicted:
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("Workload", overflow="fold")
    for policy in policies:
        table.add_column(Text(plain(policy.policy)), justify="right", overflow="fold")
    order = sorted(evicted.items(), key=lambda each: (-max(each[1]), each[0]))
    for name, numbers in order[:MOST_WORKLOADS]:
        table.add_row(Text(plain(name)), *map(str, numbers))
    print_section("Evictions by workload:", table, console)
    _print_more(len(order) - MOST_WORKLOADS, console)


def _print_more(more: int, console: Console) -> None:
    if more > 0:
        console.print(Text(f"… and {more} more; --output json has all\n"))


def print_idle(policies: Sequence[PolicyFigures], console: Console) -> None:
    """Print for how many hours each policy did nothing about overloaded nodes, and why."""
    lines = list(_idle(policies))
    if lines:
        text = Text("\n".join(plain(f"  {line}") for line in lines))
        print_section("Hours with overloaded nodes and without an eviction:", text, console)


def _idle(policies: Sequence[PolicyFigures]) -> Iterator[str]:
    for policy in policies:
        for each in policy.hours.idle:
            name = f"{policy.policy}: " if len(policies) > 1 else ""
            yield f"{name}{each.hours} for {each.reason}: {sentence_of(each.reason)}"
