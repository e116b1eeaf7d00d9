import json
from pathlib import Path

from tests.repository import ROOT
from tests.site import add, files, stage


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


def test_a_site_keeps_its_older_versions_and_leads_to_the_newest(tmp_path: Path) -> None:
    site, built = tmp_path / "site", tmp_path / "built"
    built.mkdir()
    for version in ("0.9.0", "0.10.0", "0.9.1", "0.9.0"):
        (built / "index.html").write_text(f"pages of {version}", encoding="utf-8")
        add(built, site, version)

    listed = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    assert [each["version"] for each in listed] == ["0.10.0", "0.9.1", "0.9.0"]
    for each in listed:
        page = site / each["version"] / "index.html"
        assert page.read_text(encoding="utf-8") == f"pages of {each['version']}"
    assert "url=0.10.0/" in (site / "index.html").read_text(encoding="utf-8")
