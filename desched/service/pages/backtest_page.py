"""A backtest as a page: what happened beside what each policy would have done."""

from desched.model.backtest import Backtest
from desched.service.pages.policy_figures import figures_beside
from desched.service.pages.timeline_page import Comparison, timeline_page
from desched.service.reports.backtest import about, caveat


def backtest_page(backtest: Backtest) -> str:
    """The page of a backtest."""
    policies = backtest.policies
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (backtest.started_at, backtest.ended_at))
    return timeline_page(
        Comparison(
            title=f"desched backtest: {began} to {ended} UTC",
            about=about(backtest),
            timelines=(policies[0].before, *(policy.after for policy in policies)),
            figures=figures_beside(policies),
            notes=tuple(map(caveat, (*backtest.assumed, *backtest.unknown))),
        )
    )
