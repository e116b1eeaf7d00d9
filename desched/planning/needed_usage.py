"""Of which pods the usage decides something; of other pods the sum on their node is enough."""

from collections.abc import Iterator

from desched.model.load import PodChoice
from desched.model.plan import NodeClass
from desched.planning.clocks import SEEMS_EARLIER
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.classification import ClassifiedNodes
from desched.policy.compatibility import SteeringMode


def needed_pods(classified: ClassifiedNodes) -> PodChoice:
    """The pods to read, by nodes that were classified without their usage.

    It is a first choice: with the usage of these pods it may name others. What the choice
    overlooks, the book of the decision records (see `UsageBook`).

    Raises:
        ConfigurationError: the policy names a PriorityClass that does not exist.
    """
    book, cluster = classified.book, classified.book.snapshot.cluster
    context = EligibilityContext.of(book, classified.state)
    overloaded = classified.pressure.of_class(NodeClass.OVERLOADED)
    nodes = {*book.required, *_awaiting(context), *_steered(context)}
    if overloaded:
        for resource in book.windows:
            for loaded in overloaded:
                for pod in cluster.pods_by_node[loaded.node.name]:
                    book.demand(pod, resource)
            for pod in cluster.pods:
                if not (pod.node or pod.finished or pod.deleting or pod.gated):
                    book.expected(pod, resource)
        nodes |= {loaded.node.name for loaded in overloaded}
    return PodChoice(frozenset(nodes)) | (book.missed if overloaded else PodChoice())


def _awaiting(context: EligibilityContext) -> Iterator[str]:
    """The nodes on which replacements of evictions in flight are, or are expected."""
    if not context.state.in_flight:
        return
    workloads = {record.workload_uid for record in context.state.in_flight}
    since = min(record.evicted_at for record in context.state.in_flight) - SEEMS_EARLIER
    for pod in context.cluster.pods:
        if pod.created_at >= since and pod.node:
            workload = context.cluster.workload_of(pod)
            if workload is not None and workload.uid in workloads:
                yield pod.node
    yield from (record.expected_node for record in context.state.in_flight)


def _steered(context: EligibilityContext) -> Iterator[str]:
    """The nodes whose load decides whether desched's taint stays."""
    if context.policy.steering.mode is SteeringMode.ALWAYS:
        yield from (node.name for node in context.cluster.nodes if node.steered_until)
