"""The figures of policies that timelines do not have themselves."""

from collections.abc import Sequence

from desched.model.backtest import PolicyFigures
from desched.service.pages.timeline_page import Figure


def figures_beside(policies: Sequence[PolicyFigures]) -> tuple[Figure, ...]:
    """The figures of each policy; the time without any has none."""
    return (
        Figure(
            "replicas moved again within the hour",
            (None, *(float(each.replicas_moved_again) for each in policies)),
        ),
        Figure(
            "landed too hot",
            (None, *(float(each.landed_overloaded + each.came_back) for each in policies)),
        ),
        Figure("minutes pending, all pods", (None, *(each.pending_minutes for each in policies))),
    )
