"""The tables of permissions in the operations reference: `python -m tests.permission_tables`.

What stands between `<!-- rights of NAME -->` and `<!-- end -->` is what the code declares.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from desched.adapters.kubernetes.client.access import (
    CUSTOM_METRICS_ACCESS,
    DEVICE_ACCESS,
    EVENT_ACCESS,
    EVICTING_ACCESS,
    GET_VOLCANO_CONFIGURATION,
    LEASE_ACCESS,
    LOGBOOK_ACCESS,
    METRICS_ACCESS,
    OBSERVING_ACCESS,
    OWN_EVENT_ACCESS,
    SIZING_ACCESS,
    STATE_READING_ACCESS,
    STATE_WRITING_ACCESS,
    STEERING_ACCESS,
    WATCHING_ACCESS,
    owners_access,
)
from desched.api_objects.access import Access
from desched.plugins.kinds import PLUGIN_KINDS
from tests.repository import ROOT

PAGE = ROOT / "docs" / "operations-reference.md"
PERMISSIONS: Mapping[str, Sequence[Access]] = {
    "Planning": OBSERVING_ACCESS,
    "Watching": WATCHING_ACCESS,
    "Sizes of replacements": SIZING_ACCESS,
    "Devices of ResourceClaims": DEVICE_ACCESS,
    "Load by metrics-server": METRICS_ACCESS,
    "Load by the custom metrics API": CUSTOM_METRICS_ACCESS,
    **{
        kinds.rights.title[0].upper() + kinds.rights.title[1:]: [
            access for rights in kinds.rights.granted.values() for access in rights
        ]
        for kinds in PLUGIN_KINDS
    },
    "Configuration of Volcano": (GET_VOLCANO_CONFIGURATION,),
    "Declared kinds": (owners_access("argoproj.io", "rollouts", "v1alpha1"),),
    "Leader election": LEASE_ACCESS,
    "State": STATE_READING_ACCESS,
    "Logbook": LOGBOOK_ACCESS,
    "Events about itself": OWN_EVENT_ACCESS,
    "Evicting": EVICTING_ACCESS,
    "Recording evictions": STATE_WRITING_ACCESS,
    "Events about moves": EVENT_ACCESS,
    "Steering": STEERING_ACCESS,
}
_BLOCK = re.compile(r"(<!-- rights of (.+?) -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_permissions(text: str) -> str:
    """The page with the rights that desched uses now."""
    return _BLOCK.sub(lambda found: "\n".join((found[1], *_block(found[2]), "", "")), text)


def _block(name: str) -> Iterator[str]:
    """A row for each resource; what happens without a right is one sentence if it is the same."""
    rights = PERMISSIONS[name]
    ends = {each.without for each in rights}
    if len(ends) > 1:
        yield from ("| verb | API group | resource | for | without |", "|---|---|---|---|---|")
    elif len({each.reason for each in rights}) == 1 < len(rights):
        listed = ", ".join(f"`{each.resource}`" for each in rights)
        yield from (f"`{rights[0].verb}` on {listed}: {rights[0].reason}.", "")
        yield f"Without one of them, {ends.pop()}."
        return
    else:
        yield from ("| verb | API group | resource | for |", "|---|---|---|---|")
    for (group, resource, without), same in groupby(rights, _resource):
        first, *others = same
        verbs = ", ".join(f"`{each.verb}`" for each in (first, *others))
        row = f"| {verbs} | `{group or 'core'}` | `{resource}` | {_reasons(first, others)} |"
        yield row + (f" {without} |" if len(ends) > 1 else "")
    if len(ends) == 1:
        yield from ("", f"Without {'it' if len(rights) == 1 else 'one of them'}, {ends.pop()}.")


def _resource(access: Access) -> tuple[str, str, str]:
    return access.group, access.resource, access.without


def _reasons(first: Access, others: Sequence[Access]) -> str:
    """That of `watch` goes without saying."""
    return "; ".join([first.reason, *(each.reason for each in others if each.verb != "watch")])


if __name__ == "__main__":
    PAGE.write_text(with_permissions(PAGE.read_text()))
