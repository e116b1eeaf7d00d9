"""Text by users of the cluster: safe for one line of output, and what counts as true."""

LONGEST_DETAIL = 300
"""The maximum length of a detail in characters."""

TRUE = frozenset({"true", "t", "1"})
"""What systems take as true, in lower case."""


def on_one_line(text: str) -> str:
    """Escape all characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened(text: str, longest: int = LONGEST_DETAIL) -> str:
    """Truncate the text; users of the cluster can write text of any length."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def count_of_nodes(number: int, reason: str) -> str:
    """How many nodes a reason of kube-scheduler's form is about, as `1 node was unschedulable`."""
    if number != 1:
        return f"{number} {reason.replace('node(s)', 'nodes', 1)}"
    start, _, rest = reason.partition("node(s) ")
    verb, _, end = rest.partition(" ")
    return f"1 {start}node {_SINGULAR.get(verb, verb)} {end}" if rest else f"1 {reason}"


_SINGULAR = {"are": "is", "do": "does", "exceed": "exceeds", "have": "has", "were": "was"}
