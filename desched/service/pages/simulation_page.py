"""A simulation as a page: the timelines of all policies beside that without desched."""

from desched.model.simulated import Simulated
from desched.service.pages.policy_figures import figures_beside
from desched.service.pages.timeline_page import Comparison, timeline_page
from desched.service.reports.formatting import count
from desched.service.reports.simulation import assumption


def simulation_page(simulated: Simulated) -> str:
    """The page of a simulation."""
    policies = simulated.policies
    hours = (simulated.ended_at - simulated.started_at).total_seconds() / 3600
    size = f"{count(simulated.nodes, 'node')} and {count(simulated.pods, 'pod')}"
    about = (
        f"{simulated.target}, {hours:g} hours from {simulated.started_at:%Y-%m-%d %H:%M} UTC",
        f"{size}, a cycle every {simulated.interval_seconds:.0f} s",
    )
    return timeline_page(
        Comparison(
            title=f"desched simulate: {simulated.target}",
            about=about,
            timelines=(policies[0].before, *(policy.after for policy in policies)),
            figures=figures_beside(policies),
            notes=tuple(map(assumption, simulated.assumed)),
        )
    )
