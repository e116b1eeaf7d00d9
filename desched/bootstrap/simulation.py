"""`desched simulate` with its parts: a snapshot file or a scenario, policies, and the figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console

from desched.cycle import observe
from desched.errors import ConfigurationError
from desched.model.state import State
from desched.policy.loading import load_policy
from desched.policy.policy import Policy
from desched.service.process.clock import SystemClock
from desched.snapshot_file.load_check import own_policy, refuse_unseen
from desched.snapshot_file.report import target_of
from desched.snapshot_file.storage import load_snapshot
from desched.views.formatting import plain
from desched.views.progress import ProgressLine
from desched.views.rendering import ReportFormat
from desched.views.simulation import print_simulation, render_simulation
from desched.whatif.demo import demo_policy
from desched.whatif.figures import Simulated
from desched.whatif.scenarios import (
    ai_scenario,
    guarded_scenario,
    published_scenario,
    steering_scenario,
)
from desched.whatif.simulate import Beginning, Course, simulate
from desched.whatif.world import Simulation

SCENARIOS: Mapping[str, Callable[[], Simulation]] = {
    "published": published_scenario,
    "guarded": guarded_scenario,
    "steering": steering_scenario,
    "ai": ai_scenario,
}
"""The clusters of the demonstration, by name."""


def simulated(start: str, policies: Sequence[Path], course: Course, stderr: TextIO) -> Simulated:
    """Simulate a snapshot file, or else the scenario of this name.

    Without policies, that of the file or of the demonstration is simulated.

    Raises:
        ConfigurationError: the file or a policy cannot be used.
    """
    given = [load_policy(path).policy for path in policies]
    names = [policy.source for policy in given]
    if len(set(names)) < len(names):
        raise ConfigurationError("Name each policy once; two runs of one policy are equal.")
    beginning = _beginning(start, given)
    with ProgressLine("Simulating", stderr, SystemClock()) as tell:
        return simulate(beginning, given or [beginning.policy], course, tell)


def _beginning(start: str, policies: Sequence[Policy]) -> Beginning:
    path = Path(start)
    if not path.exists() and start in SCENARIOS:
        own = demo_policy()
        snapshot = observe(SCENARIOS[start]().world(acting=False), own)
        return Beginning(snapshot, State(), own, f"scenario {start}")
    if not path.exists():
        raise ConfigurationError(
            f"{plain(start)} is neither a file nor one of the scenarios {', '.join(SCENARIOS)}."
        )
    content, name = load_snapshot(path), plain(start)
    own = own_policy(content, name)
    for policy in policies:
        refuse_unseen(policy, content, own, name)
    return Beginning(content.snapshot, content.state, own, target_of(content))


def write_simulation(found: Simulated, form: ReportFormat, stdout: TextIO) -> None:
    """Write the figures to standard output."""
    if form == "table" and stdout.isatty():
        print_simulation(found, Console(file=stdout))
    else:
        stdout.write(render_simulation(found, form))
