"""The kinds of values that several parts of the policy document share.

Shapes only: what needs two keys at once is looked at by `checks`.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.policy.document.label_syntax import check_label_key, check_label_value, parse_selector
from desched.policy.durations import duration_seconds, duration_text
from desched.policy.wording import quoted

LARGEST_COUNT = 2**31 - 1
HIGHEST_PRIORITY_THRESHOLD = 2_000_000_000
REFUSAL = "refusal"
"""The error type whose message is already our own sentence."""


def refusal(text: str) -> PydanticCustomError:
    """An error whose text reaches the user as it is."""
    return PydanticCustomError(REFUSAL, "{text}", {"text": text})


class Section(BaseModel):
    """A mapping of the policy document; unknown keys and converted types are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, allow_inf_nan=False
    )
    key_noun: ClassVar[str] = "key"


def _seconds(value: object) -> int:
    if not isinstance(value, str):
        hint = f'; write "{value}s" for seconds' if type(value) in {int, float} else ""
        raise refusal(f'found {quoted(value)}, a duration is a text such as "5m"{hint}')
    try:
        return duration_seconds(value)
    except ValueError as error:
        raise refusal(f"{quoted(value)} {error}") from error


def seconds_between(least: int, most: int) -> Callable[[object], int]:
    """Reads a duration that has bounds."""

    def bounded(value: object) -> int:
        seconds = _seconds(value)
        if not least <= seconds <= most:
            raise refusal(
                f'found {quoted(value)}, allowed is from "{duration_text(least)}" to '
                f'"{duration_text(most)}"'
            )
        return seconds

    return bounded


def _selector(value: object) -> LabelSelector:
    if not isinstance(value, str):
        raise refusal(f'found {quoted(value)}, a selector text such as "pool=web" is allowed')
    try:
        return parse_selector(value)
    except ValueError as error:
        raise refusal(f"{quoted(value)} is not a label selector: {error}") from error


def _namespace(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
        raise refusal(
            f"found {quoted(value)}, the exact name of a namespace is allowed "
            "(no patterns; lower-case letters, digits and dashes)"
        )
    return value


OWNER_KIND_PATTERN = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Z][A-Za-z0-9]*$"


def _owner_kind(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(OWNER_KIND_PATTERN, value):
        raise refusal(
            f"found {quoted(value)}, group and kind are allowed, without a version: "
            '"argoproj.io/Rollout" (a kind of the core group stands alone)'
        )
    return value


DURATION_SCHEMA = {
    "type": "string",
    "pattern": r"^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$",
    "examples": ["90s", "5m", "1h30m"],
}
Seconds = Annotated[int, BeforeValidator(_seconds), WithJsonSchema(DURATION_SCHEMA)]
"""A Go duration in the document, whole seconds here."""

SelectorText = Annotated[
    LabelSelector,
    PlainValidator(_selector),
    WithJsonSchema({"type": "string", "examples": ["pool=web,zone in (a, b),!spot"]}),
]
"""A label selector written as one text."""

NamespaceName = Annotated[
    str,
    BeforeValidator(_namespace),
    WithJsonSchema({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}),
]
OwnerKind = Annotated[
    str,
    BeforeValidator(_owner_kind),
    WithJsonSchema({"type": "string", "pattern": OWNER_KIND_PATTERN}),
]
Percent = Annotated[float, Field(ge=0, le=100)]
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]


class MatchExpression(Section):
    """One condition on one label."""

    key: str = Field(description="The label's key.")
    operator: Annotated[
        Operator, WithJsonSchema({"enum": ["In", "NotIn", "Exists", "DoesNotExist"]})
    ] = Field(description="How the label's value is compared.")
    values: tuple[str, ...] | None = Field(
        default=None, description="Values for `In` and `NotIn`; none for the other two."
    )

    def requirement(self) -> Requirement:
        """The condition as the model knows it.

        Raises:
            ValueError: operator and values do not go together; the text is a sentence.
        """
        values = self.values or ()
        if self.operator in {Operator.GREATER, Operator.LESS}:
            raise ValueError(f"the operator {self.operator.value} is for nodes only")
        if (self.operator in {Operator.IN, Operator.NOT_IN}) != bool(values):
            needs = "needs at least one value" if not values else "takes no values"
            raise ValueError(f"the operator {self.operator.value} {needs}")
        checked = tuple(check_label_value(value) for value in values)
        return Requirement(check_label_key(self.key), self.operator, checked)


class LabelSelectorSection(Section):
    """A Kubernetes label selector; all conditions must hold."""

    match_labels: dict[str, str] | None = Field(
        default=None, description="Labels that must have exactly these values."
    )
    match_expressions: tuple[MatchExpression, ...] | None = Field(
        default=None, description="Further conditions on labels."
    )

    @model_validator(mode="after")
    def _is_a_selector(self) -> Self:
        try:
            self.selector()
        except ValueError as error:
            raise refusal(str(error)) from error
        return self

    def selector(self) -> LabelSelector:
        """The selector as the model knows it."""
        equal = [
            Requirement(check_label_key(key), Operator.IN, (check_label_value(value),))
            for key, value in sorted((self.match_labels or {}).items())
        ]
        further = [expression.requirement() for expression in self.match_expressions or ()]
        return LabelSelector((*equal, *further))


class PriorityThresholdSection(Section):
    """From which priority on pods stay."""

    value: Annotated[int, Field(ge=-(2**31), le=HIGHEST_PRIORITY_THRESHOLD)] | None = Field(
        default=None,
        description="Pods of this priority and above stay; pods strictly below may move. "
        "At most 2000000000.",
    )
    name: str | None = Field(
        default=None,
        description="The PriorityClass whose value is the threshold; instead of `value`.",
    )


class PluginArgs(Section):
    """What the arguments of every plugin may carry."""

    api_version: str | None = Field(default=None, description="Accepted and not used.")
    kind: str | None = Field(default=None, description="Accepted and not used.")


def default_is(value: object) -> dict[str, Any]:
    """Tells the schema of a default that is filled in later, because null means it as well."""
    return {"default": value}


def one_or_many(value: Any) -> Any:
    """A single text stands for a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value
