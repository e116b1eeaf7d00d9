"""Who declares that a replacement continues the work of a pod, and when that counts."""

import pytest

from desched.model.checkpoints import CHECKPOINTS, checkpoints
from tests.builders import pod, workload


@pytest.mark.parametrize(
    ("on_pod", "on_workload", "expected"),
    [
        (None, None, False),
        ("true", None, True),
        (" True ", None, True),
        (None, "1", True),
        ("true", "true", True),
        ("false", "true", False),
        ("true", "no", False),
        ("", None, False),
        ("hourly", None, False),
    ],
)
def test_pod_and_workload_must_agree(
    on_pod: str | None, on_workload: str | None, *, expected: bool
) -> None:
    one = pod("a", annotations={} if on_pod is None else {CHECKPOINTS: on_pod})
    owner = workload("web", annotations={} if on_workload is None else {CHECKPOINTS: on_workload})
    assert checkpoints(one, owner) is expected


def test_a_bare_pod_can_declare_it() -> None:
    assert checkpoints(pod("a", of=None, annotations={CHECKPOINTS: "true"}), None)
