"""Which systems of AI clusters are there, and may desched read the objects that they have?"""

from collections.abc import Iterable, Iterator

from desched.api_objects.plugin_kinds import SystemRights
from desched.doctor.checks import Check, CheckName, ok, skipped, unknown, warning
from desched.doctor.examination import Examination, RunFacts, SystemFacts, Unanswered
from desched.doctor.system_rights import system_rights
from desched.wording.formatting import first_names


def check_systems(examination: Examination) -> Iterator[Check]:
    """Whether desched may read the objects of systems that the cluster has."""
    for rights, why_unread in system_rights(examination.policy.policy):
        if why_unread:
            yield skipped(_check_of(rights), why_unread)
        else:
            yield _check(rights, examination.systems.get(rights.name, ()), examination)


def _check_of(rights: SystemRights) -> CheckName:
    return CheckName(rights.name.replace("-", "_"))


def _check(
    rights: SystemRights, systems: tuple[SystemFacts, ...] | Unanswered, examination: Examination
) -> Check:
    name = _check_of(rights)
    if isinstance(examination.server_version, Unanswered):
        return skipped(name, "The API server does not answer.")
    if isinstance(systems, Unanswered):
        return warning(name, systems.why, "Ask with `kubectl get --raw /apis`.")
    if not systems:
        return ok(name, f"The cluster has no {rights.title} of a system that desched knows.")
    lacking = [system for system in systems if _lacks(system, watches=examination.run.watches)]
    if lacking:
        missing = [right for system in lacking for right in system.rights.missing]
        without = dict.fromkeys(what for system in lacking for what in system.rights.without)
        return warning(
            name,
            f"The cluster has {_systems(lacking)}, but the account may not "
            f"{first_names(missing, 4)}. Without {'it' if len(missing) == 1 else 'them'}, "
            f"{'; '.join(without)}.",
            _grant(rights, lacking, examination.run),
        )
    return _unsure(rights, systems, examination.run) or ok(
        name, f"The account may read the {rights.title} of {_systems(systems)}."
    )


def _unsure(rights: SystemRights, systems: Iterable[SystemFacts], run: RunFacts) -> Check | None:
    """What is not known of the objects, or not read."""
    unread = [system for system in systems if not system.is_read]
    unasked = [system for system in systems if system.rights.unanswered]
    if unread:
        return warning(
            _check_of(rights),
            f"desched does not read the versions of {rights.title} that {_systems(unread)} has. "
            f"{rights.unread}",
            "See them with `kubectl get --raw /apis`; a newer desched may read them.",
        )
    if unasked:
        return unknown(
            _check_of(rights),
            f"Whether the account may read the {rights.title} of {_systems(unasked)} could not be "
            "asked.",
            f"Ask with `kubectl auth can-i --list`. {_grant(rights, unasked, run)}",
        )
    return None


def _lacks(facts: SystemFacts, *, watches: bool) -> bool:
    """Whether a right is missing that this run needs."""
    return any(watches or not right.startswith("watch ") for right in facts.rights.missing)


def _systems(systems: Iterable[SystemFacts]) -> str:
    return ", ".join(system.system for system in systems)


def _grant(rights: SystemRights, systems: Iterable[SystemFacts], run: RunFacts) -> str:
    """How the account that asks gets the rights; only in the cluster it is desched's own."""
    files = ", ".join(f"`kubectl apply -f {system.rights.folder}`" for system in systems)
    if run.in_cluster:
        return f"Grant it with {files}, or `{rights.key}` in the chart."
    bindings = ", ".join(f"`{system.rights.binding(run.account)}`" for system in systems)
    return f"Let an administrator run {files}, then {bindings}."
