"""The out-of-tree plugins that are installed here; their code is not loaded."""

from importlib.metadata import EntryPoint, entry_points

GROUP = "desched.plugins"
"""The group of their entry points."""


def installed() -> tuple[EntryPoint, ...]:
    """All of them, by name; several packages may have one of the same name."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda point: (point.name, package(point))))


def package(point: EntryPoint) -> str:
    """The name and the version of the package that has it."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
