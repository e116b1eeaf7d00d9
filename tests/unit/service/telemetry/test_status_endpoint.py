import json

import msgspec

from desched.model.report import Mode
from desched.service.inputs.policy_file import PolicyReading
from desched.service.telemetry.status_endpoint import StatusEndpoint, status_answers
from tests.builders import policy
from tests.page_reader import Page, loads_nothing, source_of
from tests.unit.service.example_reports import FOLLOWED_UP, REPORT, STARTED_AT
from tests.unit.service.test_adversarial_outputs import HOSTILE, poisoned, with_all


def page():
    return StatusEndpoint("desched-0", Mode.EVICT, lambda: STARTED_AT)


def shown(status):
    return Page(status.page().text)


def test_before_the_first_cycle_it_names_the_replica():
    assert json.loads(page().document()) == {
        "version": "desched.io/replica-status/v1",
        "instance": "desched-0",
        "mode": "evict",
        "leading": None,
        "leader": "",
        "last_cycle": None,
        "policy": None,
        "state": None,
    }


def test_it_shows_whether_this_replica_leads():
    status = page()
    status.leadership_changed(leading=False)
    assert json.loads(status.document())["leading"] is False
    status.leadership_changed(leading=True)
    assert json.loads(status.document())["leading"] is True


def test_it_shows_the_newest_cycle_and_the_state():
    status = page()
    status.cycle_completed(REPORT)
    status.cycle_completed(FOLLOWED_UP)
    document = json.loads(status.document())
    assert document["last_cycle"]["result"] == "evicted"
    assert document["last_cycle"]["started_at"] == "2026-03-04T12:00:00Z"
    assert document["last_cycle"]["in_flight"] == 1
    assert document["state"]["nodes"][0]["node"] == "te3"
    assert document["state"]["evictions"][2]["result"] is None


def test_the_page_says_what_it_waits_for_before_the_first_cycle():
    status = page()
    assert "No cycle has ended yet." in shown(status).text
    assert "no leader election" in shown(status).text
    status.leadership_changed(leading=False)
    assert "Another replica leads and acts; its page shows the plan." in shown(status).text
    status.leader = lambda: "desched-1"
    text = shown(status).text
    assert "desched-1 leads and acts; its page shows the plan." in text
    assert "kubectl port-forward pod/desched-1 10280" in text
    assert json.loads(status.document())["leader"] == "desched-1"


def test_the_page_shows_load_plan_moves_and_what_rests():
    status = page()
    status.cycle_completed(FOLLOWED_UP)
    found = shown(status)

    assert [row[:2] for row in found.rows("nodes")] == [
        ["te3", "overloaded"],
        ["te5", "underloaded"],
        ["te1", "unknown"],
    ]
    assert found.rows("evictions")[0][1] == "shop/web-1 Deployment shop/web"
    assert [(row[1].split()[0], row[3], row[4]) for row in found.rows("moved")] == [
        ("shop/web-1", "te5", "Its replacement is Ready on one of the nodes that the plan named."),
        ("shop/web-2", "te3", "Its replacement is on the node that it left."),
        ("shop/web-3", "not yet", "in flight: the pod has left"),
    ]
    assert {row[2] for row in found.rows("refusals")} == {"not_needed", "bare_pod"}
    assert "pool gpu ends in 1 h" in found.text
    assert "forecasts" in found.text


def test_an_acknowledged_descheduler_is_named_and_is_no_warning():
    status = page()
    beside = ("Volcano descheduler in batch",)
    status.cycle_completed(msgspec.structs.replace(REPORT, acknowledged_deschedulers=beside))
    assert "Beside desched on purpose: Volcano descheduler in batch." in shown(status).text
    assert "choose one" not in shown(status).text
    document = json.loads(status.document())
    assert document["last_cycle"]["acknowledged_deschedulers"] == list(beside)


def test_the_page_shows_a_failed_cycle_until_one_succeeds():
    status = page()
    status.cycle_completed(REPORT)
    status.cycle_failed("Prometheus is away.")
    assert "The last cycle failed at 2026-03-04 12:00:00 UTC: Prometheus is away." in (
        shown(status).text
    )
    assert "te3" in shown(status).text
    status.cycle_completed(REPORT)
    assert "Prometheus is away." not in shown(status).text


def test_the_page_shows_the_policy_with_what_is_wrong_with_it():
    status = page()
    in_force = policy(source="policy.yaml")
    status.policy_read(PolicyReading(in_force, ("policy.yaml:3: numberOfNodes is 0",)))
    assert "policy.yaml:3: numberOfNodes is 0" in shown(status).text
    status.policy_read(PolicyReading(in_force, (), "policy.yaml:7: an unknown key"))
    assert "The policy file is invalid; the last good one stays in force." in shown(status).text
    assert "policy.yaml:7: an unknown key" in shown(status).text


def test_the_last_edit_of_the_policy_is_shown_with_its_time_until_the_next():
    status = page()
    in_force, line = policy(source="policy.yaml"), "targetThresholds.cpu: 80 % → 70 %"
    status.policy_read(PolicyReading(in_force, changes=(line,)))
    status.policy_read(PolicyReading(in_force, news=False))
    assert f"Edit in force since 2026-03-04 12:00:00 UTC:{line}" in shown(status).text
    found = json.loads(status.document())["policy"]
    assert (found["changed_at"], found["changes"]) == ("2026-03-04T12:00:00Z", [line])


def test_the_page_is_safe_to_show_whatever_things_are_called():
    status = page()
    status.cycle_completed(poisoned(with_all(FOLLOWED_UP)))
    status.cycle_failed(HOSTILE)
    hostile = PolicyReading(policy(source=HOSTILE), (HOSTILE,), HOSTILE, changes=(HOSTILE,))
    status.policy_read(hostile)
    found = shown(status)

    loads_nothing(found)
    assert found.elements.count("script") == 2
    assert "alert(1)" in found.text


def test_the_answer_at_the_root_allows_only_what_the_page_brings_along():
    status = page()
    status.cycle_completed(FOLLOWED_UP)
    answer = status_answers(status)["/"]({})
    found = Page(answer.body.decode())

    policy_text = answer.headers["Content-Security-Policy"]
    assert dict(each.partition(" ")[::2] for each in policy_text.split("; ")) == {
        "default-src": "'none'",
        "script-src": " ".join(map(source_of, found.contents["script"])),
        "style-src": source_of(found.contents["style"][0]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "connect-src": "'self'",
        "frame-ancestors": "'none'",
    }
    assert answer.content_type == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_page_of_a_large_cluster_is_small():
    many = [msgspec.structs.replace(REPORT.plan.nodes[0], node=f"node-{i}") for i in range(5_000)]
    plan = msgspec.structs.replace(REPORT.plan, nodes=tuple(many))
    status = page()
    status.cycle_completed(msgspec.structs.replace(REPORT, plan=plan))

    assert len(shown(status).rows("nodes")) == 200
    assert len(status.page().text) < 400_000
