"""The sizes of the soak."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from math import inf
from typing import Self

MOST_MEMORY_MIB = 512
"""What any process may take at any time."""


@dataclass(frozen=True)
class Incidents:
    """When what befalls a soak, and for how long; a lie of Prometheus every `lie_every_seconds`."""

    nodes_after_seconds: float
    nodes_seconds: float
    server_after_seconds: float
    server_seconds: float
    lie_every_seconds: float
    lie_lasts_seconds: float


@dataclass(frozen=True)
class Form:
    """How large a soak is, how long it lasts, and how often things happen.

    `churn_seconds`, `load_seconds` and `fault_seconds` are from one change to the next, and `pace`
    shortens (or lengthens) how long each of them lasts. The memory of a process counts once it has
    led for `warm_up_seconds`.
    """

    nodes: int
    busy_seconds: float
    interval_seconds: int
    window_seconds: int
    scrape_seconds: int
    lease_seconds: int
    renew_deadline_seconds: int
    retry_seconds: int
    sample_seconds: float
    churn_seconds: float
    load_seconds: float
    fault_seconds: float
    warm_up_seconds: float
    pace: float
    most_rss_growth_ratio: float
    incidents: Incidents | None = None

    def lasting(self, seconds: float) -> Self:
        """The same, but busy for so long; incidents come and go in proportion."""
        ratio = seconds / self.busy_seconds
        scaled = self.incidents and Incidents(*(ratio * each for each in astuple(self.incidents)))
        return replace(self, busy_seconds=seconds, incidents=scaled)

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the service."""
        return (
            *("--interval", f"{self.interval_seconds}s"),
            *("--lease-duration", f"{self.lease_seconds}s"),
            *("--renew-deadline", f"{self.renew_deadline_seconds}s"),
            *("--retry-period", f"{self.retry_seconds}s"),
        )

    @property
    def load_aware(self) -> Mapping[str, object]:
        """What the policy says beside what is published."""
        window = [f"{self.window_seconds}s"]
        cool_down = f"{max(10, 2 * self.window_seconds)}s"
        return {
            "windows": {"cpu": window, "memory": window},
            "steering": "WhenNeeded",
            "evictionLimits": {
                "total": max(3, self.nodes // 30),
                "perMinute": 60,
                "inFlight": {"total": 30, "destination": 4},
            },
            "followUp": {
                "patience": f"{max(60, 2 * self.window_seconds)}s",
                "coolDown": {"first": cool_down, "longest": "10m"},
                "nodeCoolDown": {"rounds": 4, "first": "60s", "longest": "5m"},
                "pause": {"workloads": 8, "within": "2m", "first": "30s", "longest": "2m"},
            },
        }


HOUR = Form(
    nodes=200,
    busy_seconds=3600,
    interval_seconds=20,
    window_seconds=60,
    scrape_seconds=10,
    lease_seconds=15,
    renew_deadline_seconds=10,
    retry_seconds=2,
    sample_seconds=10,
    churn_seconds=4,
    load_seconds=15,
    fault_seconds=75,
    warm_up_seconds=300,
    pace=1.0,
    most_rss_growth_ratio=0.05,
)
MINUTES = Form(
    nodes=24,
    busy_seconds=70,
    interval_seconds=4,
    window_seconds=18,
    scrape_seconds=3,
    lease_seconds=8,
    renew_deadline_seconds=4,
    retry_seconds=1,
    sample_seconds=2,
    churn_seconds=3,
    load_seconds=6,
    fault_seconds=7,
    warm_up_seconds=20,
    pace=0.25,
    most_rss_growth_ratio=0.1,  # short lives have not seen all that grows once
)
INCIDENTS = replace(
    HOUR,
    nodes=40,
    load_seconds=25,
    fault_seconds=120,
    most_rss_growth_ratio=1.0,  # half of the nodes go, and come back: see MOST_MEMORY_MIB
    incidents=Incidents(
        nodes_after_seconds=480,
        nodes_seconds=600,
        server_after_seconds=2160,
        server_seconds=120,
        lie_every_seconds=180,
        lie_lasts_seconds=30,
    ),
)
CALM = replace(INCIDENTS, incidents=None, fault_seconds=inf)
"""The same cluster, churn and load without any fault, to compare with."""

FORMS = {"hour": HOUR, "minutes": MINUTES, "incidents": INCIDENTS, "calm": CALM}
