"""Samples that a Prometheus has from its first moment on, as if it had scraped for long."""

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from desched.adapters.prometheus.queries import CPU_MODES
from tests.controlplane.binaries import find_or_build

SCRAPE_SECONDS = 60
HISTORY_SECONDS = 40 * 60
FUTURE_SECONDS = 15 * 60
"""Longer than the tests take; a Prometheus knows nothing of samples that are yet to come."""

NEWEST_SECONDS_AGO = 2 - FUTURE_SECONDS

Labels = Mapping[str, str]
EXPORTER: Labels = {"job": "node-exporter"}
KUBELET: Labels = {"job": "kubelet", "metrics_path": "/metrics/cadvisor"}
Times = Sequence[float]  # seconds ago, oldest first
Curve = Callable[[float], float]  # of the seconds since the history began


def scraped(
    since: float = HISTORY_SECONDS, until: float = NEWEST_SECONDS_AGO, every: float = SCRAPE_SECONDS
) -> Times:
    """The times of scrapes from a time ago on, the newest exactly at `until`.

    What has not ended is scraped as long as the tests go on.
    """
    return [until + every * i for i in reversed(range(int((since - until) // every) + 1))]


def rising(per_second: float, since: float = 0.0) -> Curve:
    """A counter that begins at zero."""
    return lambda t: (t - since) * per_second


class History:
    """Samples with some labels in common, in the OpenMetrics text form."""

    def __init__(
        self, now: float, labels: Labels | None = None, every: float = SCRAPE_SECONDS
    ) -> None:
        """Scraped after each `every` seconds, unless a call has other times."""
        self._now = now
        self._labels = labels or {}
        self._times = scraped(every=every)
        self.lines: list[str] = []

    def series(self, name: str, labels: Labels, times: Times, value: Curve) -> None:
        """Samples whose value depends on the seconds since the history began."""
        scraped_as = EXPORTER if name.startswith("node_") else KUBELET
        labels = {**self._labels, **scraped_as, **labels}
        text = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items())
        self.lines += [
            f"{name}{{{text}}} {value(HISTORY_SECONDS - ago)!r} {self._now - ago:.3f}"
            for ago in times
        ]

    def cpu(
        self, labels: Labels, busy: float, times: Times | None = None, *, cpus: int = 2
    ) -> None:
        """The counters begin at the first sample, as after a boot."""
        times = self._times if times is None else times
        began = HISTORY_SECONDS - times[0]
        for cpu in map(str, range(cpus)):
            shares = dict.fromkeys(CPU_MODES, 0.0)
            shares |= {"idle": 1 - busy - 0.05, "user": busy, "iowait": 0.05}
            for mode, share in shares.items():
                self.series(
                    "node_cpu_seconds_total",
                    {"cpu": cpu, "mode": mode, **labels},
                    times,
                    rising(share, since=began),
                )

    def memory(
        self, labels: Labels, used: float, times: Times | None = None, *, total: float = 1000.0
    ) -> None:
        times = self._times if times is None else times
        for part, share in (("MemAvailable", 1 - used), ("MemTotal", 1.0)):
            self.gauge(f"node_memory_{part}_bytes", labels, total * share, times)

    def gauge(
        self, name: str, labels: Labels, value: float = 1.0, times: Times | None = None
    ) -> None:
        self.series(name, labels, self._times if times is None else times, lambda _: value)

    def container_cpu(self, labels: Labels, cores: float, times: Times | None = None) -> None:
        times = self._times if times is None else times
        self.series("container_cpu_usage_seconds_total", labels, times, rising(cores))

    def container_memory(self, labels: Labels, used: float) -> None:
        self.gauge("container_memory_working_set_bytes", labels, used)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"")


def write_blocks(histories: Iterable[History], data: Path) -> None:
    """Make blocks of them in the directory, for a Prometheus that has not started yet."""
    text = data.with_suffix(".openmetrics")
    lines = [line for history in histories for line in history.lines]
    text.write_text("\n".join([*lines, "# EOF", ""]))
    promtool = find_or_build(["promtool"])["promtool"]
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet", text, data],
        check=True,
        capture_output=True,
    )
