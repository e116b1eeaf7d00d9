"""The moves of plugins, each on the state after those before."""

from desched.model.extras import PluginPlan
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.eligibility import Eligibility
from desched.planning.overload.classification import Pressure
from desched.planning.plugins import OtherMove, OtherMoves
from desched.planning.selection.all_nodes import Selection
from desched.planning.selection.trial import Trial


def other_moves(eligibility: Eligibility, pressure: Pressure, selection: Selection) -> OtherMoves:
    """The moves of all plugins after those of the selection."""
    trial = Trial(selection.destinations, selection.quota)
    moves, extras = list[OtherMove](), dict[str, PluginPlan]()
    for plugin in eligibility.context.policy.plugins:
        others = plugin.other_moves(
            eligibility, pressure, trial.destinations, trial.quota or selection.quota
        )
        for other in others.moves:
            trial.take(other.chosen[1])
        moves += others.moves
        extras |= others.extras
    return OtherMoves(tuple(moves), extras)


def no_other_moves(context: EligibilityContext) -> OtherMoves:
    """What plugins say if nothing may move."""
    extras = dict[str, PluginPlan]()
    for plugin in context.policy.plugins:
        extras |= plugin.no_moves(context.state).extras
    return OtherMoves(extras=extras)
