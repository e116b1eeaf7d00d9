"""The networks of pods beside the one of all pods."""

from collections.abc import Iterable, Mapping

import msgspec

from desched.model.resources import Amounts

INTERFACES = "networking.gke.io/interfaces"
"""An annotation of a pod: its interfaces and their networks, as a JSON list."""

DEFAULT_NETWORK = "default"
"""The network of all pods, which every node has."""

NETWORK_RESOURCES = "networking.gke.io.networks/"
"""A node has a resource with this prefix for each further network."""


class _Interface(msgspec.Struct, rename="camel"):
    network: str


_INTERFACES = msgspec.json.Decoder(list[_Interface])


def networks_of(annotations: Mapping[str, str]) -> tuple[str, ...] | None:
    """The networks of the pod beside the one of all pods; None if its annotation is unreadable."""
    text = annotations.get(INTERFACES)
    if text is None:
        return ()
    try:
        interfaces = _INTERFACES.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return tuple(sorted({interface.network for interface in interfaces} - {DEFAULT_NETWORK}))


def interfaces_text(networks: Iterable[str] | None) -> str:
    """The shortest value of the annotation for these networks; for None an unreadable one."""
    if networks is None:
        return ""
    return msgspec.json.encode([_Interface(name) for name in networks]).decode()


def amounts_of_networks(networks: Iterable[str]) -> Amounts:
    """What a node must have for a pod with these networks.

    A webhook adds the same to the requests of each new pod.
    """
    return Amounts(extended=tuple((f"{NETWORK_RESOURCES}{name}", 1) for name in networks))
