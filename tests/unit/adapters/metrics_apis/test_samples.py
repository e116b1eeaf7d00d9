import pytest

from desched.adapters.metrics_apis.node_loads import NodeSamples
from desched.adapters.metrics_apis.samples import Sample, Track
from desched.model.resources import Resource
from desched.policy.policy import MetricsSource
from tests.unit.adapters.prometheus.worlds import node


def track(*ends, seconds=15.0, cpu=1000.0, memory=2.0**30):
    return Track(Sample(at, seconds, cpu, memory) for at in ends)


def mean_of(track, begin, end, since=0.0):
    return track.curve(60.0, since).mean(begin, end)


def test_each_sample_stands_for_the_time_since_the_one_before():
    rising = Track(Sample(15.0 * i, 15.0, 100.0 * i, 0.0) for i in range(1, 5))
    mean = mean_of(rising, 15.0, 60.0)
    assert mean.covered_seconds == 45.0
    assert mean.cpu == pytest.approx((200 + 300 + 400) / 3)


def test_a_stretch_may_begin_and_end_within_a_sample():
    mean = mean_of(track(60.0, 120.0), 70.0, 110.0)
    assert mean.covered_seconds == 40.0


def test_after_a_gap_a_sample_stands_only_for_what_it_measured():
    mean = mean_of(track(15.0, 30.0, 300.0), 0.0, 300.0)
    assert mean.covered_seconds == 15.0 + 15.0 + 15.0


def test_nothing_is_covered_before_the_node_came_to_be():
    assert mean_of(track(15.0, 30.0), 0.0, 30.0, 30.0) is None
    assert mean_of(track(15.0, 45.0), 0.0, 45.0, 40.0).covered_seconds == 5.0


def test_an_older_or_equal_sample_changes_nothing():
    known = track(15.0, 30.0)
    known.add(Sample(30.0, 15.0, 4000.0, 0.0))
    known.add(Sample(20.0, 15.0, 4000.0, 0.0))
    assert [sample.cpu for sample in known] == [1000.0, 1000.0]


def test_a_clock_that_was_set_back_begins_a_new_track():
    known = track(1000.0, 1015.0)
    known.add(Sample(100.0, 15.0, 5.0, 5.0))
    assert [sample.at for sample in known] == [100.0]


def test_a_second_metrics_server_that_is_behind_by_its_resolution_changes_nothing():
    """With a resolution of a minute, an answer is older by that and by what kubelets keep."""
    known = track(1000.0, 1060.0)
    known.add(Sample(1060.0 - 75.0, 15.0, 5.0, 5.0))
    assert [sample.at for sample in known] == [1000.0, 1060.0]


def test_old_samples_are_forgotten():
    known = track(15.0, 30.0, 45.0)
    known.forget_before(30.0)
    assert [sample.at for sample in known] == [30.0, 45.0]
    known.forget_before(60.0)
    assert known.newest_at is None


@pytest.mark.parametrize("track", [None, Track()])
def test_a_node_without_samples_has_neither_steps_nor_points(track):
    samples = NodeSamples(node("n-a"), track, 1000.0, MetricsSource("", {}))
    assert samples.steps(Resource.CPU, 600, 300) == (None, None)
    assert samples.points(Resource.CPU, 300, (400.0, 700.0)) == (None, None)
