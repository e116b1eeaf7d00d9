"""Parts of metadata that matter: the controller, and the labels and annotations that are read."""

from collections.abc import Iterable

from msgspec import Raw

from desched.api_objects.decoding import RawDecoder
from desched.api_objects.metadata import OwnerReference
from desched.model.cluster import Owner
from desched.planning.eligibility.controllers import LONGEST_NAME
from desched.plugins.annotations import ANNOTATIONS

_STRINGS = RawDecoder(dict[str, str])
_OWNERS = RawDecoder(list[OwnerReference])

LONGEST_ANNOTATION = 2048
MOST_CHARACTERS = 4 * LONGEST_ANNOTATION
SHORTEST_CUT = 400
"""Characters of an annotation's value that are kept: fewer if all values together are too long.

No value that means anything is longer; the key and the value of a label have at most 381.
"""


def texts_of(raw: Raw | bytes) -> dict[str, str]:
    """A mapping of texts, such as labels."""
    return _STRINGS(raw) or {}


def annotations_of(raw: Raw | bytes) -> dict[str, str]:
    """The annotations that desched reads; the many others are not kept."""
    texts = texts_of(raw)
    if ANNOTATIONS.isdisjoint(texts):
        return {}  # nearly always
    annotations = {
        key: value[:LONGEST_ANNOTATION] for key, value in texts.items() if key in ANNOTATIONS
    }
    if sum(map(len, annotations.values())) <= MOST_CHARACTERS:
        return annotations
    return {key: value[:SHORTEST_CUT] for key, value in annotations.items()}


def controller_of(raw: Raw | bytes) -> Owner | None:
    """The one owner that controls the object."""
    return _controller(_OWNERS(raw) or ())


def _controller(owners: Iterable[OwnerReference]) -> Owner | None:
    controllers = (owner for owner in owners if owner.controller)
    return next(
        (Owner(*map(_cut, (o.kind, o.name, o.uid, o.api_version))) for o in controllers), None
    )


def _cut(name: str) -> str:
    """The name, with one character too many at most, so that too long a one matches none."""
    return name[: LONGEST_NAME + 1]
