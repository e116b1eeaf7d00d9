import base64
import zlib

import pytest

from desched.adapters.metrics_apis.kept_samples import (
    LONGEST_TEXT_BYTES,
    decode_samples,
    encode_samples,
    in_steps,
)
from desched.adapters.metrics_apis.samples import Sample, Track
from desched.policy.policy import MetricsType

SOURCE = MetricsType.METRICS_SERVER


def track(*ends, cpu=1000.0):
    return Track(Sample(at, 15.0, cpu, 2.0**30) for at in ends)


def test_nodes_and_pods_are_read_as_they_were_written():
    text = encode_samples(SOURCE, {"n": track(15.0)}, [(("apps", "web"), track(15.0, cpu=7.0))])
    found = decode_samples(SOURCE, text)
    assert found is not None
    assert list(found.nodes["n"]) == list(track(15.0))
    assert list(found.pods["apps", "web"]) == list(track(15.0, cpu=7.0))


def test_amounts_are_kept_in_thousandths_of_a_millicore_and_whole_bytes():
    exact = Track([Sample(15.0, 15.0, 1.00049, 7.4)])
    found = decode_samples(SOURCE, encode_samples(SOURCE, {"n": exact}, []))
    assert found is not None
    assert list(found.nodes["n"]) == [Sample(15.0, 15.0, 1.0, 7.0)]


def test_shares_are_not_taken_for_amounts():
    text = encode_samples(MetricsType.PROMETHEUS_ADAPTOR, {"n": track(15.0)}, [])
    assert decode_samples(MetricsType.PROMETHEUS_ADAPTOR, text) is not None
    assert decode_samples(SOURCE, text) is None


def test_samples_become_steps_of_a_minute_and_a_gap_stays():
    samples = track(15.0, 30.0, 45.0, 60.0, 75.0, 200.0, 215.0)
    assert [(each.at, each.seconds) for each in in_steps(samples)] == [
        (60.0, 60.0),
        (75.0, 15.0),
        (215.0, 30.0),
    ]


def test_what_does_not_fit_is_left_out_from_the_end():
    nodes = {f"node-{i}": track(*range(1000 + i, 1600 + i, 15), cpu=i / 7) for i in range(50)}
    pods = [
        (("apps", f"pod-{i}"), track(*range(1000 + i, 2000 + i, 61), cpu=i**1.5))
        for i in range(4000)
    ]
    text = encode_samples(SOURCE, nodes, pods)
    assert LONGEST_TEXT_BYTES / 2 < len(text) <= LONGEST_TEXT_BYTES
    found = decode_samples(SOURCE, text)
    assert found is not None
    assert found.nodes.keys() == nodes.keys()
    assert list(found.pods) == [key for key, _ in pods[: len(found.pods)]]


@pytest.mark.parametrize(
    "text",
    [
        "not base64!",
        base64.b64encode(b"not zlib").decode(),
        base64.b64encode(zlib.compress(b'{"version":2,"tracks":[]}')).decode(),
        base64.b64encode(zlib.compress(b'{"version":1,"tracks":[{"name":1}]}')).decode(),
        base64.b64encode(zlib.compress(b" " * 2**24)).decode(),
    ],
)
def test_a_text_that_is_not_understood_is_no_samples(text):
    assert decode_samples(SOURCE, text) is None
