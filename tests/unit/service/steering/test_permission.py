"""The right to patch nodes is checked at the start, every hour, and after a denied taint."""

import pytest
from structlog.testing import capture_logs

from desched.service.steering.permission import VALID_SECONDS, SteeringPermission


class ApiServer:
    """Answers the check, and counts it."""

    def __init__(self, allows):
        self.allows = allows
        self.checks = 0
        self.seconds = 1_000.0
        self.permission = SteeringPermission(self.check, lambda: self.seconds)

    def check(self):
        self.checks += 1
        return self.allows


@pytest.fixture
def logs():
    with capture_logs() as entries:
        yield entries


def test_a_granted_right_is_checked_again_every_hour(logs):
    server = ApiServer(allows=True)
    assert server.permission.granted()
    server.seconds += VALID_SECONDS - 1
    assert server.permission.granted()
    assert server.checks == 1
    server.seconds += 1
    server.allows = False
    assert not server.permission.granted()
    assert [entry["event"] for entry in logs] == ["steering.granted", "steering.not_granted"]


def test_a_missing_right_is_checked_in_each_cycle_and_logged_once(logs):
    server = ApiServer(allows=False)
    assert not any(server.permission.granted() for _ in range(3))
    assert server.checks == 3
    server.allows = True
    assert server.permission.granted()
    assert [entry["event"] for entry in logs] == ["steering.not_granted", "steering.granted"]
    assert logs[0]["grant"] == "kubectl apply -k deploy/overlays/evict"


def test_a_denied_taint_is_a_reason_to_check_at_once(logs):
    server = ApiServer(allows=True)
    assert server.permission.granted()
    server.allows = False
    server.permission.denied()
    server.permission.denied()
    assert server.checks == 2
    assert [entry["event"] for entry in logs][-1] == "steering.not_granted"
    assert not server.permission.granted()
