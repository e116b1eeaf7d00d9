"""Small pasts in steps of five minutes, from which every value is known."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

from desched.lab.history import Floats
from desched.lab.recorded_past import NodeChange, Past, PastNode, PastPod, PastUsage
from desched.model.resources import Resource
from tests.builders import GIB, NOW, amounts, node, pod, workload

STEP_SECONDS = 300
CORES, MEMORY_GIB = 4, 16
LONG_AGO = NOW - timedelta(days=30)


class Life(NamedTuple):
    """A pod: how many cores it used in each step, NaN where that is unknown; it uses 1 GiB.

    Without `ends` it outlives the past.
    """

    name: str
    on: str
    cores: Sequence[float]
    first_step: int = 0
    of: str | None = "web"
    ends: bool = False
    request_cores: float = 0.1


def at(step: float) -> datetime:
    return NOW + timedelta(seconds=step * STEP_SECONDS)


def a_past(
    lives: Sequence[Life],
    hosts: Sequence[str] = ("a", "b", "c"),
    steps: int = 12,
    unknown: Sequence[tuple[str, int]] = (),
    **nodes: dict[str, Any],
) -> Past:
    """Each host itself uses half a core and 1 GiB; `nodes` has further fields of past nodes."""
    index = {name: i for i, name in enumerate(hosts)}
    used = np.full((len(hosts), steps, 2), (0.5, 1.0))
    pods: list[PastPod] = []
    rows: list[Floats] = []
    for life in lives:
        levels = np.stack([life.cores, np.ones(len(life.cores))], axis=1)
        last = life.first_step + len(levels)
        used[index[life.on], life.first_step : last] += np.nan_to_num(levels, nan=1.0)
        known = np.where(np.isnan(levels[:, :1]), 0.0, levels) * np.array([1000.0, GIB])
        pods.append(_pod(life, sum(len(each) for each in rows), last))
        rows.append(np.concatenate([np.zeros((1, 2)), np.cumsum(known * STEP_SECONDS, axis=0)]))
    gaps = [np.cumsum([0, *np.isnan(life.cores)]).astype(np.uint16) for life in lives]
    ratios = used / (CORES, MEMORY_GIB)
    for name, step in unknown:
        ratios[index[name], step] = np.nan
    return Past(
        started_at=NOW,
        step_seconds=STEP_SECONDS,
        steps=steps,
        nodes=tuple(PastNode(**_node_of(name) | nodes.get(name, {})) for name in hosts),
        pods=tuple(pods),
        usage=PastUsage(np.concatenate([np.zeros((0, 2)), *rows]), np.concatenate([[], *gaps])),
        node_ratios={
            Resource.CPU: ratios[:, :, 0].astype(np.float32),
            Resource.MEMORY: ratios[:, :, 1].astype(np.float32),
        },
    )


def _node_of(name: str) -> dict[str, Any]:
    return {"node": node(name, CORES, MEMORY_GIB), "began": LONG_AGO}


def _pod(life: Life, first_row: int, last: int) -> PastPod:
    request = amounts(life.request_cores, 0.1)
    began = at(life.first_step) if life.first_step else LONG_AGO
    found = pod(life.name, life.on, life.of, request=request, created_at=began, started_at=began)
    owner = workload(life.of) if life.of else None
    ended = at(last) if life.ends else None
    return PastPod(found, began, ended, owner, first_row, life.first_step, len(life.cores))


def cordon(step: int) -> NodeChange:
    return NodeChange(at(step), ready=True, unschedulable=True, taints=())
