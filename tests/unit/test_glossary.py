"""The glossary explains the words that the code uses, each once."""

import re

from tests.repository import ROOT

CODE = ROOT / "desched"


def terms() -> list[str]:
    """The words and phrases that the glossary explains, in all the forms that it names."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    cells = re.findall(r"^\| (\*\*.+?) \|", glossary, re.MULTILINE)
    return [term for cell in cells for term in re.findall(r"\*\*(.+?)\*\*", cell)]


def test_the_glossary_explains_no_word_twice() -> None:
    assert len(terms()) == len(set(terms())) > 50


def test_the_glossary_explains_no_word_that_nothing_uses() -> None:
    code = "\n".join(path.read_text() for path in CODE.rglob("*.py")).lower()
    forms = {term: re.sub(r"[ -]", r"[\\s_-]+", term) for term in terms()}

    assert [
        term for term, form in forms.items() if not re.search(f"(?<![a-z]){form}(?![a-z])", code)
    ] == []
