"""How networks take part in a decision."""

from collections.abc import Iterable

from desched.model.cluster import ClusterState
from desched.model.plan import RefusalReason
from desched.network.objects import NetworkObjects
from desched.network.placement_domains import NO_TIER, DomainMode, names_no_tier, tier_of
from desched.network.plugin import NetworkPlugin
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.kube_scheduler.node_arrays import NodeArrays
from desched.plugins.networks.domains import Domains
from desched.plugins.networks.keys import (
    NetworkKeys,
    PlacementDomainsSection,
    check_modes,
    domain_settings,
    placement_domains,
)
from desched.plugins.networks.kinds import NETWORK_KINDS
from desched.plugins.networks.limit import DomainLimit
from desched.plugins.networks.scopes import DomainOfNode, by_labels, by_tier
from desched.policy.policy import Policy
from desched.policy.wording import quoted
from desched.policy_keys.notes import Notes


class Networks(NetworkPlugin, frozen=True):
    """Keeps pods in the parts of the network where they are."""

    keys = NetworkKeys
    kinds = NETWORK_KINDS
    decides = frozenset({RefusalReason.PLACEMENT_DOMAIN})

    def strict(self) -> "Networks":
        """Domains do not count."""
        return Networks(placement_domains(PlacementDomainsSection(), DomainMode.IGNORE))

    def configured(self, args: NetworkKeys, notes: Notes) -> "Networks":
        """The domains of the section; those that it does not name are the known ones."""
        section = args.placement_domains or PlacementDomainsSection()
        check_modes(section, notes.below("placementDomains"))
        return Networks(placement_domains(section, self.placement_domains.mode))

    def further_settings(self) -> Iterable[tuple[tuple[str, ...], str]]:
        """The labels and their modes."""
        return domain_settings(self.placement_domains)

    def check(self, policy: Policy, notes: Notes) -> None:
        """Refuse a balanceScope that names no tier."""
        if names_no_tier(policy.balance_scope):
            notes.refuse(f"found {quoted(policy.balance_scope)}, which {NO_TIER}", "balanceScope")

    def node_labels(self, cluster: ClusterState) -> Iterable[str]:
        """Those of placement domains, and of the levels of Topologies."""
        topologies = NetworkObjects.of(cluster.extras).topologies
        levels = (level for topology in topologies for level in topology.levels)
        return {*self.placement_domains.keys, *levels}

    def node_domains(self, key: str, cluster: ClusterState) -> DomainOfNode | None:
        """By HyperNodes for the key of a tier, else by labels if it is one of a level."""
        tier = tier_of(key)
        if tier is not None:
            return by_tier(tier, cluster)
        return by_labels(key, self.placement_domains.rungs, cluster)

    def placement_limit(self, context: EligibilityContext, arrays: NodeArrays) -> DomainLimit:
        """No pod lands outside its placement domains."""
        return DomainLimit(Domains(context, arrays))
