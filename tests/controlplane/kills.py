"""A story of processes of desched, each of which is killed at a step, and of what they leave."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from desched.adapters.kubernetes.state_store import CONFIG_MAP, STATE_KEY
from desched.cli import ExitCode
from desched.model.state import EvictionRecord, Newcomers, State
from desched.model.stored_state import encode_state
from desched.planning.newcomers import TIMES
from desched.plugins.states import decode_state
from tests.controlplane.installation import ALONE, COMMAND, QUICK_LEASE, measured
from tests.controlplane.manifests import Object
from tests.controlplane.mortal_runs import KILLED, UNHARMED, Death, run, steps_in
from tests.controlplane.pairs import APPS, NAMESPACE, PAIRS, Pairs
from tests.controlplane.waiting import wait_for
from tests.mortal import Moment

MOST_TRIES = 3
"""A process that is slow may lose its lease, and so never come to its step."""

STATE = "desched-system"
LEASE = ("apis/coordination.k8s.io/v1", "leases/desched")
TAINT = "desched.io/overloaded"

SINGLE = ("--once", ALONE)
SERVICE = ("--interval", "2s", "--listen-address", "127.0.0.1:0", ALONE)


class Point(NamedTuple):
    """Where in its work a process is killed, and how faults.md says that.

    It is killed after the call: between two calls a process changes nothing that anyone sees, so
    that a kill before a call leaves what a kill after the one before it leaves.
    """

    said: str
    call: str
    since: str = ""
    moments: tuple[Moment, ...] = (Moment.AFTER,)


WITH_LEASE = (
    Point("reads the lease", "lease.read"),
    Point("makes the lease", "lease.create"),
    Point("renews the lease", "lease.replace", "lease.create"),
    Point("takes the lease", "lease.replace"),
    Point("releases the lease", "lease.release", moments=tuple(Moment)),
)
"""Of a process that contends for the lease, and evicts one pod as in the first cycle."""

FIRST_CYCLE = (
    Point("reads its state", "state.load"),
    Point("reads the cluster", "cluster.read_cluster"),
    Point("reads the load", "load.read_load"),
    Point("looks again at the pod", "cluster.read_around"),
    Point("sets a soft taint", "steerer.taint_all"),
    Point("writes the eviction down", "state.save"),
    Point("asks for the eviction", "evictor.evict"),
    Point("writes the Events of the eviction", "evictor.announce"),
    Point("writes down how the cycle ended", "state.save", "evictor.announce"),
)
"""Of a process that evicts one pod, whose replacement would come back without a soft taint."""

NEXT_CYCLE = (
    Point("removes the soft taint", "steerer.untaint_all"),
    Point("writes down what became of the move", "state.save", "steerer.untaint_all"),
    Point("writes the Event of what became of it", "events.settled"),
)
"""Of a service that begins when the replacement is Ready, and may not evict."""


class Status(NamedTuple):
    """What is to be seen from outside; `pods` are by name, on no node while they wait for one."""

    state: State
    pods: Mapping[str, str]
    tainted: frozenset[str]
    lease_held: bool
    told: int

    @property
    def begun(self) -> list[EvictionRecord]:
        """Evictions under way whose pod is gone."""
        return [record for record in self.state.in_flight if record.pod.name not in self.pods]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, and nothing is left of what was."""
        return not self.state.in_flight and not self.tainted


class Chapter(NamedTuple):
    """A process that was killed: what it found, what it left, and what others made of that."""

    point: Point
    moment: Moment
    before: Status
    left: Status
    after: Status
    calls: tuple[str, ...]

    def left_behind(self) -> str:
        """In words."""
        settled = self.before.state.in_flight and not self.left.state.in_flight
        found = {
            "a lease that nobody renews": self.left.lease_held,
            "a soft taint": bool(self.left.tainted),
            "a note of an eviction that did not begin": bool(self.left.state.in_flight)
            and not self.left.begun,
            "an eviction under way that is written down": bool(self.left.begun),
            "no Event of what became of the move": settled and self.left.told == self.before.told,
        }
        return ", ".join(words for words, so in found.items() if so) or "nothing"

    def made_good(self) -> str:
        """In words."""
        moved = {move.workload_uid for move in self.after.state.moves}
        followed_up = {record.workload_uid for record in self.left.begun} <= moved
        done = {
            "waits until the lease has run out": self.left.lease_held,
            "removes the taint": bool(self.left.tainted),
            "follows the move up": bool(self.left.begun) and followed_up,
            "forgets the note": bool(self.left.state.in_flight) and not self.left.begun,
        }
        return ", ".join(words for words, so in done.items() if so) or "begins anew"


