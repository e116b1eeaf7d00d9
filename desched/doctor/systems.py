"""Which systems of AI clusters are there, and may desched read the objects that they have?"""

from collections.abc import Iterable
from typing import NamedTuple

from desched.doctor.checks import Check, CheckName, ok, skipped, unknown, warning
from desched.doctor.examination import Examination, RunFacts, SystemFacts, Unanswered
from desched.model.plan import RefusalReason
from desched.planning.eligibility.rules import rules_of
from desched.wording.formatting import first_names


class _Objects(NamedTuple):
    """Objects that several systems have; `unread` is what happens if desched cannot read them."""

    check: CheckName
    names: str
    unread: str
    chart: str


_POD_GROUPS = _Objects(
    CheckName.POD_GROUPS,
    "PodGroups or topologies",
    "Pods of gangs whose minimum only they have stay.",
    "rights.podGroups",
)
_MODEL_CACHES = _Objects(
    CheckName.MODEL_CACHES,
    "model caches",
    "Local volumes keep their pods, and other pods move as if they needed no model.",
    "rights.modelCaches",
)
_QUEUES = _Objects(
    CheckName.QUEUES,
    "queues",
    "Pods move whatever else waits in their queue.",
    "rights.queues",
)


def check_pod_groups(examination: Examination) -> Check:
    """Whether desched may read the PodGroups and topologies that the cluster has."""
    return _check(_POD_GROUPS, examination.pod_groups, examination)


def check_model_caches(examination: Examination) -> Check:
    """Whether desched may read which nodes hold which models."""
    return _check(_MODEL_CACHES, examination.model_caches, examination)


def check_queues(examination: Examination) -> Check:
    """Whether desched may read what waits in the queues that the cluster has."""
    rules = rules_of(examination.policy.policy.plugins)
    if all(rule.reason is not RefusalReason.QUEUE_BUSY for rule in rules):
        return skipped(CheckName.QUEUES, "The policy lets pods move whatever waits in their queue.")
    return _check(_QUEUES, examination.queues, examination)


def _check(
    objects: _Objects, systems: tuple[SystemFacts, ...] | Unanswered, examination: Examination
) -> Check:
    name = objects.check
    if isinstance(examination.server_version, Unanswered):
        return skipped(name, "The API server does not answer.")
    if isinstance(systems, Unanswered):
        return warning(name, systems.why, "Ask with `kubectl get --raw /apis`.")
    if not systems:
        return ok(name, f"The cluster has no {objects.names} of a system that desched knows.")
    lacking = [system for system in systems if _lacks(system, watches=examination.run.watches)]
    if lacking:
        missing = [right for system in lacking for right in system.rights.missing]
        without = dict.fromkeys(what for system in lacking for what in system.rights.without)
        return warning(
            name,
            f"The cluster has {_systems(lacking)}, but the account may not "
            f"{first_names(missing, 4)}. Without {'it' if len(missing) == 1 else 'them'}, "
            f"{'; '.join(without)}.",
            _grant(objects, lacking, examination.run),
        )
    return _unsure(objects, systems, examination.run) or ok(
        name, f"The account may read the {objects.names} of {_systems(systems)}."
    )


def _unsure(objects: _Objects, systems: Iterable[SystemFacts], run: RunFacts) -> Check | None:
    """What is not known of the objects, or not read."""
    unread = [system for system in systems if not system.is_read]
    unasked = [system for system in systems if system.rights.unanswered]
    if unread:
        return warning(
            objects.check,
            f"desched does not read the versions of {objects.names} that {_systems(unread)} has. "
            f"{objects.unread}",
            "See them with `kubectl get --raw /apis`; a newer desched may read them.",
        )
    if unasked:
        return unknown(
            objects.check,
            f"Whether the account may read the {objects.names} of {_systems(unasked)} could not be "
            "asked.",
            f"Ask with `kubectl auth can-i --list`. {_grant(objects, unasked, run)}",
        )
    return None


def _lacks(facts: SystemFacts, *, watches: bool) -> bool:
    """Whether a right is missing that this run needs."""
    return any(watches or not right.startswith("watch ") for right in facts.rights.missing)


def _systems(systems: Iterable[SystemFacts]) -> str:
    return ", ".join(system.system for system in systems)


def _grant(objects: _Objects, systems: Iterable[SystemFacts], run: RunFacts) -> str:
    """How the account that asks gets the rights; only in the cluster it is desched's own."""
    files = ", ".join(f"`kubectl apply -f {system.rights.folder}`" for system in systems)
    if run.in_cluster:
        return f"Grant it with {files}, or `{objects.chart}` in the chart."
    bindings = ", ".join(f"`{system.rights.binding(run.account)}`" for system in systems)
    return f"Let an administrator run {files}, then {bindings}."
