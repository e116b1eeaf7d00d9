"""Which keys of a policy may vary, with which values, and the policies that these make."""

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from desched.errors import ConfigurationError
from desched.model.resources import Resource
from desched.policy.difference import policy_differences
from desched.policy.document.load_aware import LoadAwareArgs
from desched.policy.document.root import API_VERSION, KIND
from desched.policy.document.sections import keys
from desched.policy.durations import duration_seconds, duration_text
from desched.policy.edited_text import Edit, edited_text
from desched.policy.loading import PolicyText, parse_policy
from desched.policy.policy import Policy, ResourceRule
from desched.policy.reading.envelope import find_policy
from desched.policy.reading.findings import InvalidPolicy, KeyPath
from desched.policy.wording import quoted
from desched.whatif.load import MEASURED

Value = str | int | float | bool | tuple[str, ...] | None
"""A value of a key as YAML has it; None leaves the key out, so that its default holds."""

Values = Mapping[str, Value]
"""By the key of LoadAware, such as `evictionLimits.node`; keys that are not there are as today."""

MOST_VALUES = 21
"""A range of numbers has at most so many."""

SUSTAINED = ("1m", "2m", "3m", "5m", "10m", "15m", "20m", "30m", "45m", "1h")
"""The times that a range of durations has between its ends."""

SUSTAINED_FOR, LEAST_SUSTAINED_FOR = "sustainedFor", "sustainedForAtLeast"
MARGIN_POINTS = 3
LOWER_TARGET_POINTS, HIGHER_TARGET_POINTS, HIGHEST_TARGET = 10, 5, 95


class Dimension(msgspec.Struct, frozen=True):
    """A key of LoadAware that varies; its values have an order, such as numbers, or have none."""

    key: str
    values: tuple[Value, ...]
    ordered: bool = True

    @property
    def text(self) -> str:
        """What varies, as `--vary` accepts it."""
        shown = [value_text(value) for value in self.values]
        if self.ordered and len(shown) > 2:  # noqa: PLR2004  (both ends)
            return f"{self.key}={shown[0]}..{shown[-1]}"
        return f"{self.key}={','.join(shown)}"


def value_text(value: Value) -> str:
    """A value as `--vary` accepts it."""
    if isinstance(value, tuple):
        return "+".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "default" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


class Space:
    """A policy with the keys that vary.

    Raises:
        InvalidPolicy: the text is no policy.
        ConfigurationError: what is to vary cannot.
    """

    def __init__(self, today: PolicyText, vary: Sequence[str] = ()) -> None:
        self.today, self._text = parse_policy(*today).policy, today
        document, base = find_policy(*today)
        value: Any = document.value
        for part in base:
            value = {"apiVersion": API_VERSION, "kind": KIND, **value[part]}
        self._document = value
        self._args = _args_path(value)
        self.dimensions = tuple(self._given(vary) if vary else self._usual())
        if not self.dimensions:
            raise ConfigurationError(
                f"Nothing of {self.today.source} can vary; name keys with --vary."
            )

    def policy(self, values: Values) -> Policy:
        """The policy of today with these values.

        Raises:
            InvalidPolicy: they contradict each other.
        """
        text = json.dumps(self.document(values))
        return parse_policy(text, f"{self.today.source}, tuned").policy

    def document(self, values: Values) -> dict[str, Any]:
        """The same as a document."""
        found: dict[str, Any] = copy.deepcopy(self._document)
        for path, value in self._edits(values):
            _set(found, path, value)
        return found

    def text(self, values: Values) -> str | None:
        """The same as the text of today's policy with its comments; None if it cannot be edited."""
        edits = [
            each for each in self._edits(values) if _value_at(self._document, each[0]) != each[1]
        ]
        return edited_text(self._text, edits, self.document(values))

    def _edits(self, values: Values) -> Iterator[Edit]:
        if self.today.waits_by_swing and values.get(SUSTAINED_FOR) is not None:
            # Alone, it would mean exactly so long.
            least = duration_text(self.today.least_sustained_seconds)
            values = {LEAST_SUSTAINED_FOR: least, **values}
        for key, value in values.items():
            yield self.path_of(key), list(value) if isinstance(value, tuple) else value

    def path_of(self, key: str) -> KeyPath:
        """Where a key of LoadAware is in the document."""
        return (*self._args, *key.split("."))

    @cached_property
    def today_values(self) -> Values:
        """The values of today's policy, written or not, as far as the dimensions have them."""
        return {
            dimension.key: value
            for dimension in self.dimensions
            for value in dimension.values
            if self._is_today(dimension.key, value)
        }

    def _is_today(self, key: str, value: Value) -> bool:
        return not policy_differences(self.today, self.policy({key: value}))

    @property
    def extremes(self) -> Iterator[Policy]:
        """Policies that together look back as far as any of the space."""
        for dimension in self.dimensions:
            for value in dimension.values:
                yield self.policy({dimension.key: value})

    def _usual(self) -> Iterator[Dimension]:
        """What varies if nothing is named, without values that do not fit the policy."""
        for key, usual in _USUAL.items():
            if (found := usual(self.today, key)) is not None:
                values = tuple(v for v in found.values if self._fits(key, v) is None)
                if not any(self._is_today(key, value) for value in values):
                    written: Any = _value_at(self._document, self.path_of(key))
                    values = (written, *values)
                if len(values) > 1:
                    yield Dimension(key, values, found.ordered)

    def _given(self, vary: Sequence[str]) -> Iterator[Dimension]:
        seen = set[str]()
        for text in vary:
            key, _, values = text.partition("=")
            self._check_key(key, text)
            if key in seen:
                raise ConfigurationError(f"--vary names {key} twice; name it once.")
            seen.add(key)
            found = _dimension(key, values)
            for value in found.values:
                if (problem := self._fits(key, value)) is not None:
                    raise ConfigurationError(f"--vary {key}={value_text(value)}: {problem}")
            yield found

    def _check_key(self, key: str, text: str) -> None:
        if key in VARIABLE:
            resource = key.rpartition(".")[2]
            named = {each.value: each for each in MEASURED}
            if resource in named and not self.today.windows(named[resource]):
                raise ConfigurationError(
                    f"--vary {key}: {self.today.source} has no target for {resource}."
                )
            if "=" not in text:
                raise ConfigurationError(
                    f"--vary {key} has no values; write a range or a list, such as "
                    "targetThresholds.cpu=70..90 or steering=Off,WhenNeeded."
                )
            return
        known = key.partition(".")[0] in keys(LoadAwareArgs)
        reason = (
            "is not varied: protections, budgets and what load is trusted stay as they are"
            if known
            else "is not a key of LoadAware that can vary"
        )
        raise ConfigurationError(
            f"--vary: {quoted(key)} {reason}. These can: {', '.join(VARIABLE)}."
        )

    def _fits(self, key: str, value: Value) -> str | None:
        """Why the policy cannot have this value."""
        try:
            self.policy({key: value})
        except InvalidPolicy as error:
            return error.findings[0].text
        return None


