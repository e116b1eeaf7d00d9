"""Can nodes be held for pods that wait: with soft taints, and not bought a second time?"""

from desched.doctor.checks import Check, CheckName, ok, warning
from desched.doctor.examination import Examination, Unanswered
from desched.doctor.other_controllers import CLUSTER_AUTOSCALER, KARPENTER, autoscalers
from desched.doctor.rights import grant_of
from desched.model.cluster import ClusterState

_BUYS = {
    KARPENTER: (
        "Karpenter takes the soft taint of a drained node for a hard one, so it may add a node for "
        "the pod that the drained one is held for."
    ),
    CLUSTER_AUTOSCALER: (
        "It may add a node for a waiting pod while another one is drained for that pod."
    ),
}


def check_held_nodes(cluster: ClusterState, examination: Examination) -> Check:
    """Whether the nodes that plugins drain are held, and by them alone."""
    name, run = CheckName.HELD_NODES, examination.run
    plugins = examination.policy.policy.plugins
    configs = [plugin.in_profiles for plugin in plugins if plugin.moves_without_overload]
    draining = ", ".join(config.plugin_name() for config in configs if config is not None)
    if not draining:
        return ok(name, "The policy enables no plugin that drains nodes.")
    lacking = [right for right in examination.rights if right.feature == "steer" and right.missing]
    if run.evicts and lacking:
        return warning(
            name,
            f"{draining} is enabled, but the account may not set the soft taints that hold nodes, "
            "so none is drained.",
            f"{grant_of(lacking[0], run)}.",
        )
    if isinstance(examination.node_autoscalers, Unanswered):
        return warning(
            name,
            f"{draining} is enabled, and whether an autoscaler adds nodes is not known: "
            f"{examination.node_autoscalers.why}",
            "Ask with `kubectl get --raw /apis`.",
        )
    adding = {
        product: place
        for product, place in autoscalers(cluster, examination).items()
        if product in _BUYS
    }
    if adding:
        return warning(
            name,
            f"{draining} is enabled beside {', '.join(adding.values())}. "
            f"{' '.join(_BUYS[product] for product in adding)}",
            f"Use {draining} only where no autoscaler can add the nodes that it drains; else "
            "remove it from `plugins.balance.enabled`.",
        )
    return ok(name, "No autoscaler of nodes was seen; what runs outside cannot be seen.")
