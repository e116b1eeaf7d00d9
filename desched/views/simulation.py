"""Simulations as tables: policies side by side, and each node before and after."""

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from desched.views.formatting import count, plain, span
from desched.views.grouped_list import print_section
from desched.views.policy_figures import figures_table, print_idle, print_nodes
from desched.views.rendering import ReportFormat, rendered
from desched.whatif.figures import Assumed, Simulated

ASSUMPTIONS: Mapping[str, str] = {
    "load_stays": (
        "Each pod uses what it used over its longest window, before and after the snapshot; "
        "sustainedFor delays only nodes that moves overload."
    ),
    "load_follows_pods": "A replacement uses what its predecessor did; all other load stays.",
    "scheduler_simulated": "kube-scheduler's default profile places replacements, simulated.",
    "ready_at_once": "Each replacement is Ready a few seconds after it has a node.",
    "nothing_else_changes": "No rollout, autoscaler or person changes anything else.",
    "budgets_stay": "Each PodDisruptionBudget requires as many healthy pods as it does now.",
    "pods_not_measured": "These pods use what their siblings do, or what they request.",
    "nodes_unknown": "The load of these nodes stays unknown.",
    "gpus_unknown": "GPU load is not known, so that a target for gpu keeps all pods with a GPU.",
}

WITHOUT = "no desched"


def render_simulation(
    simulated: Simulated,
    format: ReportFormat,  # noqa: A002  (the word for it)
) -> str:
    """The simulation in one of the formats, ending in a newline."""
    return rendered(simulated, lambda console: print_simulation(simulated, console), format)


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
    lines = [f"  • {assumption(each)}" for each in simulated.assumed]
    print_section("Assumed:", Text("\n".join(lines), style="dim"), console)


def assumption(assumed: Assumed) -> str:
    """What is assumed, in a sentence."""
    sentence = ASSUMPTIONS[assumed.assumption]
    return f"{sentence.removesuffix('.')} ({assumed.detail})." if assumed.detail else sentence
