"""Simulations as tables: policies side by side, and each node before and after."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from desched.model.backtest import NodeFigures, PolicyFigures
from desched.model.simulated import Assumed, Simulated
from desched.service.reports.formatting import count, percent, plain
from desched.service.reports.grouped_list import print_section
from desched.service.reports.reason_texts import sentence_of
from desched.service.reports.rendering import ReportFormat, rendered

MOST_NODES = 20

ASSUMPTIONS: Mapping[str, str] = {
    "load_stays": "Each pod goes on to use what it used over its longest window.",
    "load_follows_pods": "A replacement uses what its predecessor did; all other load stays.",
    "scheduler_simulated": "kube-scheduler's default profile places replacements, simulated.",
    "ready_at_once": "Each replacement is Ready a few seconds after it has a node.",
    "nothing_else_changes": "No rollout, autoscaler or person changes anything else.",
    "budgets_stay": "Each PodDisruptionBudget requires as many healthy pods as it does now.",
    "pods_not_measured": "These pods use what their siblings do, or what they request.",
    "nodes_unknown": "The load of these nodes stays unknown.",
}

Row = tuple[str, Callable[[PolicyFigures], str], Callable[[PolicyFigures], str]]
"""A label, what happens without desched, and with the policy."""

_NONE = "-"


def render_simulation(
    simulated: Simulated,
    format: ReportFormat,  # noqa: A002  (the word for it)
) -> str:
    """The simulation in one of the formats, ending in a newline."""
    return rendered(simulated, lambda console: print_simulation(simulated, console), format)


def print_simulation(simulated: Simulated, console: Console) -> None:
    """Print the simulation; it needs no colour, and 80 columns are enough for two policies."""
    hours = (simulated.ended_at - simulated.started_at).total_seconds() / 3600
    console.print(Text(f"desched · simulate · {plain(simulated.target)}", style="bold"))
    console.print(
        Text(
            f"{hours:g} hours from {simulated.started_at:%Y-%m-%d %H:%M} UTC, a cycle every "
            f"{simulated.interval_seconds:.0f} s; {count(simulated.nodes, 'node')}, "
            f"{count(simulated.pods, 'pod')}"
        )
    )
    console.print()
    console.print(_figures(simulated.policies))
    console.print()
    _print_nodes(simulated.policies, console)
    _print_idle(simulated.policies, console)
    lines = [f"  • {assumption(each)}" for each in simulated.assumed]
    print_section("Assumed:", Text("\n".join(lines), style="dim"), console)


def _figures(policies: Sequence[PolicyFigures]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold")
    table.add_column("no desched", justify="right", overflow="fold")
    for policy in policies:
        table.add_column(Text(plain(policy.policy)), justify="right", overflow="fold")
    for label, without, with_policy in ROWS:
        table.add_row(label, without(policies[0]), *map(with_policy, policies))
    if len({policy.without for policy in policies}) > 1:
        for policy in policies[1:]:  # their targets differ, and so does what is overloaded
            own = f"{policy.without.node_minutes:,.0f}"
            table.add_row(Text(f"… without desched by {plain(policy.policy)}"), own)
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


def _print_nodes(policies: Sequence[PolicyFigures], console: Console) -> None:
    """Print the nodes that were overloaded or changed, those with most minutes first."""
    by_node = list(zip(*(policy.nodes for policy in policies), strict=True))
    interesting = [each for each in by_node if _matters(each)]
    interesting.sort(key=lambda each: (-each[0].overloaded_minutes_before, each[0].node))
    if not interesting:
        console.print(Text("No node is overloaded, and nothing moves.\n"))
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("Node", overflow="fold")
    table.add_column("no desched", justify="right", overflow="fold")
    for policy in policies:
        table.add_column(Text(plain(policy.policy)), justify="right", overflow="fold")
        table.add_column("out/in", justify="right", overflow="fold")
    for figures in interesting[:MOST_NODES]:
        cells = [f"{figures[0].overloaded_minutes_before:,.0f}"]
        for each in figures:
            cells += [f"{each.overloaded_minutes_after:,.0f}", f"{each.evictions}/{each.landings}"]
        table.add_row(Text(plain(figures[0].node)), *cells)
    print_section("Minutes overloaded, and pods that left and came, by node:", table, console)
    if len(interesting) > MOST_NODES:
        more = len(interesting) - MOST_NODES
        console.print(Text(f"… and {more} more; --output json has all\n"))


def _matters(figures: Sequence[NodeFigures]) -> bool:
    return any(
        each.overloaded_minutes_before or each.overloaded_minutes_after or each.landings
        for each in figures
    )


def _print_idle(policies: Sequence[PolicyFigures], console: Console) -> None:
    lines = list(_idle(policies))
    if lines:
        text = Text("\n".join(plain(f"  {line}") for line in lines))
        print_section("Hours with overloaded nodes and without an eviction:", text, console)


def _idle(policies: Sequence[PolicyFigures]) -> Iterator[str]:
    for policy in policies:
        for each in policy.hours.idle:
            name = f"{policy.policy}: " if len(policies) > 1 else ""
            yield f"{name}{each.hours} for {each.reason}: {sentence_of(each.reason)}"


def assumption(assumed: Assumed) -> str:
    """What is assumed, in a sentence."""
    sentence = ASSUMPTIONS[assumed.assumption]
    return f"{sentence.removesuffix('.')} ({assumed.detail})." if assumed.detail else sentence
