"""The commands that a document tells its reader to type, for tests that type them."""

import re

from tests.repository import ROOT


def documented_commands(document: str, heading: str) -> list[str]:
    """Those of a section in their order, one a line, without the comments."""
    text = (ROOT / document).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.partition(" #")[0].strip() for line in lines]
