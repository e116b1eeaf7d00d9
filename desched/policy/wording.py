"""How values and suggestions are put into sentences for people."""

from collections.abc import Iterable
from difflib import get_close_matches

from desched.model.text import on_one_line, shortened

_LONGEST_VALUE = 60  # so that a sentence about it fits one line


def quoted(value: object) -> str:
    """A value as it is shown in a sentence: short, and in the spelling of YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    text = str(value)
    shown = shortened(text, _LONGEST_VALUE)
    return f'"{on_one_line(shown)}"' if isinstance(value, str) else shown


def close_word(written: object, words: Iterable[str]) -> str:
    """The known word that was probably meant, empty if none is close."""
    by_folded = {word.lower(): word for word in words}
    close = get_close_matches(str(written)[:100].lower(), by_folded, n=1)
    return by_folded[close[0]] if close else ""


def did_you_mean(written: object, words: Iterable[str]) -> str:
    """The end of a sentence that names the close word, empty if none is close."""
    word = close_word(written, words)
    return f'; did you mean "{word}"?' if word else ""
