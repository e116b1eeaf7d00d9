"""The samples as text, for the next process: in steps of a minute, of bounded size.

A text that is not understood is no samples: then windows fill again, as after a first start.
"""

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec

from desched.adapters.metrics_apis.node_loads import longest_gap_seconds
from desched.adapters.metrics_apis.samples import Sample, Track
from desched.policy.policy import MetricsType
from desched.policy.windows_of_samples import KEPT_WINDOW_SECONDS

VERSION = 1
STEP_SECONDS = 60.0
LONGEST_GAP_SECONDS = longest_gap_seconds(KEPT_WINDOW_SECONDS[0])
"""Only samples without a gap in any window become one."""

LONGEST_TEXT_BYTES = 192 * 1024
"""The ConfigMap has a mebibyte; the state and one that was set aside take three quarters of it."""

_LONGEST_JSON_BYTES = 8 * 2**20

PodKey = tuple[str, str]


class KeptSamples(NamedTuple):
    """The tracks of nodes by name, and of pods by namespace and name, from one source."""

    nodes: Mapping[str, Track]
    pods: Mapping[PodKey, Track]


class _Kept(msgspec.Struct):
    """A pod has a namespace, a node has none; samples are rows of a Sample's values."""

    name: str
    samples: list[tuple[float, float, float, float]]
    namespace: str = ""


class _Document(msgspec.Struct):
    """The samples of one source, because those of another may be in another unit."""

    version: int
    tracks: list[_Kept]
    source: str = MetricsType.METRICS_SERVER


_DOCUMENT = msgspec.json.Decoder(_Document)


def encode_samples(
    source: MetricsType, nodes: Mapping[str, Track], pods: Iterable[tuple[PodKey, Track]]
) -> str:
    """The samples of nodes, and then of as many pods as fit, in this order."""
    of_nodes = (_Kept(name, _rows(track)) for name, track in nodes.items())
    of_pods = (_Kept(name, _rows(track), namespace) for (namespace, name), track in pods)
    kept = list(chain(of_nodes, of_pods))
    text = _text(source, kept)
    while len(text) > LONGEST_TEXT_BYTES:
        share = LONGEST_TEXT_BYTES / len(text)
        kept = kept[: min(len(kept) - 1, int(len(kept) * share))]
        text = _text(source, kept)
    return text


def decode_samples(source: MetricsType, text: str) -> KeptSamples | None:
    """The samples from the text, None if it is not understood, or has those of another source."""
    try:
        packed = base64.b64decode(text, validate=True)
        unpacking = zlib.decompressobj()
        document_json = unpacking.decompress(packed, _LONGEST_JSON_BYTES)
        if not unpacking.eof:
            return None
        document = _DOCUMENT.decode(document_json)
    except (ValueError, zlib.error):
        return None
    if (document.version, document.source) != (VERSION, source):
        return None
    tracks = [(kept, Track(Sample(*row) for row in kept.samples)) for kept in document.tracks]
    return KeptSamples(
        {kept.name: track for kept, track in tracks if not kept.namespace},
        {(kept.namespace, kept.name): track for kept, track in tracks if kept.namespace},
    )


def _text(source: MetricsType, kept: list[_Kept]) -> str:
    document = msgspec.json.encode(_Document(VERSION, kept, source))
    return base64.b64encode(zlib.compress(document)).decode()


def _rows(track: Track) -> list[tuple[float, float, float, float]]:
    return [
        (in_step.at, in_step.seconds, round(in_step.cpu, 3), round(in_step.memory))
        for in_step in in_steps(track)
    ]


def in_steps(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Fewer samples that say the same: means over up to a minute each."""
    step: Sample | None = None
    for sample in samples:
        gap = sample.at - step.at if step else 0.0
        if step is None:
            step = sample
        elif gap <= LONGEST_GAP_SECONDS and step.seconds + gap <= STEP_SECONDS:
            step = _joined(step, sample, gap)
        else:
            yield step
            # What it stands for, unless there is a gap, in which it measured only its own seconds.
            seconds = gap if gap <= LONGEST_GAP_SECONDS else sample.seconds
            step = sample._replace(seconds=seconds)
    if step is not None:
        yield step


def _joined(step: Sample, sample: Sample, gap_seconds: float) -> Sample:
    seconds = step.seconds + gap_seconds

    def mean(one: float, other: float) -> float:
        return (one * step.seconds + other * gap_seconds) / seconds

    return Sample(
        sample.at,
        seconds,
        mean(step.cpu, sample.cpu),
        mean(step.memory, sample.memory),
    )
