import msgspec
from structlog.testing import capture_logs

from desched.service.telemetry.competitor_log import CompetitorLog
from tests.unit.service.example_reports import REPORT

VOLCANO = "Volcano descheduler in volcano-system"


def told(*sightings):
    """What is logged over reports in which these other deschedulers are seen."""
    log = CompetitorLog()
    with capture_logs() as lines:
        for others in sightings:
            log.tell(msgspec.structs.replace(REPORT, other_deschedulers=others))
    return [(line["event"], line["log_level"]) for line in lines]


def test_a_cluster_without_others_is_not_worth_a_line():
    assert told((), ()) == []


def test_another_descheduler_is_a_warning_once():
    assert told((VOLCANO,), (VOLCANO,)) == [("other_descheduler.found", "warning")]


def test_a_change_is_told_again_and_the_end_too():
    assert told((VOLCANO,), (VOLCANO, "x in y"), ()) == [
        ("other_descheduler.found", "warning"),
        ("other_descheduler.found", "warning"),
        ("other_descheduler.gone", "info"),
    ]
