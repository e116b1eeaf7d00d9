"""The packages that an installation may leave out."""

from importlib.util import find_spec

ANNEXES = frozenset({"desched.convert", "desched.doctor", "desched.lab"})


def has_annex(package: str) -> bool:
    """Whether this package is installed; of one that was removed, an empty folder may be left."""
    spec = find_spec(package)
    return spec is not None and spec.origin is not None
