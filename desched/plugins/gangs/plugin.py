"""How gangs take part in a decision."""

from collections.abc import Mapping
from typing import Any

from desched.model.plan import Plan
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.plugins import Plugin
from desched.plugins.gangs.spread import gang_spreads


class Gangs(Plugin, frozen=True):
    """Reports how far apart the pods of gangs are."""

    def facts(self, context: EligibilityContext, plan: Plan) -> Mapping[str, Any]:
        """How far apart the pods of each gang are."""
        return {"gangs": gang_spreads(context, plan.nodes)}
