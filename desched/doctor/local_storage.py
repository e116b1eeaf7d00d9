"""How many pods do emptyDirs on disk keep in place?"""

from collections import Counter

from desched.doctor.checks import Check, CheckName, ok, warning
from desched.doctor.examination import Examination
from desched.model.cluster import ClusterState
from desched.planning.eligibility.annotations import SAFE_TO_EVICT_VOLUMES_ANNOTATION
from desched.planning.eligibility.local_storage import disk_volumes, kept_by_local_storage
from desched.wording.formatting import first_names

MANY = 0.5
"""A share of pods with which hardly a node can be relieved."""


def check_local_storage(cluster: ClusterState, examination: Examination) -> Check:
    """Whether the policy keeps pods for their emptyDirs, as those that a service mesh adds."""
    name = CheckName.LOCAL_STORAGE
    policy = examination.policy.policy
    if not policy.protections.local_storage:
        return ok(name, "The policy moves pods with emptyDirs on disk.")
    kept = kept_by_local_storage(cluster, examination.at, policy.plugins)
    if not kept:
        return ok(name, "No pod stays for an emptyDir on disk.")
    names = Counter(v.name for pod in kept for v in {*disk_volumes(pod, policy.plugins)} if v.name)
    often = [volume for volume, _ in names.most_common()]
    sentence = f"{len(kept)} of {len(cluster.pods)} pods stay for their emptyDirs on disk"
    sentence += f": {first_names(often, 5)}." if often else "."
    fix = (
        "If what they hold may be lost, set `evictLocalStoragePods: true` in the policy, or "
        f"annotate the pods with the names of these volumes, {SAFE_TO_EVICT_VOLUMES_ANNOTATION}."
    )
    return (warning if len(kept) >= MANY * len(cluster.pods) else ok)(name, sentence, fix)
