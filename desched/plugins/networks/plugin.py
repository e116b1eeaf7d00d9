"""How networks take part in a decision."""

from collections.abc import Callable, Iterable

from desched.api_objects.plugin_kinds import ReadingPlugin
from desched.model.cluster import ClusterState, Node
from desched.model.plan import RefusalReason
from desched.network.objects import NetworkObjects
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
from desched.policy.placement_domains import KNOWN_DOMAINS, DomainMode, PlacementDomains, tier_of
from desched.policy_keys.notes import Notes


class Networks(ReadingPlugin, frozen=True):
    """Keeps pods in the parts of the network where they are."""

    placement_domains: PlacementDomains = KNOWN_DOMAINS
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

    @property
    def known_domains(self) -> PlacementDomains:
        """Those of the policy."""
        return self.placement_domains

    def node_labels(self, cluster: ClusterState) -> Iterable[str]:
        """The labels of the levels of Topologies."""
        topologies = NetworkObjects.of(cluster.extras).topologies
        return {level for topology in topologies for level in topology.levels}

    def node_domains(self, key: str, cluster: ClusterState) -> Callable[[Node], str | None] | None:
        """The HyperNode of each node, for the key of a tier."""
        tree, tier = NetworkObjects.of(cluster.extras).tree, tier_of(key)
        if tier is None:
            return None

        def hyper_node(node: Node) -> str | None:
            return next(
                (part.name for part in tree.place(node.name).path if part.tier == tier), None
            )

        return hyper_node

    def limit(self, context: EligibilityContext, arrays: NodeArrays) -> DomainLimit:
        """No pod lands outside its placement domains."""
        return DomainLimit(Domains(context, arrays))
