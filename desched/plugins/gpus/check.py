"""Are the GPUs measured that the policy has a target for, and what each pod uses of them?"""

from desched.model.groups import grouped
from desched.model.load import Measured, Unknown
from desched.model.resources import Resource
from desched.model.snapshot import Snapshot
from desched.plugins.devices import has_nvidia_gpu
from desched.plugins.gpus.load import GpuLoad
from desched.policy.policy import Policy
from desched.promql.plugin import LoadCheck
from desched.wording.formatting import count, first_names


def check_gpus(policy: Policy, snapshot: Snapshot) -> LoadCheck:
    """Whether a target for gpu can relieve nodes."""
    gpus = GpuLoad.of(snapshot.load.extras)
    if not policy.windows(Resource.GPU):
        return LoadCheck("The policy has no target for gpu.")
    nodes = [item for item in snapshot.cluster.nodes if has_nvidia_gpu(item.allocatable)]
    if not nodes:
        return LoadCheck(
            "The policy has a target for gpu, but no node has a GPU of NVIDIA.",
            "Remove gpu from `thresholds` and `targetThresholds`.",
        )
    unmeasured = sum(not isinstance(gpus.nodes.get(node.name), Measured) for node in nodes)
    if unmeasured:
        return LoadCheck(
            f"The GPUs of {count(unmeasured, 'node')} are not measured; there all pods with a GPU "
            "stay.",
            "Let Prometheus scrape DCGM's exporter on each of them; `metrics.sources.nodeGPU` is "
            "for a job with another name.",
            _reasons(gpus),
        )
    shared = [node for node in nodes if gpus.are_shared_on(node)]
    if not shared:
        return LoadCheck(
            "No node offers more GPUs than it has, so that none is judged by the load of GPUs.",
            "Share GPUs by time slicing or MPS, or remove gpu from `targetThresholds`.",
        )
    unnamed = [
        str(pod.ref)
        for node in shared
        for pod in snapshot.cluster.pods_by_node.get(node.name, ())
        if gpus.uses(pod.scheduling.requests) and gpus.of_pod(pod) is None
    ]
    if unnamed:
        return LoadCheck(
            f"The GPU usage of {count(len(unnamed), 'pod')} on shared GPUs is not known. Such pods "
            f"stay: {first_names(unnamed, 3)}.",
            "Let DCGM's exporter name each pod of a GPU: `KUBERNETES_VIRTUAL_GPUS=true`.",
        )
    return LoadCheck(f"{count(len(shared), 'node shares', 'nodes share')} measured GPUs.")


def _reasons(gpus: GpuLoad) -> tuple[str, ...]:
    """Why the load of GPUs is not known, those of the most nodes first."""
    by_reason = grouped(
        (load.detail or str(load.reason), node)
        for node, load in gpus.nodes.items()
        if isinstance(load, Unknown)
    )
    most_first = sorted(by_reason.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    return tuple(f"{first_names(names, 3)}: {reason}" for reason, names in most_first)
