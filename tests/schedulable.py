"""Where a pod may go, by the filters of plans and by those of simulations."""

from desched.lab.scheduler.choice import score_nodes
from desched.lab.scheduler.view import ClusterView
from desched.model.cluster import ClusterState, Pod
from tests.builders import free_capacity


def schedulable(one: Pod, cluster: ClusterState) -> list[str]:
    """The names of the nodes that take a further such pod, on which both agree."""
    planned = planned_for(one, cluster)
    assert sorted(score_nodes(one, ClusterView(cluster))) == sorted(planned)
    return planned


def planned_for(one: Pod, cluster: ClusterState) -> list[str]:
    """The same where simulations know less."""
    free = free_capacity(cluster)
    return [name for name, fits in zip(free.names, free.schedulable(one), strict=True) if fits]
