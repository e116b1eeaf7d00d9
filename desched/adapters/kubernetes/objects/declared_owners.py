"""Controllers of the kinds that a policy declares: of these only the annotations are read."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from desched.adapters.kubernetes.client.api_types.metadata import Named
from desched.adapters.kubernetes.client.connection import METADATA_LIST
from desched.adapters.kubernetes.client.paged_reads import Kind, Reading
from desched.adapters.kubernetes.objects.metadata import annotations_of
from desched.errors import ObservationError
from desched.model.cluster import ControllerKey, Owner

_Found = tuple[ControllerKey, Mapping[str, str]]


def _annotated(item: Named) -> _Found:
    found = item.metadata
    return (found.namespace, found.uid), annotations_of(found.annotations)


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
    known: dict[str, OwnerKind] = {}
    for each in kinds:
        try:
            found = read.resource_of(each)
            if found is None:
                unread[each] = "the API server does not have this kind"
                continue
            access, namespaced = found
            kind = Kind(access, Named, _annotated, accept=METADATA_LIST, is_optional=True)
            listing = read.listing(kind)
            if not listing.may_be_read:
                unread[each] = f"the account may not {access}"
                continue
            annotations.update(listing.values)
            known[each] = OwnerKind(kind, namespaced)
        except ObservationError as error:
            unread[each] = str(error).rstrip(".")
    return DeclaredOwners(annotations, unread, known)


def read_declared_owner(
    read: Reading, owner: Owner, namespace: str, kinds: Mapping[str, OwnerKind]
) -> Mapping[str, str] | None:
    """The annotations of one controller as they are now, None if they are not known."""
    known = kinds.get(owner.declared_kind)
    if known is None:
        return None
    within = namespace if known.namespaced else ""
    selector = {"fieldSelector": f"metadata.name={owner.name}"}
    # By uid: a later controller of the same name is not the pod's.
    found = dict(read.listing(known.kind, within, selector).values)
    return found.get((within, owner.uid))
