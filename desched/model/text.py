"""Text that users of the cluster wrote, made fit for a line of output."""

LONGEST_DETAIL = 300
"""Characters of a detail that a sentence goes into."""


def on_one_line(text: str) -> str:
    """The text with every character that could break a line or hide something spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened(text: str, longest: int = LONGEST_DETAIL) -> str:
    """The text, or its beginning: what users of the cluster write can be of any length."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
