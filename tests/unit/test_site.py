from pathlib import Path

from tests.repository import ROOT
from tests.site import files, stage


def test_the_site_has_every_document_and_what_the_documents_link_to(tmp_path: Path) -> None:
    old = tmp_path / "site" / "removed.md"
    old.parent.mkdir()
    old.write_text("A page of the last time.")
    stage(tmp_path / "site")
    staged = {
        str(each.relative_to(tmp_path / "site"))
        for each in (tmp_path / "site").rglob("*")
        if each.is_file()
    }

    assert staged == {str(each.relative_to(ROOT)) for each in files()}
    assert {"README.md", "docs/report.md", "docs/pictures/report.png", "LICENSE"} <= staged
    assert {str(each.relative_to(ROOT)) for each in (ROOT / "docs").glob("*.md")} <= staged
