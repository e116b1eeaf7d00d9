"""A whole simulated world: what a cycle needs, put together."""

from dataclasses import dataclass, field

from desched.ports import World
from desched.simulation.clock import VirtualClock
from desched.simulation.cluster import SimulatedCluster
from desched.simulation.eviction import SimulatedEvictor
from desched.simulation.load import SimulatedLoad
from desched.simulation.steering import SimulatedSteerer


@dataclass
class Simulation:
    """A simulated cluster with its measurements and its Eviction API, in one virtual time."""

    clock: VirtualClock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        self.cluster = SimulatedCluster(self.clock)
        self.load = SimulatedLoad(self.cluster)
        self.evictor = SimulatedEvictor(self.cluster)
        self.steerer = SimulatedSteerer(self.cluster)

    def world(self, *, acting: bool) -> World:
        """What a cycle gets; without `acting` it cannot evict."""
        if not acting:
            return World(self.cluster, self.load, self.clock, None)
        return World(self.cluster, self.load, self.clock, self.evictor, steerer=self.steerer)