def _args_path(document: Any) -> KeyPath:
    for i, profile in enumerate(document["profiles"]):
        for j, plugin in enumerate(profile.get("pluginConfig") or ()):
            if plugin["name"] == "LoadAware":
                return ("profiles", i, "pluginConfig", j, "args")
    raise ConfigurationError("The policy has no arguments of LoadAware, so nothing can vary.")


def _set(document: Any, path: KeyPath, value: object) -> None:
    *above, last = path
    for part in above:
        if isinstance(document, dict) and not document.get(part):
            document[part] = {}
        document = document[part]
    if value is None:
        document.pop(last, None)
    else:
        document[last] = value


def _value_at(document: Any, path: KeyPath) -> object:
    for part in path:
        document = document.get(part) if isinstance(document, dict) else document and document[part]
    return document


# --- what varies usually --------------------------------------------------------------------------


def _target(policy: Policy, key: str) -> Dimension | None:
    rule = _rule(policy, key)
    if rule is None:
        return None
    today, low = 100 * rule.target_ratio, 100 * rule.low_ratio
    least = today - LOWER_TARGET_POINTS
    if not policy.deviation:
        least = max(low + 1, least)
    most = max(today, min(HIGHEST_TARGET, today + HIGHER_TARGET_POINTS))
    return _whole(key, max(1, least), most, today)


def _windows(policy: Policy, key: str) -> Dimension | None:
    rule = _rule(policy, key)
    if rule is None:
        return None
    shortest = rule.windows_seconds[0]
    several = ((shortest,), (2 * shortest,), (3 * shortest,), (shortest, 3 * shortest))
    found = dict.fromkeys((rule.windows_seconds, *several))
    return Dimension(key, tuple(tuple(map(duration_text, each)) for each in found), ordered=False)


def _sustained(policy: Policy, key: str) -> Dimension | None:
    return _times(key, policy.sustained_seconds, ("5m", "10m", "15m", "20m", "30m", "45m"))


def _least_sustained(policy: Policy, key: str) -> Dimension | None:
    if not policy.waits_by_swing:  # its author wants exactly sustainedFor
        return None
    return _times(key, policy.least_sustained_seconds, ("1m", "2m", "5m", "10m"))


def _times(key: str, today: int, usual: Sequence[str]) -> Dimension:
    seconds = sorted({today, *map(duration_seconds, usual)})
    return Dimension(key, tuple(map(duration_text, seconds)))


def _stop(policy: Policy, key: str) -> Dimension | None:
    return _margin(key, [rule.stop_margin_ratio for rule in policy.rules])


def _ceiling(policy: Policy, key: str) -> Dimension | None:
    return _margin(key, [rule.ceiling_margin_ratio for rule in policy.rules])


def _margin(key: str, ratios: Sequence[float]) -> Dimension | None:
    if not ratios:
        return None
    today = 100 * max(ratios)
    return _whole(key, max(0, today - MARGIN_POINTS), today + MARGIN_POINTS, today)


