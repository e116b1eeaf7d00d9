import pytest

from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.policy_keys.label_syntax import parse_selector, selector_text

PARSED = {
    "": (),
    "  ": (),
    "pool=web": (Requirement("pool", Operator.IN, ("web",)),),
    "pool == web": (Requirement("pool", Operator.IN, ("web",)),),
    "pool=": (Requirement("pool", Operator.IN, ("",)),),
    "pool=,gpu": (Requirement("pool", Operator.IN, ("",)), Requirement("gpu", Operator.EXISTS)),
    "pool!=web": (Requirement("pool", Operator.NOT_IN, ("web",)),),
    "e in (x,y)": (Requirement("e", Operator.IN, ("x", "y")),),
    "e notin ( x , y )": (Requirement("e", Operator.NOT_IN, ("x", "y")),),
    "d in(x)": (Requirement("d", Operator.IN, ("x",)),),
    "! f": (Requirement("f", Operator.DOES_NOT_EXIST),),
    "!f": (Requirement("f", Operator.DOES_NOT_EXIST),),
    "in,notin": (Requirement("in", Operator.EXISTS), Requirement("notin", Operator.EXISTS)),
    "cores>8,cores < 64": (
        Requirement("cores", Operator.GREATER, ("8",)),
        Requirement("cores", Operator.LESS, ("64",)),
    ),
    "node.kubernetes.io/instance-type=m5.large , g": (
        Requirement("node.kubernetes.io/instance-type", Operator.IN, ("m5.large",)),
        Requirement("g", Operator.EXISTS),
    ),
}


@pytest.mark.parametrize("text", PARSED)
def test_a_selector_text_means_what_the_api_server_takes_it_for(text):
    assert parse_selector(text) == LabelSelector(PARSED[text])


@pytest.mark.parametrize("text", PARSED)
def test_the_text_of_a_selector_means_the_same(text):
    assert parse_selector(selector_text(parse_selector(text))) == parse_selector(text)


REFUSED = {
    "a=b,": '"" is not a condition',
    ",a": '"" is not a condition',
    "a b": '"a b" is not a condition',
    "a=b c": '"a=b c" is not a condition',
    "a in x,b": '"a in x" is not a condition',
    "b,a in (x": '"a in (x" is not a condition',
    "a in ()": '"a in ()" is not a condition',
    "a in (x,": '"a in (x," is not a condition',
    "a in (x,)": '"a in (x,)" is not a condition',
    "a in (x,-)": '"-" can never be the value',
    "a>b": '">" compares whole numbers',
    "!": '"!" is not a condition',
    "!a=b": '"!a=b" is not a condition',
    "-a=b": '"-a" is not a label key',
    "Example.com/a": '"Example.com/a" is not a label key',
    "/a": '"/a" is not a label key',
    "a=" + "b" * 64: "can never be the value of a label",
    "a=ä": "can never be the value of a label",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_is_no_selector_is_refused_with_the_condition_that_is_none(text):
    with pytest.raises(ValueError, match=REFUSED[text].replace("(", r"\(").replace(")", r"\)")):
        parse_selector(text)
