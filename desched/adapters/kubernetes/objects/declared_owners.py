"""Controllers of the kinds that a policy declares: of these only the annotations are read."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from desched.adapters.kubernetes.client.connection import METADATA_LIST
from desched.adapters.kubernetes.client.paged_reads import Reading
from desched.adapters.kubernetes.objects.metadata import annotations_of
from desched.api_objects.kinds import Kind
from desched.api_objects.metadata import Named
from desched.errors import ObservationError
from desched.model.cluster import ControllerKey, Owner

_Found = tuple[ControllerKey, Mapping[str, str]]


def _annotated(item: Named) -> _Found:
    metadata = item.metadata
    return (metadata.namespace, metadata.uid), annotations_of(metadata.annotations)


class OwnerKind(NamedTuple):
    """A declared kind that the API server has, and whether its objects are in namespaces."""

    kind: Kind[Named, _Found]
    namespaced: bool


class DeclaredOwners(NamedTuple):
    """The annotations by namespace and uid, why a kind was not read, and the kinds that were."""

    annotations: Mapping[ControllerKey, Mapping[str, str]] = {}
    unread: Mapping[str, str] = {}
    kinds: Mapping[str, OwnerKind] = {}


def read_declared_owners(read: Reading, kinds: Iterable[str]) -> DeclaredOwners:
    """All controllers of these kinds. A kind that cannot be read keeps its own pods only."""
    annotations: dict[ControllerKey, Mapping[str, str]] = {}
    unread: dict[str, str] = {}
    owner_kinds: dict[str, OwnerKind] = {}
    for each in kinds:
        try:
            resource = read.resource_of(each)
            if resource is None:
                unread[each] = "the API server does not have this kind"
                continue
            access, namespaced = resource
            kind = Kind(access, Named, _annotated, accept=METADATA_LIST, is_optional=True)
            listing = read.listing(kind)
            if not listing.may_be_read:
                unread[each] = f"the account may not {access}"
                continue
            annotations.update(listing.values)
            owner_kinds[each] = OwnerKind(kind, namespaced)
        except ObservationError as error:
            unread[each] = str(error).rstrip(".")
    return DeclaredOwners(annotations, unread, owner_kinds)


def read_declared_owner(
    read: Reading, owner: Owner, namespace: str, kinds: Mapping[str, OwnerKind]
) -> Mapping[str, str] | None:
    """The annotations of one controller as they are now, None if they are not known."""
    kind = kinds.get(owner.declared_kind)
    if kind is None:
        return None
    within = namespace if kind.namespaced else ""
    selector = {"fieldSelector": f"metadata.name={owner.name}"}
    # By uid: a later controller of the same name is not the pod's.
    owners = dict(read.listing(kind.kind, within, selector).values)
    return owners.get((within, owner.uid))
