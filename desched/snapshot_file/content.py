"""The content of a snapshot file: what a plan needs, and what is left of the cluster in it."""

from collections.abc import Collection

import msgspec

from desched.model.snapshot import Snapshot
from desched.model.state import State


class LabelKeys(msgspec.Struct, frozen=True):
    """Keys of labels of each kind of object, sorted."""

    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    def without(self, others: "LabelKeys") -> "LabelKeys":
        """The keys that the others do not have."""
        return LabelKeys(
            _without(self.nodes, others.nodes),
            _without(self.pods, others.pods),
            _without(self.namespaces, others.namespaces),
        )

    def __str__(self) -> str:
        kinds = (("node", self.nodes), ("pod", self.pods), ("namespace", self.namespaces))
        return ", ".join(f"{kind} label {key}" for kind, keys in kinds for key in keys)


class SnapshotContent(msgspec.Struct, frozen=True):
    """A snapshot with the policy, the state and the right to steer that its plan depends on.

    `policy_text` is the policy as read, `policy_source` names its file. `written_by` is the version
    of desched that took the snapshot, `target` the cluster. `kept_labels` are the keys of labels
    that are in it, None if all are. `other_deschedulers` are named because images are not in it.
    """

    snapshot: Snapshot
    state: State
    policy_text: str
    policy_source: str = "policy.yaml"
    may_steer: bool = True
    written_by: str = ""
    target: str = ""
    kept_labels: LabelKeys | None = None
    other_deschedulers: tuple[str, ...] = ()


def _without(keys: Collection[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(set(keys) - set(others)))
