"""An hour of incidents: half of the nodes gone, no API server, lies, slow clients, new labels.

They come on top of what the soak does anyway.
"""

import itertools
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

from desched.model.plan import HoldReason
from tests.controlplane.attacks import Attack, Patches, SlowClients
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.load_drill import PROMETHEUS
from tests.controlplane.load_faults import CASES
from tests.controlplane.manifests import Object, pod_spec
from tests.controlplane.replicas import Request
from tests.controlplane.soak_agenda import Action, Agenda
from tests.controlplane.soak_chaos import Chaos
from tests.controlplane.soak_churn import Churn
from tests.controlplane.soak_form import Incidents
from tests.controlplane.stranger import Samples
from tests.controlplane.tenants import LABELS, PATCHED, Tenant

LIES = [case for case in CASES if case.server == PROMETHEUS]
NEW_SERIES = 200
"""So many with each scrape, of pods that do not exist."""

AFTERWARDS = timedelta(minutes=2)
"""Without the API server no cycle ends; the first one after it is held."""


class Spell(NamedTuple):
    """An incident from its beginning to its end."""

    what: str
    began: datetime
    over: datetime

    def shown(self, cycles: Sequence[Object]) -> datetime | None:
        """When a cycle was first held because of it."""
        times = (
            datetime.fromisoformat(cycle["timestamp"])
            for cycle in cycles
            if cycle.get("hold") == HoldReason.CLUSTER_IN_TROUBLE
        )
        return next((at for at in times if self.began <= at < self.over + AFTERWARDS), None)

    def evictions(self, accepted: Sequence[Request], cycles: Sequence[Object]) -> list[Request]:
        """Those while it was known, which must not be."""
        shown = self.shown(cycles)
        return [r for r in accepted if shown and shown <= r.began < self.over]


class Trouble:
    """What befalls a soak at times that its form names, beside churn and faults.

    `spells` are incidents that are over, `attacks` what tenants do all the time.
    """

    def __init__(
        self,
        form: Incidents,
        plane: ControlPlane,
        churn: Churn,
        chaos: Chaos,
        agenda: Agenda,
    ) -> None:
        tenant = Tenant(plane, LABELS)
        metadata = {"name": PATCHED, "namespace": LABELS}
        tenant.creates(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec()}
        )
        self.attacks = [
            Attack("patches of a pod's labels, 58 KiB", Patches(tenant), 1),
            *(Attack(f"slow connections to :{port}", SlowClients(port), 1) for port in chaos.ports),
        ]
        self.spells: list[Spell] = []
        self._form = form
        self._churn = churn
        self._chaos = chaos
        self._agenda = agenda
        self._lies = itertools.cycle(LIES)
        self._over = threading.Event()

    def __enter__(self) -> Self:
        form, chaos = self._form, self._chaos
        for seconds, action in (
            (form.nodes_after_seconds, self._half_of_the_nodes),
            (form.nodes_after_seconds + form.nodes_seconds / 3, chaos.kill_leader),
            (form.nodes_after_seconds + form.nodes_seconds / 2, chaos.freeze_leader),
            (form.server_after_seconds, self._api_server),
        ):
            self._agenda.later(seconds, action)
        self._threads = [
            threading.Thread(target=attack.run, args=(self._over,), daemon=True)
            for attack in self.attacks
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def lie(self) -> None:
        """Prometheus answers with something that is not so, or in another way than it should."""
        case = next(self._lies)
        self._chaos.lie(case.fault, case.path, self._form.lie_lasts_seconds)

    def _half_of_the_nodes(self) -> None:
        give_back = self._churn.break_half()
        self._lasting("half of the nodes not Ready", self._form.nodes_seconds, give_back)

    def _api_server(self) -> None:
        give_back = self._chaos.cut_off()
        self._lasting("no API server", self._form.server_seconds, give_back)

    def _lasting(self, what: str, seconds: float, end: Action) -> None:
        began = datetime.now(UTC)

        def over() -> None:
            self.spells.append(Spell(what, began, datetime.now(UTC)))
            end()

        self._agenda.later(seconds, over)


def new_series() -> Iterator[Samples]:
    """Scrapes of a tenant's target whose labels have never been there before."""
    for scrape in itertools.count():
        yield [
            (
                "container_memory_working_set_bytes",
                {"namespace": LABELS, "pod": f"none-{scrape}-{number}", "container": "x"},
                1.0,
            )
            for number in range(NEW_SERIES)
        ]
