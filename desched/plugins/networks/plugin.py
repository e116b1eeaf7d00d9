"""How networks take part in a decision."""

from desched.model.plan import RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.planning.plugins import Plugin
from desched.plugins.networks.domains import Domains
from desched.plugins.networks.limit import DomainLimit


class Networks(Plugin, frozen=True):
    """Keeps pods in the parts of the network where they are."""

    decides = frozenset({RefusalReason.PLACEMENT_DOMAIN})

    def limit(self, context: EligibilityContext, arrays: NodeArrays) -> DomainLimit:
        """No pod lands outside its placement domains."""
        return DomainLimit(Domains(context, arrays))
