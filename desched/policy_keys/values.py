"""The kinds of values that several sections of a policy file share."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import core_schema

from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.policy.durations import LONGEST_SECONDS, duration_seconds, duration_text
from desched.policy.policy import HIGHEST_PRIORITY_THRESHOLD
from desched.policy.share import Share
from desched.policy.wording import quoted
from desched.policy_keys.label_syntax import (
    check_label_key,
    check_label_value,
    parse_selector,
)
from desched.policy_keys.section import Section, refusal

LARGEST_COUNT = 2**31 - 1
WEEK_SECONDS = 7 * 24 * 3600


class Form(msgspec.Struct, frozen=True, eq=False):
    """An annotation: how a value is read from the file, and the JSON Schema of its text."""

    read: Callable[[object], object]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, *_: object) -> core_schema.CoreSchema:
        """Reads the value with nothing but `read`."""
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, Any]:
        """The schema as it is."""
        return self.schema


def text_form(
    parse: Callable[[str], object], allowed: str, but: str = "", **schema: object
) -> Form:
    """A text for `parse`, whose errors are the end of a sentence; `but` precedes them."""

    def read(value: object) -> object:
        if not isinstance(value, str):
            raise refusal(f"found {quoted(value)}, {allowed}")
        try:
            return parse(value)
        except ValueError as error:
            raise refusal(f"{quoted(value)} {but}{error}") from error

    return Form(read, {"type": "string", **schema})


def matching(pattern: str, allowed: str) -> Form:
    """A text of which the whole matches the pattern."""

    def read(value: object) -> object:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise refusal(f"found {quoted(value)}, {allowed}")
        return value

    return Form(read, {"type": "string", "pattern": pattern})


DURATION_SCHEMA = {
    "type": "string",
    "pattern": r"^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h|d|w))+$",
    "examples": ["90s", "5m", "1h30m"],
}


def lasting(least: int = 0, most: int = LONGEST_SECONDS) -> Form:
    """A Go duration in the file, whole seconds here, within bounds that include both ends."""

    def read(value: object) -> object:
        hint = f'; write "{value}s" for seconds' if type(value) in {int, float} else ""
        text = text_form(duration_seconds, f'a duration is a text such as "5m"{hint}')
        seconds: Any = text.read(value)
        if not least <= seconds <= most:
            raise refusal(
                f'found {quoted(value)}, allowed is from "{duration_text(least)}" to '
                f'"{duration_text(most)}"'
            )
        return seconds

    return Form(read, DURATION_SCHEMA)


Seconds = Annotated[int, lasting()]
Span = Annotated[int, lasting(10, WEEK_SECONDS)]
"""A duration from ten seconds to a week."""

SelectorText = Annotated[
    LabelSelector,
    text_form(
        parse_selector,
        'a selector text such as "pool=web" is allowed',
        but="is not a label selector: ",
        examples=["pool=web,zone in (a, b),!spot"],
    ),
]
"""A label selector written as one text."""

LabelKey = Annotated[
    str,
    matching(
        "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        'allowed is the key of a label, such as "example.com/rack"',
    ),
]

NamespaceName = Annotated[
    str,
    matching(
        "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        "the exact name of a namespace is allowed "
        "(no patterns; lower-case letters, digits and dashes)",
    ),
]
OwnerKind = Annotated[
    str,
    matching(
        "^(?!v[0-9]+((alpha|beta)[0-9]+)?/)([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Z][A-Za-z0-9]*$",
        'group and kind are allowed, without a version: "argoproj.io/Rollout" (a kind of the core '
        "group stands alone)",
    ),
]
_ALL = 100  # percent
PERCENTAGE_PATTERN = r"^[0-9]{1,3}(\.[0-9]{1,2})?%$"


def number_of(value: object) -> object:
    """The number in a text such as `85%`; any other value as it is."""
    if isinstance(value, str) and re.fullmatch(PERCENTAGE_PATTERN, value):
        return float(value.removesuffix("%"))
    return value


def _percent(value: object) -> object:
    number = number_of(value)
    if isinstance(number, float) and 0 < number < 1:
        meant = f"{number * 100:g}"
        text = f"found {quoted(value)}, which is less than one percent; write {meant} for {meant} %"
        raise refusal(text, meant)
    return number


def _or_percentage(most: int) -> WithJsonSchema:
    number = {"type": "number", "minimum": 0, "maximum": most}
    return WithJsonSchema({"anyOf": [number, {"type": "string", "pattern": PERCENTAGE_PATTERN}]})


Percent = Annotated[float, BeforeValidator(_percent), Field(ge=0, le=100), _or_percentage(100)]


def _ratio(value: object) -> object:
    number = number_of(value)
    if isinstance(value, str) and isinstance(number, float):
        return number / 100
    if isinstance(value, int | float) and 1 < value <= _ALL:
        meant = f"{value / 100:g}"
        text = f"found {value:g}, allowed is from 0 to 1; write {meant} for {value:g} %"
        raise refusal(text, meant)
    return value


Ratio = Annotated[float, BeforeValidator(_ratio), Field(ge=0, le=1), _or_percentage(1)]
"""A share from 0 to 1, also as a percentage in a text."""
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
UpTo1000 = Annotated[int, Field(ge=1, le=1000)]


def _count_or_share(value: object) -> int | Share:
    if isinstance(value, str) and re.fullmatch(PERCENTAGE_PATTERN, value):
        percent = float(value.removesuffix("%"))
        if 0 < percent <= _ALL:
            return Share(percent / _ALL)
    elif type(value) is int and 0 <= value <= LARGEST_COUNT:
        return value
    instead = ""
    if isinstance(value, float) and 0 < value < 1:
        instead = f'"{value * 100:g}%"'
    elif isinstance(value, str) and value.isdecimal():
        instead = value
    hint = f"; write {instead}" if instead else ""
    raise refusal(
        f"found {quoted(value)}, allowed is a whole number, or a percentage above 0 such as "
        f'"10%"{hint}',
        instead,
    )


CountOrShare = Annotated[
    int | Share,
    Form(
        _count_or_share,
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": LARGEST_COUNT},
                {"type": "string", "pattern": PERCENTAGE_PATTERN},
            ]
        },
    ),
]
"""A number, or a share as a percentage in a text."""

Priority = Annotated[int, Field(ge=-(2**31), le=HIGHEST_PRIORITY_THRESHOLD)]


class MatchExpression(Section):
    """One condition on one label."""

    key: str
    """The label's key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value is compared."""
    values: tuple[str, ...] | None = None
    """Values for `In` and `NotIn`; none for the other two."""

    def requirement(self) -> Requirement:
        """The condition as a value of the model.

        Raises:
            ValueError: operator and values do not go together; the text is a sentence.
        """
        if (self.operator in {"In", "NotIn"}) != bool(self.values):
            needs = "takes no values" if self.values else "needs at least one value"
            raise ValueError(f"the operator {self.operator} {needs}")
        values = tuple(check_label_value(value) for value in self.values or ())
        return Requirement(check_label_key(self.key), Operator(self.operator), values)


