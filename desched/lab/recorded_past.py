"""What ran where, when, and what it used, over days that are over."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from desched.model.cluster import Node, Pod, Taint, Workload
from desched.model.resources import Resource


class NodeChange(msgspec.Struct, frozen=True, gc=False):
    """From this time on a node is Ready or not, may be cordoned, and has these taints."""

    at: datetime
    ready: bool
    unschedulable: bool
    taints: tuple[Taint, ...]


class PastNode(msgspec.Struct, frozen=True, gc=False):
    """A node of the past with its changes; `ended` is None if it was there at the end."""

    node: Node
    began: datetime
    ended: datetime | None = None
    changes: tuple[NodeChange, ...] = ()


class PastPod(msgspec.Struct, frozen=True, gc=False):
    """A pod of the past as it ran on its node; `ended` is None if it ran at the end.

    `workload` is None if its controller is of a kind that is not understood. The usage is in
    `levels` steps from step `first_step` of the time on; its rows begin at `first_row`.
    """

    pod: Pod
    began: datetime
    ended: datetime | None
    workload: Workload | None
    first_row: int
    first_step: int
    levels: int


class PastUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of all pods in one array; see `desched.lab.history.UsageBank`.

    A pod with n levels has n + 1 rows. `before` is its usage until each level begins, row x (CPU,
    memory) in millicore-seconds and byte-seconds. `missing` counts the unknown levels before it.
    """

    before: NDArray[np.float64]
    missing: NDArray[np.uint16]


class Caveat(StrEnum):
    """What a backtest assumes, or cannot know."""

    LOAD_FOLLOWS_PODS = "load_follows_pods"
    SCHEDULER_SIMULATED = "scheduler_simulated"
    READY_AT_ONCE = "ready_at_once"
    LOAD_IN_STEPS = "load_in_steps"
    SOMEBODY_ELSE_MOVED = "somebody_else_moved"
    LATER_PODS_AS_RECORDED = "later_pods_as_recorded"
    LINES_AVERAGED = "lines_averaged"
    CONSTRAINTS_UNKNOWN = "constraints_unknown"
    TOLERATIONS_GUESSED = "tolerations_guessed"
    PRIORITIES_UNKNOWN = "priorities_unknown"
    LABELS_UNKNOWN = "labels_unknown"
    REQUESTS_UNKNOWN = "requests_unknown"
    NODES_WITHOUT_SIZE = "nodes_without_size"
    PODS_NOT_MEASURED = "pods_not_measured"
    GPUS_UNKNOWN = "gpus_unknown"
    THROTTLING_UNKNOWN = "throttling_unknown"
    HISTORY_GAPS = "history_gaps"


class Doubt(msgspec.Struct, frozen=True, gc=False):
    """A caveat with the numbers of this case."""

    caveat: Caveat
    detail: str = ""


class Past(msgspec.Struct, frozen=True, gc=False):
    """A time in steps of equal length.

    `node_ratios` has the mean load of each node in each step as a share of its capacity, node x
    step, NaN where it is unknown; the order is that of `nodes`. `priority_classes` has the values
    of those that the policies name. `doubts` are what could not be known, as far as reading shows.
    """

    started_at: datetime
    step_seconds: int
    steps: int
    nodes: tuple[PastNode, ...]
    pods: tuple[PastPod, ...]
    usage: PastUsage
    node_ratios: Mapping[Resource, NDArray[np.float32]]
    priority_classes: Mapping[str, int] = {}
    doubts: tuple[Doubt, ...] = ()
