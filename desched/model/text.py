"""Makes text by users of the cluster safe for one line of output."""

LONGEST_DETAIL = 300
"""The maximum length of a detail in characters."""


def on_one_line(text: str) -> str:
    """Escape all characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened(text: str, longest: int = LONGEST_DETAIL) -> str:
    """Truncate the text; users of the cluster can write text of any length."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
