"""Are the GPUs measured that the policy has a target for, and what each pod uses of them?"""

from desched.doctor.checks import Check, CheckName, ok, warning
from desched.doctor.examination import Examination
from desched.model.devices import has_nvidia_gpu, nvidia_gpus
from desched.model.groups import grouped
from desched.model.load import Measured, Unknown
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.wording.formatting import count, first_names


def check_gpus(snapshot: Snapshot, examination: Examination) -> Check:
    """Whether a target for gpu can relieve nodes."""
    name, loads = CheckName.GPUS, snapshot.load.gpus
    if not examination.policy.policy.windows(Resource.GPU):
        return ok(name, "The policy has no target for gpu.")
    nodes = [item for item in snapshot.cluster.nodes if has_nvidia_gpu(item.allocatable)]
    if not nodes:
        return warning(
            name,
            "The policy has a target for gpu, but no node has a GPU of NVIDIA.",
            "Remove gpu from `thresholds` and `targetThresholds`.",
        )
    measured = {node: load for node, load in loads.items() if isinstance(load, Measured)}
    if len(measured) < len(nodes):
        return warning(
            name,
            f"The GPUs of {count(len(nodes) - len(measured), 'node')} are not measured; there all "
            "pods with a GPU stay.",
            "Let Prometheus scrape DCGM's exporter on each of them; `metrics.sources.nodeGPU` is "
            "for a job with another name.",
            _reasons(snapshot),
        )
    shared = [n for n in nodes if nvidia_gpus(n.allocatable) > measured[n.name].gpus]
    if not shared:
        return warning(
            name,
            "No node offers more GPUs than it has, so that none is judged by the load of GPUs.",
            "Share GPUs by time slicing or MPS, or remove gpu from `targetThresholds`.",
        )
    unnamed = [
        str(pod.ref)
        for node in shared
        for pod in snapshot.cluster.pods_by_node.get(node.name, ())
        if has_nvidia_gpu(pod.scheduling.requests)
        and (pod.namespace, pod.name) not in snapshot.load.gpu_usages
    ]
    if unnamed:
        return warning(
            name,
            f"The GPU usage of {count(len(unnamed), 'pod')} on shared GPUs is not known. Such pods "
            f"stay: {first_names(unnamed, 3)}.",
            "Let DCGM's exporter name each pod of a GPU: `KUBERNETES_VIRTUAL_GPUS=true`.",
        )
    return ok(name, f"{count(len(shared), 'node shares', 'nodes share')} measured GPUs.")


def _reasons(snapshot: Snapshot) -> tuple[str, ...]:
    """Why the load of GPUs is not known, those of the most nodes first."""
    by_reason = grouped(
        (load.detail or str(load.reason), node)
        for node, load in snapshot.load.gpus.items()
        if isinstance(load, Unknown)
    )
    most_first = sorted(by_reason.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return tuple(f"{first_names(names, 3)}: {reason}" for reason, names in most_first)
