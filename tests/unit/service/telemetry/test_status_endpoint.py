import json

from desched.model.report import Mode
from desched.service.telemetry.status_endpoint import StatusEndpoint
from tests.unit.service.example_reports import FOLLOWED_UP, REPORT


def page():
    return StatusEndpoint("desched-0", Mode.EVICT)


def test_before_the_first_cycle_it_names_the_replica():
    assert json.loads(page().document()) == {
        "version": "desched.io/replica-status/v1",
        "instance": "desched-0",
        "mode": "evict",
        "leading": None,
        "last_cycle": None,
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
