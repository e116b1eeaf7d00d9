"""Simulations as tables: policies side by side, and each node before and after."""

from rich.console import Console
from rich.text import Text

from desched.views.formatting import count, plain, span
from desched.views.grouped_list import print_lines
from desched.views.policy_figures import figures_table, print_idle, print_nodes
from desched.views.reasons import describe
from desched.whatif.figures import Assumed, Simulated

WITHOUT = "no desched"


def print_simulation(simulated: Simulated, console: Console) -> None:
    """Print the simulation; it needs no colour, and 80 columns are enough for two policies."""
    length = span(simulated.ended_at - simulated.started_at)
    console.print(Text(f"desched · simulate · {plain(simulated.target)}", style="bold"))
    console.print(
        Text(
            f"{length} from {simulated.started_at:%Y-%m-%d %H:%M} UTC, a cycle every "
            f"{simulated.interval_seconds:.0f} s; {count(simulated.nodes, 'node')}, "
            f"{count(simulated.pods, 'pod')}"
        )
    )
    console.print()
    console.print(figures_table(simulated.policies, WITHOUT))
    console.print()
    print_nodes(simulated.policies, WITHOUT, console)
    print_idle(simulated.policies, console)
    print_lines("Assumed:", (f"• {assumption(each)}" for each in simulated.assumed), console)


def assumption(assumed: Assumed) -> str:
    """What is assumed, in a sentence."""
    return describe(assumed.assumption, plain(assumed.detail))
