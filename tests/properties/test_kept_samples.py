"""A restart changes little: kept samples cover no more of a window, and say nearly the same."""

from hypothesis import given
from hypothesis import strategies as st

from desched.adapters.metrics_apis.kept_samples import (
    LONGEST_GAP_SECONDS,
    STEP_SECONDS,
    decode_samples,
    encode_samples,
)
from desched.adapters.metrics_apis.node_loads import longest_gap_seconds
from desched.adapters.metrics_apis.samples import Mean, Sample, Track
from desched.policy.policy import MetricsType

SOURCE = MetricsType.METRICS_SERVER
gaps = st.one_of(st.floats(10, LONGEST_GAP_SECONDS), st.floats(10, 400))
cpus = st.floats(0, 64_000)


@given(st.lists(st.tuples(gaps, cpus), min_size=2, max_size=60), st.sampled_from([120, 300, 900]))
def test_windows_are_the_same_after_a_restart(
    steps: list[tuple[float, float]], window_seconds: int
) -> None:
    kept_on = Track()
    at = 1_000_000.0
    for gap, cpu in steps:
        at += gap
        kept_on.add(Sample(at, 15.0, cpu, cpu))
    read = decode_samples(SOURCE, encode_samples(SOURCE, {"n": kept_on}, ()))
    assert read is not None
    restarted = read.nodes["n"]

    def mean(track: Track) -> Mean:
        curve = track.curve(longest_gap_seconds(window_seconds), 0.0)
        found = curve.mean(at - window_seconds, at)
        assert found is not None
        return found

    expected, found = mean(kept_on), mean(restarted)
    assert restarted.newest_at == kept_on.newest_at
    assert found.covered_seconds <= expected.covered_seconds + 1e-3
    if all(gap <= LONGEST_GAP_SECONDS for gap, _ in steps):
        # The window begins within a step, whose mean counts for the part that is in the window.
        assert found.covered_seconds >= expected.covered_seconds - 1e-3
        span = max(cpu for _, cpu in steps) - min(cpu for _, cpu in steps)
        share = min(1.0, STEP_SECONDS / expected.covered_seconds)
        assert abs(found.cpu - expected.cpu) <= share * span + 0.01
