"""Whether a pod saves its work, so that its replacement continues where it stopped."""

from collections.abc import Mapping

from desched.model.cluster import Pod, Workload
from desched.model.text import TRUE

CHECKPOINTS = "desched.io/checkpoints"
"""An annotation of a pod or its workload: "true" if a replacement continues its work."""


def checkpoints(pod: Pod, workload: Workload | None) -> bool:
    """Whether annotations declare it; if pod and workload differ, it does not."""
    on_workload: Mapping[str, str] = workload.annotations if workload is not None else {}
    values = [
        annotations[CHECKPOINTS]
        for annotations in (pod.annotations, on_workload)
        if CHECKPOINTS in annotations
    ]
    return bool(values) and all(value.strip().lower() in TRUE for value in values)
