"""Who places the replacements, and what can be known of it?"""

from collections import Counter
from collections.abc import Mapping

from desched.doctor.checks import Check, CheckName, ok, warning
from desched.doctor.examination import Examination
from desched.model.cluster import DEFAULT_SCHEDULER, ClusterState
from desched.views.formatting import count

PACKING: Mapping[str, str] = {
    "gke.io/optimize-utilization-scheduler": "Google's profile optimize-utilization",
}
"""Schedulers that prefer full nodes."""

_NOT_VISIBLE = (
    "Its configuration cannot be seen through the API; if its profile differs from the default, "
    "set `scheduler` in the policy."
)


def check_scheduler(cluster: ClusterState, _: Examination) -> Check:
    """Which schedulers pods name."""
    name = CheckName.SCHEDULER
    named = Counter(
        pod.scheduler
        for pod in cluster.pods
        if not pod.finished and not (pod.owner and pod.owner.kind in {"DaemonSet", "Node"})
    )
    others = {scheduler: n for scheduler, n in named.items() if scheduler != DEFAULT_SCHEDULER}
    if not others:
        return ok(name, f"All pods are placed by {DEFAULT_SCHEDULER}.", _NOT_VISIBLE)
    listed = ", ".join(f"{scheduler} ({number})" for scheduler, number in named.most_common(5))
    found = f"Pods are placed by {listed}."
    if packing := next((PACKING[each] for each in others if each in PACKING), ""):
        return warning(
            name,
            f"{found} {packing} prefers full nodes, so replacements may come back.",
            "Set `scheduler: {strategy: MostAllocated}` in the policy, and let desched steer with "
            "`kubectl apply -k deploy/overlays/evict`.",
        )
    pods = count(sum(others.values()), "pod")
    return warning(
        name,
        f"{found} Where other schedulers place {pods}, desched cannot forecast.",
        "Keep `maxLandingRisk` low, and let desched steer with "
        "`kubectl apply -k deploy/overlays/evict` if they score PreferNoSchedule.",
    )
