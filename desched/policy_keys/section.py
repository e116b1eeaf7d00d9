"""What every section of a policy file is made of: which keys it has, and where each belongs."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from desched.policy.durations import duration_text

API_VERSION = "descheduler/v1alpha2"
KIND = "DeschedulerPolicy"

REFUSAL = "refusal"
"""The error type whose message is already our own sentence."""


def refusal(text: str, instead: str = "") -> PydanticCustomError:
    """An error whose text reaches the user as it is; `instead` is the one text to write instead."""
    return PydanticCustomError(REFUSAL, "{text}", {"text": text, "instead": instead})


class Section(BaseModel):
    """A mapping of the policy file; unknown keys and converted types are refused.

    The text below a key is its description in the reference and in the JSON Schema.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )
    key_noun: ClassVar[str] = "key"
    absent: ClassVar[Mapping[str, str]] = {}
    """Keys that one may expect here, with a sentence on why there are none."""


def optional(
    default: Any = None,
    *,
    seconds: int | None = None,
    example: Any = None,
    alias: str | None = None,
) -> Any:
    """A key that may be missing or null; `default`, or a duration of `seconds`, is what holds then.

    The value is None in both cases, because the default may depend on `compatibility`, and because
    it can matter whether a key is written.
    """
    shown = default if seconds is None else duration_text(seconds)
    return Field(
        default=None,
        alias=alias,
        json_schema_extra=None if shown is None else {"default": shown},
        examples=None if example is None else [example],
    )


def written(**values: Any) -> dict[str, Any]:
    """The values of keys that are written, so that defaults hold for the others."""
    return {name: value for name, value in values.items() if value is not None}


class PluginArgs(Section):
    """What the arguments of every plugin may carry."""

    api_version: str | None = None
    """Accepted and not used."""
    kind: str | None = None
    """Accepted and not used."""


def keys(section: type[Section]) -> dict[str, FieldInfo]:
    """The fields of a section by the key that the document uses."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def names(section: type[Section]) -> dict[str, str]:
    """The attributes of a section by the key that the document uses."""
    return dict(zip(keys(section), section.model_fields, strict=True))


def given(section: Section | None) -> Iterator[tuple[str, str, Any]]:
    """The keys of a section that are written, each with its attribute and its value."""
    for key, name in names(type(section)).items() if section else ():
        value = getattr(section, name)
        if value is not None:
            yield key, name, value


def attribute(of: type[msgspec.Struct], name: str) -> str:
    """The attribute of a value that has what a key of this name sets; durations are in seconds."""
    seconds = f"{name}_seconds"
    return seconds if seconds in of.__struct_fields__ else name


def values_of(section: Section | None, of: type[msgspec.Struct], above: str = "") -> dict[str, Any]:
    """What is written, by the attributes of a value that has them all.

    Attributes for the keys of a section below begin with the name of that section.
    """
    values: dict[str, Any] = {}
    for _key, name, value in given(section):
        if isinstance(value, Section):
            values |= values_of(value, of, f"{above}{name}_")
        else:
            values[attribute(of, f"{above}{name}")] = value
    return values


def sections_below(annotation: object) -> Iterator[type[Section]]:
    """The sections that a field of this type holds."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from sections_below(part)


def sections_at(location: tuple[str | int, ...], root: type[Section]) -> tuple[type[Section], ...]:
    """The sections that are possible at a location of pydantic's.

    Such a location names, besides keys and indices, which of several alternatives was chosen.
    """
    sections: tuple[type[Section], ...] = (root,)
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
    section: type[Section], place: str = "the policy itself"
) -> Iterator[tuple[str, type[Section]]]:
    """Every section with its place, in the order of the document."""
    yield place, section
    for key, field in keys(section).items():
        for below in sections_below(field.annotation):
            name = below.__name__.removesuffix("Args")
            inner = f"the args of {name}" if issubclass(below, PluginArgs) else f"`{key}`"
            yield from all_sections(below, inner)


def places_of(key: str, root: type[Section]) -> tuple[str, ...]:
    """Where a key belongs, empty if nowhere; resources are not looked for."""
    places = (
        place
        for place, section in all_sections(root)
        if key in keys(section) and section.key_noun == Section.key_noun
    )
    return tuple(dict.fromkeys(places))
