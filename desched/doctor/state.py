"""Can the state be used, and what do earlier cycles leave: pauses, evictions, soft taints?"""

from desched.doctor.checks import Check, CheckName, ok, problem, skipped, unknown, warning
from desched.doctor.examination import Examination, Unanswered
from desched.model.cluster import ClusterState
from desched.wording.formatting import count, first_names, moment
from desched.wording.reasons import GRANT_STEERING


def check_state(examination: Examination) -> Check:
    """Whether the state can be read, and whether somebody paused desched."""
    name, stored, at = CheckName.STATE, examination.state, examination.at
    if isinstance(examination.server_version, Unanswered):
        return skipped(name, "The API server does not answer.")
    if isinstance(stored, Unanswered):
        fix = "If a right is missing, see rights_state; or correct `--state-namespace`."
        return (unknown if examination.run.evicts else warning)(name, stored.why, fix)
    if stored.problem:
        fix = "Set its pauses again with `desched pause`; the next cycle that evicts replaces it."
        return problem(name, stored.problem, fix)
    state = stored.state
    if state is None:
        return _without_state(examination)
    if pause := state.pausing(at):
        fix = "When you want evictions, end it with `desched resume`."
        return warning(name, f"Evictions are paused: {pause.describe()}.", fix)
    last = f"the last cycle was {moment(state.last_cycle.at, at)}" if state.last_cycle else ""
    flight = count(len(state.in_flight), "eviction")
    return ok(name, f"It can be read; {last or 'no cycle yet'}, {flight} in flight.")


def _without_state(examination: Examination) -> Check:
    """There is no state yet, and perhaps no namespace for it either."""
    name, cluster = CheckName.STATE, examination.cluster
    places = [rights.namespace for rights in examination.rights if rights.feature == "state"]
    namespaces = {} if isinstance(cluster, Unanswered) else cluster.namespaces
    for place in places:
        if namespaces and place not in namespaces:
            sentence = f"There is no namespace {place} yet, which is for the Lease and the state."
            fix = (
                f"An installation creates it; to evict from this machine, run `kubectl create "
                f"namespace {place}`, or name another one with `--state-namespace`."
            )
            return (problem if examination.run.evicts else ok)(name, sentence, fix)
    return ok(name, "There is no state yet; the first cycle that evicts creates it.")


def check_soft_taints(cluster: ClusterState, examination: Examination) -> Check:
    """Whether nodes still have soft taints of earlier runs."""
    name, at = CheckName.SOFT_TAINTS, examination.at
    foreign = [n.name for n in cluster.nodes if n.avoided and n.steered_until is None]
    expired = [n.name for n in cluster.nodes if n.steered_until and n.steered_until < at]
    standing = [n.name for n in cluster.nodes if n.steered_until and n.steered_until >= at]
    if expired:
        return warning(
            name,
            f"{count(len(expired), 'node has', 'nodes have')} an expired soft taint of desched: "
            f"{first_names(expired, 5)}.",
            f"Remove it with `desched steering clear`, with the rights of `{GRANT_STEERING}`.",
        )
    if foreign:
        return warning(
            name,
            f"{count(len(foreign), 'node has', 'nodes have')} the taint desched.io/overloaded from "
            f"somebody else: {first_names(foreign, 5)}.",
            f"Remove it with `kubectl taint nodes {foreign[0]} desched.io/overloaded-`.",
        )
    if standing:
        sentence = (
            f"{count(len(standing), 'node has', 'nodes have')} one: {first_names(standing, 5)}."
        )
        hint = "A running desched removes it; if none runs, `desched steering clear` does."
        return ok(name, sentence, hint)
    return ok(name, "No node has one.")
