"""Does the API server answer, is it new enough, can the cluster be read, and do clocks agree?"""

import re

from desched.doctor.checks import Check, CheckName, ok, problem, skipped, unknown
from desched.doctor.examination import Examination, Unanswered
from desched.model.cluster import ClusterState
from desched.model.load import ClusterLoad
from desched.model.snapshot import Snapshot
from desched.planning.clocks import clocks_differ
from desched.wording.formatting import count

OLDEST = (1, 30)
"""The oldest minor version that is supported and tested."""

_REACH = "Check it with `kubectl get --raw /readyz`, or choose another context with `--context`."


def check_api_server(examination: Examination) -> Check:
    """Whether the API server answers, and its version."""
    name, version = CheckName.API_SERVER, examination.server_version
    if isinstance(version, Unanswered):
        return problem(name, version.why, _REACH)
    target = examination.run.target
    numbers = re.match(r"v?(\d{1,9})\.(\d{1,9})", version)
    if numbers is None:
        return unknown(
            name,
            f'The API server of {target} answers, but its version "{version}" is not understood.',
            "Compare `kubectl version` with 1.30, the oldest supported version.",
        )
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        return problem(
            name,
            f"The API server of {target} has version {version}; 1.30 is the oldest supported one.",
            "Upgrade the cluster; `kubectl version` shows its version.",
        )
    return ok(name, f"Kubernetes {version} answers: {target}.")


def check_cluster(examination: Examination) -> Check:
    """Whether everything that planning needs can be read."""
    name, cluster = CheckName.CLUSTER, examination.cluster
    if isinstance(examination.server_version, Unanswered):
        return skipped(name, "The API server does not answer.")
    if isinstance(cluster, Unanswered):
        return unknown(
            name,
            cluster.why,
            "If a right is missing, see rights_plan; if it took too long, raise "
            "`--api-server-timeout`.",
        )
    nodes, pods = count(len(cluster.nodes), "node"), count(len(cluster.pods), "pod")
    if not cluster.nodes:
        return problem(name, "The cluster has no node.", "Check the context: `kubectl get nodes`.")
    return ok(name, f"{nodes} and {pods} can be read.")


def check_clocks(cluster: ClusterState, examination: Examination) -> Check:
    """Whether the clocks of this machine, the API server and Prometheus agree."""
    name = CheckName.CLOCKS
    with_load = examination.snapshot
    lead_seconds = examination.cluster_lead_seconds
    without_load = Snapshot(cluster, ClusterLoad({}, {}), examination.at, lead_seconds)
    if differing := clocks_differ(with_load or without_load):
        fix = "Synchronize the clocks by NTP; `timedatectl` shows whether this machine does."
        return problem(name, f"{differing[0].upper()}{differing[1:]}.", fix)
    compared = "the API server and Prometheus" if with_load else "the API server"
    return ok(name, f"The clocks of this machine and of {compared} agree.")
