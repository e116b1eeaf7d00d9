"""Which PodGroups does the cluster have, and may desched read how many pods their gangs need?"""

from collections.abc import Iterable

from desched.doctor.checks import Check, CheckName, ok, skipped, unknown, warning
from desched.doctor.examination import Examination, PodGroupFacts, Unanswered
from desched.service.reports.formatting import first_names


def check_pod_groups(examination: Examination) -> Check:
    """Whether desched may read the PodGroups that the cluster has."""
    name, found = CheckName.POD_GROUPS, examination.pod_groups
    if isinstance(examination.server_version, Unanswered):
        return skipped(name, "The API server does not answer.")
    if isinstance(found, Unanswered):
        return warning(name, found.why, "Ask with `kubectl get --raw /apis`.")
    if not found:
        return ok(name, "The cluster has no PodGroups of a system that desched knows.")
    lacking = [each for each in found if _lacks(each, watches=examination.run.watches)]
    if lacking:
        missing = [right for each in lacking for right in each.rights.missing]
        without = dict.fromkeys(what for each in lacking for what in each.rights.without)
        return warning(
            name,
            f"The cluster has PodGroups of {_systems(lacking)}, but the account may not "
            f"{first_names(missing, 4)}. Without {'it' if len(missing) == 1 else 'them'}, "
            f"{'; '.join(without)}.",
            f"Grant it with {_files(lacking)}, or `rights.podGroups` in the chart.",
        )
    return _unsure(found) or ok(name, f"The account may read the PodGroups of {_systems(found)}.")


def _unsure(found: Iterable[PodGroupFacts]) -> Check | None:
    """What is not known of the PodGroups, or not read."""
    unread = [each for each in found if not each.is_read]
    unasked = [each for each in found if each.rights.unanswered]
    if unread:
        return warning(
            CheckName.POD_GROUPS,
            f"desched does not read the versions of PodGroups that {_systems(unread)} has. "
            "Pods of gangs whose minimum only they have stay.",
            "See them with `kubectl get --raw /apis`; a newer desched may read them.",
        )
    if unasked:
        return unknown(
            CheckName.POD_GROUPS,
            f"Whether the account may read the PodGroups of {_systems(unasked)} could not be "
            "asked.",
            f"Ask with `kubectl auth can-i --list`; grant it with {_files(unasked)}.",
        )
    return None


def _lacks(facts: PodGroupFacts, *, watches: bool) -> bool:
    """Whether a right is missing that this run needs."""
    return any(watches or not right.startswith("watch ") for right in facts.rights.missing)


def _systems(found: Iterable[PodGroupFacts]) -> str:
    return ", ".join(each.system for each in found)


def _files(found: Iterable[PodGroupFacts]) -> str:
    return ", ".join(f"`kubectl apply -f {each.rights.folder}`" for each in found)
