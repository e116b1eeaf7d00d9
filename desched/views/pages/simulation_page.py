"""A simulation as a page: the timelines of all policies beside that without desched."""

from desched.views.formatting import count, span
from desched.views.pages.comparison_page import comparison_page
from desched.views.simulation import assumption
from desched.whatif.figures import Simulated


def simulation_page(simulated: Simulated) -> str:
    """The page of a simulation."""
    length = span(simulated.ended_at - simulated.started_at)
    size = f"{count(simulated.nodes, 'node')} and {count(simulated.pods, 'pod')}"
    about = (
        f"{simulated.target}, {length} from {simulated.started_at:%Y-%m-%d %H:%M} UTC",
        f"{size}, a cycle every {simulated.interval_seconds:.0f} s",
    )
    return comparison_page(
        f"desched simulate: {simulated.target}",
        about,
        simulated.policies,
        tuple(map(assumption, simulated.assumed)),
    )
