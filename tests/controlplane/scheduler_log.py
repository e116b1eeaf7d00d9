"""What the scheduler logs of its decisions, and of what it knows."""

import re
from collections.abc import Collection, Mapping

from tests.controlplane.cluster import ControlPlane

EVENTS_FLAGS = ("--vmodule=eventhandlers=4",)
"""Makes the scheduler log which pods it knows to be gone, and which nodes to have changed."""
SCORES_FLAGS = ("--vmodule=eventhandlers=4,schedule_one=10",)
"""Makes it log what each plugin gave each node as well."""

_SCORED = re.compile(
    r'"(?P<what>Plugin scored node|Calculated node\'s final score) for pod" pod="(?P<pod>[^"]+)"'
    r'(?: plugin="(?P<plugin>[^"]+)")? node="(?P<node>[^"]+)" score=(?P<score>\d+)'
)

Scores = Mapping[str, Mapping[str, int]]
"""By plugin (`total` for their sum), the score of each node."""


class SchedulerLog:
    """The log from some moment on."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._start = control_plane.scheduler_log.stat().st_size

    def wait_for_pods_gone(self, pods: Collection[str]) -> None:
        """Until the scheduler knows that these pods, as NAMESPACE/NAME, hold nothing any more."""
        self._wait_for('"Delete event for scheduled pod" pod', pods)

    def wait_for_changed_nodes(self, nodes: Collection[str]) -> None:
        """Until it knows that these nodes have changed."""
        self._wait_for('"Update event for node" node', nodes)

    def scores(self, pod: str) -> Scores:
        """What it gave each node for this pod."""
        found: dict[str, dict[str, int]] = {}
        for match in _SCORED.finditer(self._text()):
            if match["pod"] == pod:
                plugin = match["plugin"] or "total"
                found.setdefault(plugin, {})[match["node"]] = int(match["score"])
        return found

    def _wait_for(self, event: str, names: Collection[str]) -> None:
        def are_known() -> bool:
            text = self._text()
            return all(f'{event}="{name}"' in text for name in names)

        self._control_plane.wait_for(f"{event}={sorted(names)} in the scheduler's log", are_known)

    def _text(self) -> str:
        with self._control_plane.scheduler_log.open("rb") as log:
            log.seek(self._start)
            return log.read().decode(errors="replace")
