from desched_oncall import OnCall

from desched.plugin_api.testing import a_node, a_pod, a_view

PLUGIN = OnCall(teams=frozenset({"payments"}))
POD = a_pod(labels={"team": "payments"})


def test_a_team_on_call_keeps_its_pods():
    assert PLUGIN.stays(POD, a_view()) == "team payments is on call"
    assert PLUGIN.stays(a_pod(), a_view()) is None


def test_canary_nodes_are_avoided():
    assert PLUGIN.avoids(POD, a_node(labels={"canary": "true"}), a_view())
    assert PLUGIN.avoids(POD, a_node(), a_view()) is None
