"""What takes part in decisions beside load: one folder each, in one list.

To remove a plugin, delete its folder and its row. `desched.planning.plugins` has the places of a
decision where plugins are asked.
"""

from desched.gangs.plugin import KnownGangs
from desched.planning.plugins import Plugin
from desched.plugins.caches.plugin import Caches
from desched.plugins.gangs.plugin import Gangs
from desched.plugins.gpus.plugin import Gpus
from desched.plugins.networks.plugin import Networks
from desched.plugins.queues.plugin import Queues
from desched.plugins.schedulers.plugin import Schedulers
from desched.plugins.virtual_machines.plugin import VirtualMachines

HOUSE: tuple[Plugin, ...] = (
    KnownGangs(),
    Gangs(),
    Networks(),
    Gpus(),
    Caches(),
    Queues(),
    Schedulers(),
    VirtualMachines(),
)
"""The plugins of desched, in the order in which they take part; the first has no folder here."""
