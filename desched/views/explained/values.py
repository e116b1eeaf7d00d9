"""Explanations as values; docs/report.schema.json has their JSON."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from desched.model.cluster import PodRef
from desched.model.plan import HoldReason, NodeVerdict, PlannedEviction, RefusalReason
from desched.model.resources import Resource
from desched.model.state import MoveResult

EXPLANATION_VERSION = "desched.io/explanation/v2"


class PodOutcome(StrEnum):
    """What a plan makes of a pod."""

    EVICTED = "evicted"
    """The plan evicts it."""
    STAYS = "stays"
    """Something refuses it."""
    NOT_NEEDED = "not_needed"
    """No rule refuses it, but its node is not to be relieved."""


class RuleOutcome(StrEnum):
    """What a rule makes of a pod."""

    PASSED = "passed"
    REFUSED = "refused"
    LIFTED = "lifted"
    """It would refuse the pod, but an annotation requests the move."""


class PodSummary(msgspec.Struct, frozen=True):
    """A pod in one line.

    `cpu_millicores` and `memory_bytes` are its highest usage of the windows, None if it was not
    measured, or if `usage_read` is false: a service reads the usage of pods only where it decides.
    The ratios are that as shares of its node. `gpus` and `gpu_ratio` are the same of GPUs, None if
    the policy does not watch them or the pod requests none. `expected_on` are the
    likeliest nodes for the replacement of an evicted pod in words, else empty.
    """

    pod: PodRef
    node: str
    workload: str
    cpu_millicores: float | None
    memory_bytes: float | None
    cpu_ratio: float | None
    memory_ratio: float | None
    outcome: PodOutcome
    reason: RefusalReason | None = None
    detail: str = ""
    expected_on: str = ""
    usage_read: bool = True
    gpus: float | None = None
    gpu_ratio: float | None = None


class StayingLoad(msgspec.Struct, frozen=True):
    """The load of the pods that stay for one reason, as a share of their node's capacity."""

    reason: RefusalReason
    pods: int
    ratio: float


class LoadSummary(msgspec.Struct, frozen=True):
    """The load of one resource of a node beside its pods.

    `measured` has (window in seconds, ratio). `pods_ratio` is the usage of its measured pods as a
    share of its capacity, in the shortest window and without pods that are leaving, None if that is
    not known; `other_ratio` is the rest of the load that counts: the host, and pods that are not
    measured. `excess_ratio` is what the load is above the stop line, `relief_ratio` what the plan
    takes off it; both None if the resource is not overloaded. Then `staying` has what stays of it
    and why, the largest first.
    """

    resource: Resource
    measured: tuple[tuple[int, float], ...]
    age_seconds: float | None
    pods_ratio: float | None
    other_ratio: float | None
    excess_ratio: float | None = None
    relief_ratio: float | None = None
    staying: tuple[StayingLoad, ...] = ()


class NodeExplanation(msgspec.Struct, frozen=True):
    """A node with its load and its pods, the largest load first.

    `arriving` are planned evictions whose replacements are expected on it. `changes` is what would
    have to change for it to be relieved, or to be judged. `notes` is what plugins say of it.
    """

    verdict: NodeVerdict
    loads: tuple[LoadSummary, ...]
    pods: tuple[PodSummary, ...]
    arriving: tuple[PlannedEviction, ...] = ()
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class RuleLine(msgspec.Struct, frozen=True):
    """The verdict of one rule on a pod; `reason` is that of the refusal, else the rule's own."""

    reason: RefusalReason
    outcome: RuleOutcome
    detail: str = ""


class NodeChance(msgspec.Struct, frozen=True):
    """The forecast for one node: its probability, its total score, and that by plugin.

    `harmful` is true if a landing there would do harm.
    """

    node: str
    probability: float
    score: int
    by_plugin: dict[str, int]
    harmful: bool


class LandingForecast(msgspec.Struct, frozen=True):
    """Where the scheduler would put the replacement of a pod that is evicted now and alone.

    `nodes` are the likeliest, then those with the highest scores. `risk` is the probability of a
    harmful landing: `back_ratio` of them on its own node, `harm_ratio` elsewhere; at most
    `most_risk` is accepted, or any if that is None: the policy has no profile of the scheduler, and
    all nodes where the pod fits are equally likely. `without_taints` is the risk if no further node
    gets a soft taint; `steered` are the nodes that would get one.
    """

    nodes: tuple[NodeChance, ...]
    risk: float
    back_ratio: float
    harm_ratio: float
    most_risk: float | None
    without_taints: float
    steered: tuple[str, ...] = ()


class LoadChange(msgspec.Struct, frozen=True):
    """The load of one resource of a node before and after a move, with the lines that judge it."""

    node: str
    resource: Resource
    before_ratio: float
    after_ratio: float
    target_ratio: float
    stop_ratio: float
    ceiling_ratio: float


class Placement(msgspec.Struct, frozen=True):
    """Where a pod could go if it were evicted now and alone.

    Of `nodes`, `suitable` can take it; `excluded` counts the others by reason, in the words of
    `kubectl describe`. A node may lack several things. `near` says what those lack that lack
    least. `reason` is why it has no destination, None if it has; `expected_on` are its likeliest
    nodes in words. `loads` are those of its own and of the likeliest node, before and after a
    landing there. `limits` is what plugins say of the nodes that they exclude.
    """

    nodes: int
    suitable: int
    excluded: Mapping[str, int]
    near: tuple[str, ...] = ()
    reason: RefusalReason | None = None
    detail: str = ""
    expected_on: str = ""
    forecast: LandingForecast | None = None
    loads: tuple[LoadChange, ...] = ()
    limits: tuple[str, ...] = ()


class PodExplanation(msgspec.Struct, frozen=True):
    """A pod with what each rule finds, and where it could go.

    `placement` is None if the pod has no node, or if its usage or that of all nodes is not known.
    `changes` is what would have to change for it to move. `notes` is what plugins say of it, and
    `after_eviction` what they know of its replacement. A `verdict` of a plugin takes the place of
    rules and changes, with `details` by their heading.
    """

    summary: PodSummary
    replicas: int
    priority: int
    scheduler: str
    rules: tuple[RuleLine, ...]
    node_verdict: NodeVerdict | None
    eviction: PlannedEviction | None = None
    placement: Placement | None = None
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    after_eviction: str = ""
    verdict: str = ""
    details: Mapping[str, tuple[str, ...]] = {}


class WorkloadExplanation(msgspec.Struct, frozen=True):
    """A workload with its pods and how fast they may move.

    The limits are None if there is none. `cooling_down_until` is None unless it cools down, after
    the `result` of a move. `budgets` says what each PodDisruptionBudget allows.
    """

    workload: str
    desired_replicas: int
    ready_replicas: int | None
    pods: tuple[PodSummary, ...]
    budgets: tuple[str, ...]
    in_flight: int
    most_in_flight: int | None
    moved_within_hour: int
    most_within_hour: int | None
    cooling_down_until: datetime | None = None
    result: MoveResult | None = None
    pauses: tuple[str, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question about a plan; exactly one of the last three is there.

    `taken_at` is the time of the snapshot. `hold` is why the whole cycle evicts nothing.
    """

    version: str = EXPLANATION_VERSION
    target: str
    policy: str
    taken_at: datetime
    hold: HoldReason | None
    hold_detail: str = ""
    node: NodeExplanation | None = None
    pod: PodExplanation | None = None
    workload: WorkloadExplanation | None = None
