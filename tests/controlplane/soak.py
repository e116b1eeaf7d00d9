"""The soak: churn, changing load and random faults for an hour, then checks and a report.

`python -m tests.controlplane.soak --report DIRECTORY` runs it on a control plane of its own. Its
short form is a test.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from math import inf
from pathlib import Path

from tests.controlplane.binaries import BinariesUnavailableError, find_or_build
from tests.controlplane.cluster import BINARIES, ControlPlane
from tests.controlplane.forks import forget_failures
from tests.controlplane.replicas import Replicas
from tests.controlplane.sites import Sites
from tests.controlplane.soak_agenda import Action, Agenda, Journal
from tests.controlplane.soak_chaos import Chaos
from tests.controlplane.soak_churn import Churn
from tests.controlplane.soak_cluster import NAME, SoakCluster
from tests.controlplane.soak_form import FORMS, Form
from tests.controlplane.soak_incidents import Trouble, new_series
from tests.controlplane.soak_observer import (
    HeatWatch,
    Processes,
    Sample,
    TaintWatch,
    sample,
    steered,
)
from tests.controlplane.soak_outcome import Outcome
from tests.controlplane.soak_report import write_report
from tests.controlplane.soak_witness import AuditLog, Witness, complaints, cycles_of
from tests.controlplane.stranger import Stranger

_TICK_SECONDS = 0.5
_KUBELET_SECONDS = 10.0
_MOST_QUIET_SECONDS = 300.0


class Soak:
    """One run."""

    def __init__(self, form: Form, seed: int, plane: ControlPlane, sites: Sites) -> None:
        self._form = form
        self._plane = plane
        self._sites = sites
        self._seed = seed
        self._journal = Journal()
        self._agenda = Agenda(self._journal)
        self._cluster = SoakCluster(plane, form.nodes, _chance(seed, "cluster"))
        self._replicas = Replicas(sites, NAME, **form.load_aware)
        self._replicas.prepare = partial(forget_failures, 2.0 * form.interval_seconds)
        self._taints = TaintWatch(max(45.0, 6 * form.interval_seconds))
        self._processes = Processes()
        self._samples: list[Sample] = []
        self._heat = HeatWatch(plane, 3 * (form.window_seconds + form.interval_seconds))
        self._needless: list[str] = []
        self._trouble: Trouble | None = None
        self._checked = 0
        self._sampled_at = 0.0

    def run(self) -> Outcome:
        """Build, let it be busy, let it calm down, and judge."""
        self._journal.note("phase", "start", f"seed {self._seed}")
        pods = self._build()
        account = self._sites.account
        user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
        form = self._form
        with (
            closing(AuditLog(self._plane.audit_log)) as log,
            Chaos(
                self._sites,
                self._agenda,
                self._journal,
                _chance(self._seed, "faults"),
                form.pace,
                lambda: self._witness.holder,
            ) as self._chaos,
        ):
            self._witness = Witness(self._replicas, log, user, form.lease_seconds)
            try:
                self._chaos.start(self._replicas, form.flags)
                self._wait_until_measured(pods)
                self._wait_for_cycles(2)
                self._busy()
                in_flight = self._quiet()
            finally:
                self._replicas.stop()
            self._witness.look()
        return self._outcome(in_flight)

    def _build(self) -> int:
        """Make the cluster, and return how many pods it has."""
        self._sites.install_permissions("overlays/evict")
        pods = self._cluster.build()
        self._sites.allow_state_in(NAME)
        self._plane.wait_for(f"{pods} Running pods", lambda: self._running() >= pods, 1200)
        self._journal.note("phase", "built", f"{self._form.nodes} nodes, {pods} pods")
        return pods

    def _wait_until_measured(self, pods: int) -> None:
        """Until the windows are full; meanwhile the replicas choose a leader."""
        self._sites.prometheus.wait_until_has(
            'count(container_memory_working_set_bytes{container!=""} '
            f"offset {self._form.window_seconds}s) >= {pods}",
            timeout=self._form.window_seconds + 300,
        )
        self._journal.note("phase", "measured")

    def _running(self) -> int:
        return sum(pod["status"].get("phase") == "Running" for pod in self._plane.seen_pods)

    def _wait_for_cycles(self, count: int) -> None:
        enough = len(cycles_of(self._replicas)) + count
        self._plane.wait_for(
            f"{count} cycles", lambda: len(cycles_of(self._replicas)) >= enough, 300
        )

    def _busy(self) -> None:
        form = self._form
        churn = Churn(
            self._cluster,
            self._agenda,
            self._journal,
            _chance(self._seed, "churn"),
            form.pace,
        )
        self._journal.restart()
        self._journal.note("phase", "busy")
        repeated: list[tuple[float, Action]] = [
            (form.churn_seconds, churn.change),
            (form.load_seconds, churn.heat),
            (form.fault_seconds, self._chaos.strike),
            (_KUBELET_SECONDS, churn.report_pods),
        ]
        with ExitStack() as stack:
            if form.incidents is not None:
                self._trouble = stack.enter_context(
                    Trouble(form.incidents, self._plane, churn, self._chaos, self._agenda)
                )
                repeated.append((form.incidents.lie_every_seconds, self._trouble.lie))
            self._live([each for each in repeated if each[0] < inf])

    def _live(self, repeated: Sequence[tuple[float, Action]]) -> None:
        until = time.monotonic() + self._form.busy_seconds
        due = {action: time.monotonic() for _, action in repeated}
        while time.monotonic() < until:
            for every, action in repeated:
                if due[action] <= time.monotonic():
                    due[action] = time.monotonic() + every
                    self._agenda.attempt(action)
            self._tick()

    def _tick(self) -> None:
        self._agenda.run_due()
        self._heat.look()
        self._witness.look()
        self._check_need()
        self._taints.look(self._plane.seen_nodes, self._chaos.calm_since_seconds)
        self._chaos.forget_requests()
        if time.monotonic() - self._sampled_at >= self._form.sample_seconds:
            self._sampled_at = time.monotonic()
            seconds = self._journal.seconds()
            self._samples.append(sample(self._plane, seconds, len(self._witness.accepted)))
            self._processes.look(self._chaos.running, seconds, self._witness.holder)
        time.sleep(_TICK_SECONDS)

    def _check_need(self) -> None:
        accepted = self._witness.accepted
        for eviction in accepted[self._checked :]:
            node = self._witness.sources.get(eviction.name)
            if node is None:  # the log does not have yet what was written before it
                break
            self._checked += 1
            if not self._heat.was_hot(node, eviction.began):
                self._needless.append(f"needless: {eviction.name} left {node}, which was not hot")

    def _quiet(self) -> list[str]:
        """Let what is under way come to its end, and return what has not."""
        self._journal.note("phase", "quiet")
        self._agenda.finish()
        settled_seconds = max(4 * self._form.interval_seconds, self._form.window_seconds)
        began = calm = time.monotonic()
        while (now := time.monotonic()) - calm < settled_seconds:
            if now - began > _MOST_QUIET_SECONDS:
                break
            self._tick()
            if self._witness.unexplained or steered(self._plane.seen_nodes):
                calm = time.monotonic()
        self._journal.note("phase", "end", f"{len(self._witness.accepted)} evictions")
        remembered = self._replicas.state()["evictions"]
        return [record["pod"]["name"] for record in remembered if not record["result"]]

    def _outcome(self, in_flight: list[str]) -> Outcome:
        return Outcome(
            form=self._form,
            seed=self._seed,
            journal=self._journal,
            samples=self._samples,
            witness=self._witness,
            cycles=cycles_of(self._replicas),
            complaints=complaints(self._replicas),
            growth=self._processes.growth(self._form.warm_up_seconds),
            lives=list(self._processes.lives.values()),
            taints=self._taints,
            needless=self._needless,
            left_tainted=sorted(steered(self._plane.seen_nodes)),
            in_flight=in_flight,
            spells=self._trouble.spells if self._trouble else (),
            attacks=self._trouble.attacks if self._trouble else (),
        )


def _chance(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{purpose} {seed}")  # noqa: S311  reproducible


def soak(form: Form, seed: int, binaries: Mapping[str, Path], directory: Path) -> Outcome:
    """Run on a control plane of its own; logs of the services are kept in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    refresh_seconds = form.scrape_seconds / 2
    with (
        ControlPlane(binaries, usage_refresh_seconds=refresh_seconds) as plane,
        Stranger() as stranger,
        plane.prometheus(f"{form.scrape_seconds}s", [stranger.job]) as prometheus,
    ):
        if form.incidents is not None:
            stranger.exposing = partial(next, new_series())
        return Soak(form, seed, plane, Sites(plane, prometheus, directory)).run()


def main() -> int:
    """Run it, write the report, and say with the exit code whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("soak"), metavar="DIRECTORY")
    parser.add_argument("--form", choices=FORMS, default="hour")
    parser.add_argument("--seconds", type=float, help="how long it is busy, instead")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    try:
        binaries = find_or_build(BINARIES, lambda line: print(line, file=sys.stderr, flush=True))
    except BinariesUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return 1
    form = FORMS[options.form]
    if options.seconds is not None:
        form = form.lasting(options.seconds)
    seed = random.randrange(2**32) if options.seed is None else options.seed  # noqa: S311
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"seed {seed}; logs in {directory}", flush=True)
    outcome = soak(form, seed, binaries, directory)
    write_report(outcome, options.report)
    for problem in outcome.problems:
        print(problem)
    print("all is well" if not outcome.problems else f"{len(outcome.problems)} problems")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
