"""What holds for gangs whether or not the plugin for gangs is there."""

from desched.gangs.members import gangs_of
from desched.model.cluster import Pod
from desched.model.plan import RefusalReason
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.eligibility.rules import Rule
from desched.planning.eligibility.terms import Why
from desched.planning.plugins import Plugin


class KnownGangs(Plugin, frozen=True):
    """Keeps all pods of gangs, as long as no other plugin decides when they may leave."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Pods of gangs stay, and pods with a hard topology while no plugin knows the network."""
        of_network = RefusalReason.PLACEMENT_DOMAIN
        return (
            Rule(RefusalReason.POD_GROUP, in_cluster=_in_gang, before=of_network, fallback=True),
            Rule(of_network, in_cluster=_in_one_domain, before=of_network, fallback=True),
        )

    def is_placed_together(self, pod: Pod, context: EligibilityContext) -> bool:
        """Whether the scheduler of one of its gangs places the pods together."""
        return any(group.placed_together for group in gangs_of(pod, context))


def _in_gang(pod: Pod, context: EligibilityContext) -> Why:
    for group in gangs_of(pod, context):
        return f"{group}: no plugin knows when its pods may leave"
    return None


def _in_one_domain(pod: Pod, context: EligibilityContext) -> Why:
    for group in gangs_of(pod, context):
        if group.topology is not None and group.topology.is_hard:
            return f"no plugin knows the network topology that {group} requires"
    return None
