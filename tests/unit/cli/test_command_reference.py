from desched.cli.command_table import SUMMARIES
from tests.command_reference import PAGE, documented, with_flags


def test_every_command_has_a_section_of_the_page_and_no_other_has():
    assert sorted(documented()) == sorted(SUMMARIES)
    text = PAGE.read_text()
    for name in (*SUMMARIES, "settings"):
        assert f"<!-- flags of {name} -->" in text


def test_the_flags_of_the_page_are_those_of_the_commands():
    assert PAGE.read_text() == with_flags(PAGE.read_text()), "run `make generated`"


def test_a_page_with_other_flags_is_noticed():
    text = PAGE.read_text()
    assert with_flags(text.replace("`--workload NAMESPACE/NAME`", "`--workload NAME`")) == text
