"""Finds the cycles that would do nothing, which a replay may leave out.

Most cycles of most clusters find no overloaded node. Whether a node is overloaded at all takes a
few array operations; a cycle takes several times as long.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from desched.lab.closed_loop import Descheduler
from desched.lab.history import Floats
from desched.lab.load import MEASURED
from desched.lab.world import Simulation
from desched.model.cluster import Node
from desched.planning.overload.scope import out_of_scope
from desched.policy.compatibility import SteeringMode
from desched.policy.policy import Policy

REMEMBERED = timedelta(minutes=65)
"""A node that was overloaded within this time may be a source, by the points of its last hour.

So may one with a pod that started within it, whose own past is added to that of the node.
"""


class CalmCycles:
    """The cycles of one policy in a simulation that need not run.

    With `has_gpus` all run, because each measures the GPUs.
    """

    def __init__(self, simulation: Simulation, policy: Policy, *, has_gpus: bool) -> None:
        self._simulation, self._policy = simulation, policy
        self._targets: dict[str, list[float]] = {}
        self._hot_at: datetime | None = None
        # Elsewhere more than the load of single nodes and the moves under way decides.
        self._may_be_left_out = (
            bool(policy.rules)
            and not has_gpus
            and not any(plugin.moves_without_overload for plugin in policy.plugins)
            and all(rule.resource in MEASURED for rule in policy.rules)
            and not policy.deviation
            and not policy.balance_scope
            and policy.steering.mode is not SteeringMode.ALWAYS
        )

    def is_next(self, desched: Descheduler) -> bool:
        """Whether a cycle now would do nothing, and leave everything as it is.

        The load of all nodes in scope is known, none is overloaded, no soft taint is set, and
        nothing is under way. False also where that takes more than a short look to find out.
        """
        nodes = self._simulation.cluster.nodes
        if not nodes or any(node.steered_until is not None for node in nodes):
            return False
        highest = self._simulation.load.highest(nodes, self._policy)
        # An unknown load is not known to be at most at the target.
        calm = np.all(highest <= self._targets_of(nodes), axis=1).tolist()
        now = self._simulation.clock.now()
        # What was before the first cycle is not known.
        if self._hot_at is None or any(
            self._is_in_scope(node)
            for node, is_calm in zip(nodes, calm, strict=True)
            if not is_calm
        ):
            self._hot_at = now
        # What was overloaded again and again within the last hour may be relieved.
        recently = self._hot_at, self._simulation.cluster.newest_start
        if any(at is not None and now - at < REMEMBERED for at in recently):
            return False
        may = self._may_be_left_out and desched.has_nothing_under_way
        return may and any(map(self._is_in_scope, nodes))

    def _targets_of(self, nodes: Sequence[Node]) -> Floats:
        """The targets of each node's pool: node x rule."""
        for node in nodes:
            if node.name not in self._targets:
                pool = self._policy.pool_of(node.labels)
                ratios = {rule.resource: rule.target_ratio for rule in pool.rules}
                self._targets[node.name] = [ratios[rule.resource] for rule in self._policy.rules]
        return np.array([self._targets[node.name] for node in nodes])

    def _is_in_scope(self, node: Node) -> bool:
        return out_of_scope(node, self._policy, self._simulation.clock.now()) is None
