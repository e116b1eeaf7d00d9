import re

from desched import __version__
from desched.cli.command_table import SUMMARIES
from desched.cli.setting_flags import SETTING_FLAGS
from tests.man_page import FOLDER, pages

PAGE = pages()[FOLDER / "desched.1"]


def test_the_pages_are_those_of_the_commands():
    assert {path: path.read_text() for path in FOLDER.iterdir()} == pages(), "run `make generated`"


def test_the_page_has_the_version_each_command_and_each_variable():
    assert f'"desched {__version__}"' in PAGE
    headings = re.findall(r"^\.SS desched (.+)$", PAGE, re.MULTILINE)
    assert len(headings) == len(SUMMARIES)
    for heading, name in zip(headings, SUMMARIES, strict=True):
        assert f"{heading} ".startswith(f"{name} ")
    for row in SETTING_FLAGS.values():
        assert row.variable in PAGE


def test_no_line_of_text_is_a_request_of_troff():
    requests = re.findall(r"^[.'](\w*)", PAGE, re.MULTILINE)
    assert " ".join(sorted({*requests})) == "B PP RE RS SH SS TH TP ad br fi nf nh"
    assert PAGE.isascii()
