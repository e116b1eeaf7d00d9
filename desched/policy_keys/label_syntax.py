"""Label selectors as text: `pool=web,zone!=a,tier in (x, y),!spot,gpu`.

The grammar is that of k8s.io/apimachinery labels.Parse, without its empty sets.
"""

import re

from desched.model.selectors import LabelSelector, Operator, Requirement

_PART = re.compile(r"((?:[^,(]|\([^)]*\)?)*),")
"""All up to a comma that is in no parentheses."""
_WORD = r"[^\s(),<>=!]+"
_CONDITION = re.compile(
    rf"(?P<absent>! ?)?(?P<key>{_WORD})"
    rf"(?: ?(?P<compares>==?|!=|[<>]) ?(?P<value>{_WORD})?"
    rf"| (?P<lists>in|notin) ?\( ?(?P<values>{_WORD}(?: ?, ?{_WORD})*) ?\))?"
)
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_OPERATORS = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
}
_SIGNS = {
    Operator.IN: "=",
    Operator.NOT_IN: "!=",
    Operator.GREATER: ">",
    Operator.LESS: "<",
}


def check_label_key(key: str) -> str:
    """The key itself, if it is one: an optional DNS prefix, a slash, and a name.

    Raises:
        ValueError: it is not; the text is a sentence.
    """
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        raise ValueError(f'"{key}" is not a label key such as "pool" or "example.com/pool"')
    return key


def check_label_value(value: str) -> str:
    """The value itself, if it can be a label's: at most 63 letters, digits, `-`, `_` and `.`.

    Raises:
        ValueError: it cannot; the text is a sentence.
    """
    if value and not _NAME.fullmatch(value):
        raise ValueError(f'"{value}" can never be the value of a label')
    return value


def parse_selector(text: str) -> LabelSelector:
    """The selector in the text; the empty text selects everything.

    Raises:
        ValueError: the text is not a selector; its own text names the condition.
    """
    words = " ".join(text.split())
    conditions = _PART.findall(f"{words},") if words else ()
    return LabelSelector(tuple(_requirement(condition.strip()) for condition in conditions))


def selector_text(selector: LabelSelector) -> str:
    """The text of a selector, empty if it selects everything."""
    return ",".join(map(_condition_text, selector.requirements))


def _condition_text(condition: Requirement) -> str:
    key, operator, values = condition.key, condition.operator, condition.values
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST}:
        return key if operator is Operator.EXISTS else f"!{key}"
    if len(values) == 1:
        return f"{key}{_SIGNS[operator]}{values[0]}"
    return f"{key} {'in' if operator is Operator.IN else 'notin'} ({', '.join(values)})"


def _requirement(text: str) -> Requirement:
    condition = _CONDITION.fullmatch(text)
    if condition is None or (condition["absent"] and condition.end("key") < len(text)):
        raise ValueError(
            f'"{text}" is not a condition such as "pool=web", "tier in (x, y)", "gpu" or "!spot"'
        )
    key, word = check_label_key(condition["key"]), condition["compares"] or condition["lists"]
    if not word:
        return Requirement(key, Operator.DOES_NOT_EXIST if condition["absent"] else Operator.EXISTS)
    values = tuple((condition["values"] or condition["value"] or "").replace(" ", "").split(","))
    if word not in {"<", ">"}:
        values = tuple(check_label_value(value) for value in values)
    elif not re.fullmatch(r"-?[0-9]{1,18}", values[0]):
        raise ValueError(f'"{word}" compares whole numbers, not "{values[0]}"')
    return Requirement(key, _OPERATORS[word], values)
