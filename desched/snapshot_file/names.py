"""Replaces the names in a snapshot: each name by the same new one wherever it occurs.

Namespaces, workloads, pods, nodes, volumes, budgets, services, uids, and values of labels,
annotations, taints and tolerations get new names. Those keep the order of the old ones, because a
plan decides between equals by name.

What the policy names stays, because the policy is in the file as it is. Namespaces of the system
stay as well. The plan may differ where the order of such a namespace and another one decides.
Zones, pools, schedulers, extended resources and the keys of labels and taints stay, and so do
priority classes and storage classes. Texts for people, such as the reason of a pause, are dropped.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from desched.gangs.objects import DeclaredGroup
from desched.gangs.pod_groups import (
    GENERATED_PREFIX,
    LETS_ONE_START,
    NAME_KEYS,
    NETWORK_MODES,
    VOLCANO_GROUP,
)
from desched.model.cluster import Owner
from desched.model.names import Form, Instead, Mark, Name
from desched.model.networks import INTERFACES, interfaces_text, networks_of
from desched.model.selectors import Requirement
from desched.model.state import Pause, PauseScope
from desched.planning.eligibility.annotations import SAFE_TO_EVICT_VOLUMES_ANNOTATION
from desched.planning.eligibility.rules import COOLDOWN_TIME, SYSTEM_NAMESPACES
from desched.planning.eligibility.volumes import plain_path
from desched.planning.kube_scheduler.scores.total import HOSTNAME_LABEL
from desched.plugins.annotations import MARKS
from desched.policy.durations import duration_seconds
from desched.policy.policy import Policy
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.redaction import NODE_LABELS
from desched.snapshot_file.renaming import Renaming

PLAIN_LABELS = NODE_LABELS - {HOSTNAME_LABEL}
"""Labels whose values are no names: architectures, zones and regions."""

PLAIN_VALUES = frozenset(
    {"true", "false", "t", "f", "Ready", "api", *NETWORK_MODES, *LETS_ONE_START}
)
"""Values of labels and annotations that are no names but words that a rule compares.

Numbers are none either, and neither are durations where one is read.
"""

_NUMBER = re.compile(r"\s*[+-]?[\d_]+\s*")

NODE_FIELD = "metadata.name"


class Names(Protocol):
    """What happens to each name."""

    def of(self, kind: Name, name: str) -> str:
        """The name to use instead."""


def with_new_names(content: SnapshotContent, policy: Policy) -> SnapshotContent:
    """The content with new names; `policy` is the one that it has as text."""
    collected = _Collected()
    _renamed_content(content, collected)
    return _renamed_content(content, _NewNames(collected.names, _kept(policy)))


class _Collected:
    """Collects the names, and keeps them."""

    def __init__(self) -> None:
        self.names: dict[Name, set[str]] = {kind: set() for kind in Name}

    def of(self, kind: Name, name: str) -> str:
        self.names[kind].add(name)
        return name


class _NewNames:
    """New names that keep the order of the old ones."""

    def __init__(
        self, names: Mapping[Name, Iterable[str]], kept: Mapping[Name, Iterable[str]]
    ) -> None:
        self._new = {
            kind: _numbered(kind, old) | {name: name for name in kept.get(kind, ())}
            for kind, old in names.items()
        }
        # A label may have the name of an object as its value.
        values = self._new[Name.VALUE]
        for kind in (Name.WORKLOAD, Name.POD, Name.NAMESPACE, Name.NODE):
            values |= {name: new for name, new in self._new[kind].items() if name in values}
        values |= {name: name for name in kept.get(Name.VALUE, ())}

    def of(self, kind: Name, name: str) -> str:
        return self._new[kind][name]


def _numbered(kind: Name, names: Iterable[str]) -> dict[str, str]:
    ordered = sorted(names)
    digits = len(str(len(ordered)))
    return {name: f"{kind}-{number:0{digits}}" for number, name in enumerate(ordered, 1)}


def _kept(policy: Policy) -> Mapping[Name, frozenset[str]]:
    """What the policy names."""
    protections = policy.protections
    selectors = (
        policy.node_selector,
        policy.destination_selector,
        protections.labels,
        protections.namespace_labels,
        *(pool.selector for pool in policy.pools),
    )
    values = (v for selector in selectors for r in selector.requirements for v in r.values)
    namespaces = {*protections.included_namespaces, *protections.excluded_namespaces}
    return {
        Name.NAMESPACE: SYSTEM_NAMESPACES | namespaces,
        Name.VALUE: frozenset(values),
    }


def _renamed_content(content: SnapshotContent, names: Names) -> SnapshotContent:
    renaming = Renaming(partial(_renamed, names))
    # A snapshot has the usage of all pods.
    load = replace(content.snapshot.load, pods_of=None, pod_sums={})
    others = tuple(
        f"{maker} in {names.of(Name.NAMESPACE, namespace)}"
        for maker, _, namespace in (
            other_descheduler.rpartition(" in ") for other_descheduler in content.other_deschedulers
        )
    )
    return replace(
        content,
        snapshot=renaming.of(replace(content.snapshot, load=load)),
        state=renaming.of(content.state),
        target="",
        other_deschedulers=others,
    )


def _renamed(names: Names, mark: Mark, value: Any, owner: Any) -> Any:
    match mark:
        case _ if not value:
            return value
        case Instead(text):
            return text
        case Name():
            return names.of(mark, value)
        case Form():
            return FORMS[mark](names, value, owner)


def _group_name(names: Names, name: str, group: DeclaredGroup) -> str:
    """As the pods of the group have it, in a field or in a label or annotation."""
    if group.system == "Kubernetes":
        return names.of(Name.VALUE, name)
    return _value(names, VOLCANO_GROUP, name)


def _labeled(names: Names, name: str, _owner: object) -> str:
    """As a pod's label has it."""
    return _value(names, "", name)