def _most_of_a_node(policy: Policy, key: str) -> Dimension | None:
    node = policy.limits.node
    return None if node is None else _whole(key, 1, max(4, node), node)


def _total(policy: Policy, key: str) -> Dimension | None:
    if policy.limits.total == 0:  # its author wants no evictions yet
        return None
    return Dimension(key, (None, "2%", "5%", "10%"), ordered=False)


def _slow_start(policy: Policy, key: str) -> Dimension | None:
    today = policy.limits.slow_start
    return Dimension(key, (today, not today), ordered=False)


def _steering(policy: Policy, key: str) -> Dimension | None:
    found = dict.fromkeys((policy.steering.mode.value, "WhenNeeded", "Off"))
    return Dimension(key, tuple(found), ordered=False)


def _rule(policy: Policy, key: str) -> ResourceRule | None:
    resource = Resource(key.rpartition(".")[2])
    return next((rule for rule in policy.rules if rule.resource is resource), None)


def _whole(key: str, least: float, most: float, today: float) -> Dimension:
    """The whole numbers in between, and the number of today."""
    numbers = {*range(round(least), round(most) + 1), round(today, 4)}
    shown = (int(each) if each == int(each) else each for each in sorted(numbers))
    return Dimension(key, tuple(shown))


_USUAL: Mapping[str, Callable[[Policy, str], Dimension | None]] = {
    "targetThresholds.cpu": _target,
    "targetThresholds.memory": _target,
    "windows.cpu": _windows,
    "windows.memory": _windows,
    SUSTAINED_FOR: _sustained,
    LEAST_SUSTAINED_FOR: _least_sustained,
    "stopMargin": _stop,
    "ceilingMargin": _ceiling,
    "evictionLimits.node": _most_of_a_node,
    "evictionLimits.total": _total,
    "evictionLimits.slowStart": _slow_start,
    "steering": _steering,
}
VARIABLE = (
    *_USUAL,
    "evictionLimits.inFlight.total",
    "evictionLimits.inFlight.destination",
    "evictionLimits.perMinute",
    "maxLandingRisk",
    "steeringMaxNodes",
)
"""The keys that may vary."""


# --- what --vary names ----------------------------------------------------------------------------


class _Range(NamedTuple):
    """Two numbers of one kind and how they are written."""

    low: float
    high: float
    write: Callable[[float], Value]


def _dimension(key: str, text: str) -> Dimension:
    low, dots, high = text.partition("..")
    if dots:
        return Dimension(key, tuple(_between(key, low, high)))
    found = tuple(dict.fromkeys(_value(each) for each in text.split(",")))
    if len(found) == 1:
        raise ConfigurationError(
            f"--vary {key}={text} is one value; name two at least, or change it in the policy."
        )
    return Dimension(key, found, ordered=all(type(each) in {int, float} for each in found))


def _between(key: str, low: str, high: str) -> Iterator[Value]:
    """The values of a range, with both ends."""
    found = _range(key, low, high)
    if not found.low < found.high:
        raise ConfigurationError(
            f"--vary {key}={low}..{high}: the lower bound comes first; write {high}..{low}."
            if found.low > found.high
            else f"--vary {key}={low}..{high} is one value; name two at least."
        )
    if found.write is _duration:
        inner = map(duration_seconds, SUSTAINED)
        numbers: set[float] = {
            found.low,
            *(s for s in inner if found.low < s < found.high),
            found.high,
        }
    elif found.low == int(found.low) and found.high == int(found.high):
        width = int(found.high - found.low)
        step = -(-width // (MOST_VALUES - 1))
        numbers = {*map(float, range(int(found.low), int(found.high), step)), found.high}
    else:
        numbers = {round(found.low + i * (found.high - found.low) / 10, 6) for i in range(11)}
    yield from map(found.write, sorted(numbers))


def _range(key: str, low: str, high: str) -> _Range:
    kinds: tuple[tuple[Callable[[str], float], Callable[[float], Value]], ...] = (
        (_finite, _number),
        (_share, lambda number: f"{number:g}%"),
        (duration_seconds, _duration),
    )
    for read, write in kinds:
        try:
            return _Range(read(low), read(high), write)
        except ValueError:
            continue
    raise ConfigurationError(
        f"--vary {key}={low}..{high} is not a range; write two numbers, percentages or durations, "
        "such as 70..90, 2%..10% or 5m..30m."
    )


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError
    return number


def _share(text: str) -> float:
    if not text.endswith("%"):
        raise ValueError
    return _finite(text.removesuffix("%"))


def _duration(seconds: float) -> Value:
    return duration_text(int(seconds))


def _number(number: float) -> Value:
    return int(number) if number == int(number) else number


def _value(text: str) -> Value:
    if text in {"true", "false"}:
        return text == "true"
    if "+" in text:
        return tuple(text.split("+"))
    try:
        return _number(_finite(text))
    except ValueError:
        return None if text == "default" else text
