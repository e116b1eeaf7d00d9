"""A backtest as a page: what happened beside what each policy would have done."""

from desched.views.backtest import about, caveat
from desched.views.pages.comparison_page import comparison_page
from desched.whatif.figures import Backtest


def backtest_page(backtest: Backtest) -> str:
    """The page of a backtest."""
    began, ended = (f"{at:%Y-%m-%d %H:%M}" for at in (backtest.started_at, backtest.ended_at))
    return comparison_page(
        f"desched backtest: {began} to {ended} UTC",
        about(backtest),
        backtest.policies,
        tuple(map(caveat, (*backtest.assumed, *backtest.unknown))),
    )
