"""Marks on the texts of the model: which are names, so that a snapshot file may replace them.

Every text that a snapshot or a state may have needs one; else no snapshot can be taken with new
names, and a test fails.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Annotated

import msgspec


class Name(StrEnum):
    """What a name belongs to; its value begins the new name."""

    NODE = "node"
    NAMESPACE = "namespace"
    WORKLOAD = "workload"
    POD = "pod"
    VOLUME = "volume"
    OBJECT = "object"
    UID = "uid"
    VALUE = "value"


class Form(Enum):
    """What else a text is."""

    PLAIN = auto()  # no name: a kind, the key of a label, a zone
    FOR_PEOPLE = auto()  # it decides nothing
    UID = auto()  # or that of a workload known only by its pods, after the namespace
    WORKLOAD = auto()  # `Kind namespace/name`, or without the kind
    GANG = auto()  # `gang namespace/name (system)`
    GROUP = auto()  # the name of a group as its pods have it, which depends on its system
    LABEL = auto()  # `KEY[=VALUE]` of a label
    LABELED = auto()  # the name of an object as the labels of its pods have it
    OWNER = auto()  # the name of a node or of a workload, by the kind of the owner
    POOL = auto()  # with the path of the domain that `balanceScope` makes of it
    PAUSED = auto()  # a workload, a namespace or a pool, by the scope of the pause
    REQUIRED = auto()  # the values of a requirement, by its key
    LABELS = auto()
    TAINT = auto()  # the value of a taint or a toleration, by its key
    PATH = auto()  # of a volume on the node
    SELECTED = auto()  # pairs of the key and the value of a label
    ANNOTATIONS = auto()


class Instead(msgspec.Struct, frozen=True):
    """A reason for people of which only matters that there is one; `text` may take its place."""

    text: str


Mark = Name | Form | Instead

NodeName = Annotated[str, Name.NODE]
Namespace = Annotated[str, Name.NAMESPACE]
WorkloadName = Annotated[str, Name.WORKLOAD]
PodName = Annotated[str, Name.POD]
VolumeName = Annotated[str, Name.VOLUME]
ObjectName = Annotated[str, Name.OBJECT]
LabelValue = Annotated[str, Name.VALUE]
Uid = Annotated[str, Form.UID]
Plain = Annotated[str, Form.PLAIN]
WorkloadText = Annotated[str, Form.WORKLOAD]
Pool = Annotated[str, Form.POOL]
LabeledName = Annotated[str, Form.LABELED]
TaintValue = Annotated[str, Form.TAINT]
HostPath = Annotated[str, Form.PATH]
Labels = Annotated[Mapping[str, str], Form.LABELS]
Annotations = Annotated[Mapping[str, str], Form.ANNOTATIONS]
ForPeople = Annotated[str, Form.FOR_PEOPLE]