class Story:
    """Pairs of nodes, and one process of desched after the other.

    One of the two pods on a hot node has to leave it, to the cold one of its pair; to the scheduler
    the hot one is the emptier one of the two. `undisturbed` are the calls of processes that evict
    one pod and do not die.
    """

    def __init__(self, sites: Pairs) -> None:
        """Jobs have been seen for an hour, so that no relieved node gets a taint against them."""
        self.undisturbed: list[list[str]] = []
        self._sites = sites
        self._plane = sites.plane
        self._policies = {most: self._policy(most) for most in (0, 1, PAIRS)}
        known = State(newcomers=Newcomers(1.0, (0.001,) * TIMES, datetime.now(UTC), None))
        self._plane.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": CONFIG_MAP, "namespace": STATE},
                "data": {STATE_KEY: encode_state(known).decode()},
            }
        )

    def kill(self, point: Point, moment: Moment) -> Chapter:
        """Let a process die there, and others put things in order, which evict nothing."""
        arguments = self._arguments(0 if point in NEXT_CYCLE else 1, *_flags(point))
        death = Death(point.call, moment, point.since)
        for _ in range(MOST_TRIES):
            if point in NEXT_CYCLE:
                self.undisturbed.append(self._evict(1))
            if point.since == "lease.create":
                self._plane.request("DELETE", _path(*LEASE))
            before = self.standing()
            ended = measured(lambda: run(arguments, death))
            left = self.standing()
            after = self.settle()
            if ended.returncode == KILLED:
                return Chapter(point, moment, before, left, after, tuple(steps_in(ended.stderr)))
            assert ended.returncode == ExitCode.DONE, ended.stderr
        raise AssertionError(f"in {MOST_TRIES} runs no process came to {death}")

    def end(self) -> Status:
        """All that is left to do is done, and followed up.

        One cycle does it, unless scrapes of some nodes come too late for it.
        """

        def relieved() -> bool:
            self._evict(PAIRS)
            return sum("hot" in node for node in self.standing().pods.values()) == PAIRS

        wait_for("each hot node has lost a pod", relieved)
        return self.settle()

    def _evict(self, most: int) -> list[str]:
        """Undisturbed, until all replacements are Ready; the calls that were made."""
        ended = measured(lambda: run(self._arguments(most, *SINGLE), UNHARMED))
        assert ended.returncode == ExitCode.DONE, ended.stderr
        self._wait_for_pods()
        return steps_in(ended.stderr)

    def settle(self) -> Status:
        """Cycles that may not evict, until nothing is left to do."""
        self._wait_for_pods()

        def quiet() -> Status | None:
            standing = self.standing()
            if standing.is_quiet:
                return standing
            ended = run(self._arguments(0, *SINGLE))
            # On a machine that is too busy the measurements of a moment may not be enough.
            assert ended.returncode in {ExitCode.DONE, ExitCode.OBSERVATION}, ended.stderr
            return None

        found = wait_for("nothing is under way", quiet, diagnosis=lambda: str(self.standing()))
        assert found is not None
        return found

    def standing(self) -> Status:
        """What is to be seen now."""
        nodes = self._plane.items("/api/v1/nodes")
        lease = self._found(*LEASE)
        events = self._plane.items(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
        return Status(
            state=self._state(),
            pods={p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in self._pods()},
            tainted=frozenset(n["metadata"]["name"] for n in nodes if TAINT in json.dumps(n)),
            lease_held=bool(lease and lease["spec"].get("holderIdentity")),
            told=sum(event["reason"] == "Moved" for event in events),
        )

    def _policy(self, most: int) -> Path:
        return self._sites.policy(
            f"policy-{most}",
            evictSingleReplica=True,
            evictionLimits={"total": most, "slowStart": False, "perMinute": 1000},
            steering="WhenNeeded",
            steeringMaxNodes="100%",
        )

    def _arguments(self, most: int, *flags: str) -> list[str]:
        return self._sites.arguments("--evict", *flags, policy=self._policies[most])[len(COMMAND) :]

    def _pods(self) -> list[Object]:
        return self._plane.pods(NAMESPACE)

    def _wait_for_pods(self) -> None:
        self._plane.wait_for_ready_pods(NAMESPACE, PAIRS * len(APPS))

    def _state(self) -> State:
        found = self._found("api/v1", f"configmaps/{CONFIG_MAP}")
        if found is None:
            return State()
        recollection = decode_state(found["data"][STATE_KEY])
        assert recollection.state is not None, recollection.problem
        return recollection.state

    def _found(self, api: str, path: str) -> Object | None:
        status, answer = self._plane.request("GET", _path(api, path))
        assert status in {200, 404}, answer
        return answer if status == 200 else None


def _path(api: str, path: str) -> str:
    return f"/{api}/namespaces/{STATE}/{path}"


def _flags(point: Point) -> tuple[str, ...]:
    if point in WITH_LEASE:
        return ("--once", *QUICK_LEASE)
    return SERVICE if point in NEXT_CYCLE else SINGLE
