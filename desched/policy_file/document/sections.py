"""The sections of the policy document: which keys each has, and where it belongs."""

from collections.abc import Iterator
from typing import get_args

from pydantic.fields import FieldInfo

from desched.policy_file.document.root import DeschedulerPolicy
from desched.policy_file.document.values import PluginArgs, Section


def keys(section: type[Section]) -> dict[str, FieldInfo]:
    """The fields of a section by the key that the document uses."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def names(section: type[Section]) -> dict[str, str]:
    """The attributes of a section by the key that the document uses."""
    return dict(zip(keys(section), section.model_fields, strict=True))


def sections_below(annotation: object) -> Iterator[type[Section]]:
    """The sections that a field of this type holds."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from sections_below(part)


def sections_at(location: tuple[str | int, ...]) -> tuple[type[Section], ...]:
    """The sections that are possible at a location of pydantic's.

    Such a location names, besides keys and indices, which of several alternatives was chosen.
    """
    sections: tuple[type[Section], ...] = (DeschedulerPolicy,)
    for part in location:
        if isinstance(part, int):
            continue
        chosen = tuple(section for section in sections if section.__name__ == part)
        sections = chosen or tuple(
            below
            for section in sections
            if part in keys(section)
            for below in sections_below(keys(section)[part].annotation)
        )
    return sections


def all_sections(
    section: type[Section] = DeschedulerPolicy, place: str = "the policy itself"
) -> Iterator[tuple[str, type[Section]]]:
    """Every section with its place, in the order of the document."""
    yield place, section
    for key, field in keys(section).items():
        for below in sections_below(field.annotation):
            name = below.__name__.removesuffix("Args")
            inner = f"the args of {name}" if issubclass(below, PluginArgs) else f"`{key}`"
            yield from all_sections(below, inner)


def places_of(key: str) -> tuple[str, ...]:
    """Where a key belongs, empty if nowhere; resources are not looked for."""
    found = (
        place
        for place, section in all_sections()
        if key in keys(section) and section.key_noun == Section.key_noun
    )
    return tuple(dict.fromkeys(found))
