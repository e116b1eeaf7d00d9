"""The parts of one run of desched, made from its settings."""

import math
from typing import NamedTuple

from desched.adapters.kubernetes.client.access import PATCH_NODE
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.evictor import KubernetesEvictor
from desched.adapters.kubernetes.permission import has_right
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.adapters.kubernetes.watch.cluster import ClusterWatch
from desched.adapters.kubernetes.watch.reader import WatchingReader
from desched.bootstrap.load_samples import LoadSamples
from desched.bootstrap.load_source import LoadSource
from desched.bootstrap.look import reader_of
from desched.bootstrap.state import state_store
from desched.model.report import Mode
from desched.model.state import State
from desched.ports import World
from desched.service.election.leadership import Leadership
from desched.service.inputs.policy_file import PolicyReading
from desched.service.inputs.state_keeper import StateKeeper
from desched.service.process.clock import SystemClock
from desched.service.steering.janitor import Janitor
from desched.service.steering.permission import SteeringPermission
from desched.service.telemetry.metrics import ServiceMetrics
from desched.settings import Settings


class Intent(NamedTuple):
    """What a run will do; `notice` is for the person who started it."""

    mode: Mode
    notice: str


class Process(NamedTuple):
    """The parts of a run.

    `leadership` is None without leader election, `janitor` in a run that must not write, `watch` in
    a run that lists.
    """

    settings: Settings
    kubernetes: KubernetesConnection
    clock: SystemClock
    intent: Intent
    identity: str
    leadership: Leadership | None
    events: EventWriter
    metrics: ServiceMetrics
    samples: LoadSamples
    janitor: Janitor | None = None
    watch: ClusterWatch | None = None

    def world(self) -> World:
        """The real world, with the means to change it only if that is intended."""
        request_seconds = self.settings.api_server_timeout.total_seconds()
        lister = reader_of(self.settings, self.kubernetes)
        watch = self.watch
        reader = lister if watch is None else WatchingReader(lister, watch, self.clock.wait)
        load = LoadSource(
            self.settings,
            self.kubernetes,
            self.clock,
            self.samples,
            keeps_sampling=self.settings.loops,
        )
        if self.intent.mode is Mode.DRY_RUN:
            return World(reader, load, self.clock, None, self.may_act)
        permission = SteeringPermission(
            lambda: has_right(self.kubernetes, PATCH_NODE, request_seconds), self.clock.monotonic
        )
        return World(
            reader,
            load,
            self.clock,
            KubernetesEvictor(
                self.kubernetes,
                self.events,
                deadline_seconds=request_seconds,
                seconds_left=self.seconds_left,
            ),
            self.may_act,
            KubernetesSteerer(
                self.kubernetes,
                deadline_seconds=request_seconds,
                seconds_left=self.seconds_left,
                when_denied=permission.denied,
            ),
            self.why_not,
            permission.granted,
        )

    def state(self) -> StateKeeper:
        """The state in the cluster.

        If there is none, earlier evictions are unknown to a service. With --once, the person who
        runs desched is responsible for them.
        """
        store = state_store(self.settings, self.kubernetes, self.seconds_left)
        afresh = State(since=self.clock.now() if self.settings.loops else None)
        may_write = self.may_act if self.intent.mode is Mode.EVICT else None
        return StateKeeper(store, self.clock, afresh, may_write, self.metrics.state_problem)

    def may_act(self) -> bool:
        """Whether a write may begin now."""
        return self.leadership is None or self.leadership.may_act()

    def why_not(self) -> str | None:
        """Why no write may begin now; None if one may."""
        return None if self.leadership is None else self.leadership.why_not()

    def seconds_left(self) -> float:
        """How long writes are still allowed."""
        return math.inf if self.leadership is None else self.leadership.seconds_left()

    def announce_refusal(self, reading: PolicyReading) -> None:
        """Write an Event on desched's own pod, if it is known, for an edit that was refused."""
        if reading.news and reading.problem:
            self.events.warn_on_self("PolicyRefused", reading.problem)
