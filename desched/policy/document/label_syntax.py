"""Label selectors as text: `pool=web,zone!=a,tier in (x, y),!spot,gpu`.

The grammar is that of k8s.io/apimachinery labels.Parse, without its empty sets.
"""

import re

from desched.model.selectors import LabelSelector, Operator, Requirement

_TOKEN = re.compile(r"\s*(?:([(),<>]|!=|==|=|!)|([^\s(),<>=!]+))")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_END = ""
_COMPARISONS = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}
_SETS = {"in": Operator.IN, "notin": Operator.NOT_IN}


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
        ValueError: the text is not a selector; its own text names the place.
    """
    return _Reader(text).selector()


class _Reader:
    def __init__(self, text: str) -> None:
        # Every character belongs to a token, or is a space before one.
        self._tokens = [sign or word for sign, word in _TOKEN.findall(text.rstrip())]
        self._next = 0

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _expect(self, wanted: str) -> None:
        found = self._take()
        if found != wanted:
            raise ValueError(f'found "{found or "the end"}" where "{wanted}" is expected')

    def selector(self) -> LabelSelector:
        requirements: list[Requirement] = []
        while self._peek() != _END:
            if requirements:
                self._expect(",")
            requirements.append(self._requirement())
        return LabelSelector(tuple(requirements))

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(check_label_key(self._take()), Operator.DOES_NOT_EXIST)
        key = check_label_key(self._take())
        operator = self._peek()
        if operator in {_END, ","}:
            return Requirement(key, Operator.EXISTS)
        self._take()
        if operator in _SETS:
            return Requirement(key, _SETS[operator], self._set())
        if operator not in _COMPARISONS:
            raise ValueError(f'"{operator}" is not an operator (=, !=, in, notin, <, >)')
        return Requirement(key, _COMPARISONS[operator], (self._value(operator),))

    def _set(self) -> tuple[str, ...]:
        self._expect("(")
        values = [check_label_value(self._take())]
        while self._peek() == ",":
            self._take()
            values.append(check_label_value(self._take()))
        self._expect(")")
        return tuple(values)

    def _value(self, operator: str) -> str:
        value = _END if self._peek() in {_END, ","} else self._take()
        if operator in {"<", ">"} and not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise ValueError(f'"{operator}" compares whole numbers, not "{value}"')
        return value if operator in {"<", ">"} else check_label_value(value)
