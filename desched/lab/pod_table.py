"""The pods of the simulated cluster: by name, by owner, and those that wait for a node."""

from functools import cached_property

from desched.model.cluster import Pod, PodRef

Key = tuple[str, str]


class PodTable:
    """Pods by namespace and name, in the order of their creation."""

    def __init__(self) -> None:
        self._pods: dict[Key, Pod] = {}
        self._of_owner: dict[str, dict[Key, None]] = {}
        self._on_node: dict[str, dict[Key, None]] = {}
        self._pending: dict[Key, None] = {}

    def put(self, pod: Pod) -> None:
        """Add a pod, or change the one of this name."""
        key = pod.namespace, pod.name
        self._pods[key] = pod
        if pod.node or pod.deleting:
            self._pending.pop(key, None)
        else:
            self._pending[key] = None
        if pod.owner:
            self._of_owner.setdefault(pod.owner.uid, {})[key] = None
        if pod.node:
            self._on_node.setdefault(pod.node, {})[key] = None
        self.__dict__.pop("all", None)

    def remove(self, pod: Pod) -> None:
        """Remove a pod."""
        key = pod.namespace, pod.name
        del self._pods[key]
        self._pending.pop(key, None)
        if pod.owner:
            del self._of_owner[pod.owner.uid][key]
        if pod.node:
            del self._on_node[pod.node][key]
        self.__dict__.pop("all", None)

    def find(self, ref: PodRef) -> Pod | None:
        """The pod of this namespace and name, None if there is none."""
        return self._pods.get((ref.namespace, ref.name))

    @cached_property
    def all(self) -> tuple[Pod, ...]:
        """All pods, the newest last."""
        return tuple(self._pods.values())

    def newest(self) -> Pod:
        """The pod that was created last."""
        return next(reversed(self._pods.values()))

    def of_owner(self, uid: str) -> list[Pod]:
        """The pods of one owner."""
        return [self._pods[key] for key in self._of_owner.get(uid, ())]

    def on_node(self, name: str) -> list[Pod]:
        """The pods on one node."""
        return [self._pods[key] for key in self._on_node.get(name, ())]

    def pending(self) -> list[Pod]:
        """The pods that the scheduler has to place."""
        return [self._pods[key] for key in self._pending]