def _label(names: Names, text: str, _owner: object) -> str:
    key, is_equal, value = (part.strip() for part in text.partition("="))
    return key + is_equal + _value(names, key, value)


def _uid(names: Names, uid: str, _owner: object) -> str:
    """A uid, or that of a workload known only by its pods, which begins with the namespace."""
    namespace, slash, own = uid.rpartition("/")
    if slash:
        return f"{names.of(Name.NAMESPACE, namespace)}/{names.of(Name.UID, own)}"
    return names.of(Name.UID, uid)


def _workload(names: Names, text: str, _owner: object) -> str:
    """A workload as `Kind namespace/name`, or without its kind."""
    kind, space, path = text.rpartition(" ")
    namespace, _, name = path.partition("/")
    return f"{kind}{space}{names.of(Name.NAMESPACE, namespace)}/{names.of(Name.WORKLOAD, name)}"


def _gang(names: Names, text: str, _owner: object) -> str:
    """A gang as `gang namespace/name (system)`, whose name a label of its pods may have."""
    path, _, system = text.removeprefix("gang ").partition(" (")
    namespace, _, name = path.partition("/")
    shown = _value(names, VOLCANO_GROUP, name)
    return f"gang {names.of(Name.NAMESPACE, namespace)}/{shown} ({system}"


def _owner_name(names: Names, name: str, owner: Owner) -> str:
    return names.of(Name.NODE if owner.kind == "Node" else Name.WORKLOAD, name)


def _paused(names: Names, subject: str, pause: Pause) -> str:
    match pause.scope:
        case PauseScope.WORKLOAD:
            return _workload(names, subject, pause)
        case PauseScope.NAMESPACE:
            return names.of(Name.NAMESPACE, subject)
        case PauseScope.POOL | PauseScope.EVERYTHING:
            return _pool(names, subject, pause)


def _pool(names: Names, pool: str, _owner: object) -> str:
    """A pool, and the path of the domain that `balanceScope` makes of it."""
    name, within, domain = f" {pool}".rpartition(" in ")
    if not within:
        return pool
    path = "/".join(_value(names, "", value) for value in domain.split("/"))
    return f"{name}{within}{path}".strip()


def _value(names: Names, key: str, value: str) -> str:
    if key in NAME_KEYS and value.startswith(GENERATED_PREFIX):
        return GENERATED_PREFIX + _value(names, key, value.removeprefix(GENERATED_PREFIX))
    plain = not value or value in PLAIN_VALUES or _NUMBER.fullmatch(value) is not None
    plain |= key == COOLDOWN_TIME and _is_duration(value)
    return value if plain or key in PLAIN_LABELS else names.of(Name.VALUE, value)


def _is_duration(text: str) -> bool:
    try:
        duration_seconds(text)
    except ValueError:
        return False
    return True


def _labels(names: Names, labels: Mapping[str, str], _owner: object) -> dict[str, str]:
    return {key: _value(names, key, value) for key, value in labels.items()}


def _annotations(names: Names, annotations: Mapping[str, str], _owner: object) -> dict[str, str]:
    return {key: _annotation(names, key, value) for key, value in annotations.items()}


def _annotation(names: Names, key: str, value: str) -> str:
    if key == INTERFACES:
        return interfaces_text(networks_of({key: value}))
    if key in MARKS:
        return str(_renamed(names, MARKS[key], value, None))
    if key == SAFE_TO_EVICT_VOLUMES_ANNOTATION:
        return ",".join(names.of(Name.VOLUME, part) for part in value.split(","))
    return _value(names, key, value)


def _selected(names: Names, pairs: tuple[tuple[str, str], ...], _owner: object) -> object:
    return tuple((key, _value(names, key, value)) for key, value in pairs)


def _required(names: Names, values: tuple[str, ...], requirement: Requirement) -> tuple[str, ...]:
    if requirement.key == NODE_FIELD:
        return tuple(names.of(Name.NODE, value) for value in values)
    return tuple(_value(names, requirement.key, value) for value in values)


Rename = Callable[[Names, Any, Any], Any]
"""The new value from the names, the value, which is not empty, and the struct that has it."""

FORMS: Mapping[Form, Rename] = {
    Form.FOR_PEOPLE: lambda _, value, owner: type(value)(),  # noqa: ARG005
    Form.UID: _uid,
    Form.WORKLOAD: _workload,
    Form.GANG: _gang,
    Form.GROUP: _group_name,
    Form.LABEL: _label,
    Form.LABELED: _labeled,
    Form.OWNER: _owner_name,
    Form.POOL: _pool,
    Form.PAUSED: _paused,
    Form.REQUIRED: _required,
    Form.TAINT: lambda names, value, owner: _value(names, owner.key, value),
    Form.PATH: lambda _names, path, _owner: plain_path(path),
    Form.LABELS: _labels,
    Form.SELECTED: _selected,
    Form.ANNOTATIONS: _annotations,
}
