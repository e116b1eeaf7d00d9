"""The nodes that are held for what they are drained for, or for reserves."""

from collections.abc import Iterator

from desched.model.plan import PlannedTaint
from desched.planning.eligibility.context import EligibilityContext
from desched.plugins.gpus.drains.reserves import free_nodes
from desched.plugins.gpus.drains.rules import GpuDrainRules


def held_nodes(context: EligibilityContext, rules: GpuDrainRules) -> Iterator[PlannedTaint]:
    """The soft taints that hold nodes of drains under way, and nodes of reserves that are free."""
    for drain in context.state.drains:
        if drain.under_way:
            for node in drain.nodes:
                yield PlannedTaint(node, f"it is drained for {drain}")
    for reserve in rules.reserves:
        for node in free_nodes(reserve, context):
            yield PlannedTaint(node, f"it is free for the {reserve}")
