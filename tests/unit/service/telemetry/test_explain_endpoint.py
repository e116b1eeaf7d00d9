import json

import pytest
from msgspec.structs import replace

from desched.decision import decide
from desched.model.load import PodChoice
from desched.model.snapshot import Snapshot
from desched.model.state import State
from desched.service.telemetry.explain_endpoint import (
    LONGEST_NAME,
    NOTHING_YET,
    ExplainEndpoint,
    explain_answers,
)
from tests.builders import load, node, pod, policy, snapshot

HOSTILE = "p1\u202e\x1b[2J"


def seen() -> Snapshot:
    """A node that is overloaded and one that is not; the usage of the pods on both is read."""
    pods = (pod("p1", on="hot"), pod("p2", on="hot"), pod("calm", on="cool"))
    used = {"p1": (1.0, 0.5), "p2": (1.0, 0.5), "calm": (0.1, 0.1)}
    return snapshot(
        (node("hot"), node("cool")), pods, load({"hot": (0.9, 0.2), "cool": (0.1, 0.1)}, used)
    )


def asked(endpoint, **query):
    answer = explain_answers(endpoint)["/explain"](query)
    return answer.status, json.loads(answer.body)


def deciding(of=None):
    endpoint = ExplainEndpoint("the lab")
    endpoint.decided(decide(of or seen(), policy(), State()))
    return endpoint


def test_before_the_first_cycle_it_names_why_there_is_no_answer():
    status, found = asked(ExplainEndpoint("the lab"), kind="node", name="hot")
    assert (status, found) == (503, {"problem": NOTHING_YET})


def test_a_pod_of_the_last_decision_is_explained():
    status, found = asked(deciding(), kind="pod", name="apps/p1")
    assert status == 200
    assert found["version"] == "desched.io/explanation/v2"
    assert found["target"] == "the lab"
    assert found["pod"]["summary"]["node"] == "hot"


@pytest.mark.parametrize(
    ("query", "status", "problem"),
    [
        ({"kind": "node", "name": "hor"}, 404, "There is no node hor; did you mean hot?"),
        ({"kind": "nodes/hot"}, 200, None),
        ({}, 400, "is no kind that can be explained"),
        ({"kind": "pod", "name": "p1"}, 400, "Name the pod with its namespace"),
        ({"kind": "node", "name": "x" * LONGEST_NAME}, 400, "so long a name"),
    ],
)
def test_questions_that_cannot_be_answered_get_a_sentence(query, status, problem):
    found_status, found = asked(deciding(), **query)
    assert found_status == status
    assert problem is None or problem in found["problem"]


def test_hostile_names_cannot_move_the_cursor_of_who_reads_the_answer():
    body = explain_answers(deciding())["/explain"]({"kind": "node", "name": HOSTILE}).body
    assert body.decode().replace("\n", "").isprintable()
    assert HOSTILE in json.loads(body)["problem"]


def test_usage_that_no_decision_needed_is_not_called_unmeasured():
    found = seen()
    known = {name: used for name, used in found.load.pods.items() if name[1] != "calm"}
    of_hot = replace(found.load, pods=known, pods_of=PodChoice(frozenset({"hot"})))
    endpoint = deciding(replace(found, load=of_hot))

    calm = asked(endpoint, kind="pod", name="apps/calm")[1]["pod"]
    cool = asked(endpoint, kind="node", name="cool")[1]["node"]

    assert calm["summary"]["outcome"] == "not_needed"
    assert calm["summary"]["usage_read"] is False
    assert "usage_unknown" not in {rule["reason"] for rule in calm["rules"]}
    assert calm["placement"] is None
    assert not any("cAdvisor" in change for change in calm["changes"])
    assert {each["pods_ratio"] for each in cool["loads"]} == {None}
    assert {each["other_ratio"] for each in cool["loads"]} == {None}
    assert asked(endpoint, kind="pod", name="apps/p1")[1]["pod"]["summary"]["usage_read"] is True
