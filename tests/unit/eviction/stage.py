"""A plan to execute in virtual time, with scripted responses and a log of all calls."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from desched.errors import ObservationError, ObservationSource, StopActing
from desched.eviction.executor import carry_out
from desched.eviction.journal import Journal
from desched.eviction.requests import Acting
from desched.lab.clock import VirtualClock
from desched.model.cluster import ClusterState, Pod, PodDisruptionBudget, PodRef
from desched.model.load import ClusterLoad, PodUsage
from desched.model.plan import Plan, PlannedEviction
from desched.model.report import EvictionVerdict, Outcome
from desched.model.snapshot import FreshPod, Room
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.context import EligibilityContext
from desched.planning.overload.pod_usage import UsageBook
from desched.planning.plugins import Plugin
from desched.plugins import HOUSE
from desched.policy.policy import EvictionLimits, Policy
from desched.ports import (
    Announcement,
    ChoosePods,
    EvictionAnswer,
    MaybeFreshPod,
    PodToRead,
    World,
    all_pods,
)
from tests.builders import (
    NOW,
    budget,
    certain,
    load,
    node,
    planned_eviction,
    pod,
    policy,
    rule,
    snapshot,
    workload,
)

Answer = EvictionAnswer | StopActing

OK = EvictionAnswer(EvictionVerdict.EVICTED)
TAKEN_OVER = EvictionAnswer(EvictionVerdict.TAKEN_OVER, "triggered migration")
BLOCKED = EvictionAnswer(EvictionVerdict.BLOCKED_BY_BUDGET, "needs 2 healthy pods")
FORBIDDEN = EvictionAnswer(EvictionVerdict.FORBIDDEN, "no")
LOST = StopActing("no answer within 10 s")


def throttled(seconds: float | None) -> EvictionAnswer:
    return EvictionAnswer(EvictionVerdict.THROTTLED, "slow down", seconds)


GANG = "gang apps/llama (coscheduling)"
GANG_LABELS = (
    "pod-group.scheduling.sigs.k8s.io/name",
    "pod-group.scheduling.sigs.k8s.io/min-available",
)


class Deed(NamedTuple):
    """What was done, when in seconds since the start, and for which pod."""

    at: float
    what: str
    pod: str


class Stage(Journal):
    """All the ports of acting.

    Each move is `pod@node of workload`, or ends in ` in namespace`. Answers are by pod, in their
    turn, then OK. `allowed` tells by workload what its budget allows at a time; without an entry
    there is no budget. With `covers_all` such a budget covers the pods of every workload of the
    namespace. With `spends` each accepted eviction leaves its budget and its workload one less.
    Earlier cycles made evictions so many `seconds_before` this one. The pods of `gang` move whole.
    """

    def __init__(
        self,
        *moves: str,
        per_minute: int | None = None,
        deadline_seconds: int = 240,
        seconds_before: Sequence[float] = (),
        gang: str = "",
        plugins: tuple[Plugin, ...] = HOUSE,
    ) -> None:
        self.clock = VirtualClock(NOW)
        self.log: list[Deed] = []
        self.answers: dict[str, list[Answer]] = {}
        self.allowed: dict[str, Callable[[float], int]] = {}
        self.fence: Callable[[], bool] = lambda: True
        self.remembered: set[str] = set()
        self.looked_at: list[str] = []  # the pods of each call, in one word
        self.notes: list[str] = []
        self.announced_times: dict[str, datetime] = {}
        self.evicted: list[PodRef] = []
        self.covers_all = self.spends = False
        self.store_fails_for = self.handing_over_fails_for = ""
        self.unreadable = ""
        self.unsteered = ""
        self.seconds_by_deed: dict[str, float] = {}
        self.present: Callable[[Pod], Pod | None] = lambda one: one
        pods = [_pod(move) for move in moves]
        labels = dict(zip(GANG_LABELS, ("llama", str(len(gang))), strict=True))
        self.pods = [
            replace(p, labels={**p.labels, **labels}) if p.name in gang else p for p in pods
        ]
        self.dry_answers: dict[str, Answer | ObservationError] = {}
        self.room = Room(node("cool"), ()) if gang else None
        self.workloads = {
            p.labels["app"]: workload(p.labels["app"], 9, p.namespace) for p in self.pods
        }
        self._nodes = {name: node(name) for name in sorted({p.node for p in self.pods})}
        self.plan = Plan((), tuple(_planned(p, GANG if p.name in gang else "") for p in self.pods))
        limits = EvictionLimits(per_minute=per_minute, deadline_seconds=deadline_seconds)
        by = policy(rule(), limits=limits, plugins=plugins)
        usage = PodUsage((500.0,), (2.0**29,))
        of_load = replace(
            load(dict.fromkeys(self._nodes, (0.9, 0.1))),
            pods={(p.namespace, p.name): usage for p in self.pods},
        )
        seen = snapshot(self._nodes.values(), self.pods, of_load, self.workloads.values())
        book = UsageBook(seen, by, NOW)
        state = State(tuple(map(_evicted_before, seconds_before)))
        self._context = EligibilityContext.of(book, state)

    # The ports

    def read_cluster(self, *_: Sequence[str]) -> ClusterState:
        raise NotImplementedError

    def read_load(
        self, cluster: ClusterState, policy: Policy, choose: ChoosePods = all_pods
    ) -> ClusterLoad:
        raise NotImplementedError

    def read_around(self, pods: Sequence[PodToRead]) -> Sequence[MaybeFreshPod]:
        self.looked_at.append("".join(each.pod.name for each in pods))
        self._did("looked", *(each.pod for each in pods))
        return [self._look(each) for each in pods]

    def _look(self, at: PodToRead) -> MaybeFreshPod:
        ref, room_on = at.pod, at.room_on
        if ref.name == self.unreadable:
            return ObservationError(ObservationSource.CLUSTER, "it could not be read")
        planned = next(p for p in self.pods if p.name == ref.name)
        found = self.present(planned)
        if found is None:
            return None
        of = self.workloads[planned.labels["app"]]
        if self.spends:
            gone = sum(p.ref in self.evicted and p.labels == planned.labels for p in self.pods)
            of = replace(of, ready_replicas=(of.ready_replicas or 0) - gone)
        all_pods = map(self.present, self.pods) if at.siblings else ()
        siblings = tuple(p for p in all_pods if p is not None)
        return FreshPod(
            found,
            self._nodes.get(found.node),
            of,
            None,
            self._budgets(of.namespace),
            self.room if room_on else None,
            siblings,
        )

    def would_evict(self, ref: PodRef, reason: str) -> EvictionAnswer:
        assert reason
        self._did("tried", ref)
        answer = self.dry_answers.get(ref.name, OK)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def evict(self, ref: PodRef, reason: str) -> EvictionAnswer:
        assert reason
        assert ref.name in self.remembered
        self._did("asked", ref)
        script = self.answers.get(ref.name, [])
        answer = script.pop(0) if script else OK
        if answer in (OK, TAKEN_OVER):
            self.evicted.append(ref)
        if isinstance(answer, StopActing):
            raise answer
        return answer

    def announce(self, announcements: Sequence[Announcement]) -> None:
        for each in announcements:
            self.notes.append(each.note)
            self.announced_times[each.eviction.pod.name] = each.at
        self._did("announced", *(each.eviction.pod for each in announcements))

    def may_act(self) -> bool:
        return self.fence()

    def remember(self, *evictions: PlannedEviction) -> None:
        names = [each.pod.name for each in evictions]
        self._did("remembered", *(each.pod for each in evictions))
        if self.store_fails_for in names:
            raise StopActing("somebody else changed the state")
        self.remembered |= {*names}

    def forget(self, *evictions: PlannedEviction) -> None:
        self._did("forgot", *(each.pod for each in evictions))
        self.remembered -= {each.pod.name for each in evictions}

    def hand_over(self, eviction: PlannedEviction) -> None:
        self._did("handed over", eviction.pod)
        if eviction.pod.name == self.handing_over_fails_for:
            raise StopActing("somebody else changed the state")

    def doubt(self, eviction: PlannedEviction) -> None:
        self._did("doubted", eviction.pod)

    def steer(self, eviction: PlannedEviction) -> str:
        return "a node changed" if eviction.pod.name == self.unsteered else ""

    # What tests say and ask

    def run(self) -> list[str]:
        """Carry the plan out; the verdicts in the order of the reports."""
        world = World(self, self, self.clock, self, self.may_act)
        acting = Acting(world, self._context, self, self.steer)
        self.outcomes: Sequence[Outcome] = carry_out(self.plan, acting)
        assert [outcome.pod for outcome in self.outcomes] == [e.pod for e in self.plan.evictions]
        return [outcome.verdict.value for outcome in self.outcomes]

    def times(self, what: str, *pods: str) -> list[float]:
        """When this was done for these pods; for any pod if none is named."""
        return [d.at for d in self.log if d.what == what and (not pods or d.pod in pods)]

    @property
    def asked(self) -> list[str]:
        """The pods that were asked for, in this order."""
        return [deed.pod for deed in self.log if deed.what == "asked"]

    def _did(self, what: str, *refs: PodRef) -> None:
        self.log += [Deed(self.clock.monotonic(), what, ref.name) for ref in refs]
        self.clock.advance(self.seconds_by_deed.get(what, 0.0))

    def _budgets(self, namespace: str) -> tuple[PodDisruptionBudget, ...]:
        return tuple(
            replace(
                budget(
                    f"guard-{app}",
                    self._allowed(app, namespace),
                    **({} if self.covers_all else {"app": app}),
                ),
                namespace=namespace,
            )
            for app in self.allowed
            if app not in self.workloads or self.workloads[app].namespace == namespace
        )

    def _allowed(self, app: str, namespace: str) -> int:
        evicted = (ref for ref in self.evicted if ref.namespace == namespace)
        apps = [p.labels["app"] for ref in evicted for p in self.pods if p.ref == ref]
        spent = len(apps) if self.covers_all else apps.count(app)
        return self.allowed[app](self.clock.monotonic()) - (spent if self.spends else 0)


def _evicted_before(seconds: float) -> EvictionRecord:
    name = f"earlier-{seconds}"
    ref = PodRef("apps", name, f"uid-{name}")
    return EvictionRecord(
        ref, "n", f"uid-of-{name}", NOW - timedelta(seconds=seconds), certain("m")
    )


def _pod(move: str) -> Pod:
    name, _, rest = move.partition("@")
    on, _, rest = rest.partition(" of ")
    of, _, namespace = rest.partition(" in ")
    return pod(name, on=on, of=of, namespace=namespace or "apps")


def _planned(one: Pod, gang: str) -> PlannedEviction:
    app = one.labels["app"]
    return planned_eviction(
        one.ref,
        one.node,
        "cool",
        workload=f"Deployment {one.namespace}/{app}",
        workload_uid=f"uid-{app}",
        gang=gang,
    )
