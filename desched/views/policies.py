"""Simulations and backtests: policies beside the same time without desched."""

from rich.console import Console

from desched.history.past import Doubt
from desched.views.comparison import CPU_UNKNOWN, Comparison, policies_compared
from desched.views.comparison_table import print_comparison
from desched.views.formatting import count, percent, span
from desched.views.reasons import describe
from desched.whatif.figures import Assumed, Backtest, Backtests, Simulated


def print_simulation(found: Simulated, console: Console) -> None:
    """Print a simulation."""
    print_comparison(simulation_view(found), console)


def print_backtest(found: Backtest, console: Console) -> None:
    """Print a backtest."""
    print_comparison(backtest_view(found), console)


def print_backtests(found: Backtests, console: Console) -> None:
    """Print the backtest of each cluster."""
    for each in found.clusters:
        print_comparison(backtest_view(each.backtest, f"backtest · {each.cluster}"), console)


def simulation_view(found: Simulated) -> Comparison:
    """A simulation as it is shown."""
    length = span(found.ended_at - found.started_at)
    size = f"{count(found.nodes, 'node')}, {count(found.pods, 'pod')}"
    began = f"{length} from {found.started_at:%Y-%m-%d %H:%M} UTC"
    about = (f"{began}, a cycle every {found.interval_seconds:.0f} s; {size}",)
    title = f"simulate · {found.target}"
    assumed = tuple(map(sentence, found.assumed))
    return policies_compared(title, about, found.policies, [("Assumed", assumed)])


def backtest_view(found: Backtest, title: str = "backtest") -> Comparison:
    """A backtest as it is shown."""
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (found.started_at, found.ended_at))
    nodes, pods = count(found.nodes, "node"), count(found.pods, "pod")
    about = (
        f"{began} to {ended} UTC, a cycle every {found.interval_seconds:.0f} s",
        f"{nodes}, {pods} and {count(found.workloads, 'workload')} in this time",
        f"load known for {percent(found.covered_share)} % of the nodes' time",
    )
    unknown = [*map(sentence, found.unknown)]
    if any(each.without.full_cpu_node_minutes is None for each in found.policies):
        unknown.append(CPU_UNKNOWN)
    notes = [("Assumed", tuple(map(sentence, found.assumed))), ("Not known", tuple(unknown))]
    return policies_compared(title, about, found.policies, notes)


def sentence(of: Assumed | Doubt) -> str:
    """What is assumed or not known, in a sentence."""
    reason = of.assumption if isinstance(of, Assumed) else of.caveat
    return describe(reason, of.detail.removesuffix("."))