class LabelSelectorSection(Section):
    """A Kubernetes label selector; all conditions must hold."""

    match_labels: dict[str, str] | None = None
    """Labels that must have exactly these values."""
    match_expressions: tuple[MatchExpression, ...] | None = None
    """Further conditions on labels."""

    @model_validator(mode="after")
    def _is_a_selector(self) -> Self:
        try:
            self.selector()
        except ValueError as error:
            raise refusal(str(error)) from error
        return self

    def selector(self) -> LabelSelector:
        """The selector as a value of the model."""
        equal = [
            Requirement(check_label_key(key), Operator.IN, (check_label_value(value),))
            for key, value in sorted((self.match_labels or {}).items())
        ]
        further = [expression.requirement() for expression in self.match_expressions or ()]
        return LabelSelector((*equal, *further))


class PriorityThresholdSection(Section):
    """The priority from which pods stay."""

    value: Priority | None = None
    """Pods of this priority and above stay; pods strictly below may move. At most 2000000000."""
    name: str | None = None
    """The PriorityClass whose value is the threshold; instead of `value`."""


def all_of(*selectors: LabelSelector | LabelSelectorSection | None) -> LabelSelector:
    """The conditions of all selectors that are written."""
    given = (s.selector() if isinstance(s, LabelSelectorSection) else s for s in selectors if s)
    return LabelSelector(tuple(r for selector in given for r in selector.requirements))


def one_or_many(value: Any) -> Any:
    """Reads a single text as a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value
