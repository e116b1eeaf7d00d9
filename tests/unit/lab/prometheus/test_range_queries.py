from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from desched.adapters.prometheus.client import PrometheusClient
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.adapters.prometheus.session import OF_A_HISTORY
from desched.errors import AnswerTooLarge, ObservationError
from desched.lab.prometheus import range_queries
from desched.lab.prometheus.block import Grid
from desched.lab.prometheus.cache import BlockCache
from desched.lab.prometheus.range_queries import RangeQueries, chunk_steps
from tests.unit.adapters.prometheus.fake_server import Asked, FakePrometheus, Reply, refusal
from tests.unit.lab.prometheus.recording import Recording, between

NOW = datetime(2026, 5, 1, tzinfo=UTC)
STEP = 300
END = int(NOW.timestamp()) - 3600
GRID = Grid(END - 99 * STEP, END, STEP)


@pytest.fixture
def recording(fake: FakePrometheus) -> Recording:
    found = Recording(fake)
    for number in range(4):
        found.add("load", number, pod=f"p{number}")
    return found


class Asking:
    """Range queries of one run, with the pauses that it made."""

    def __init__(self, fake: FakePrometheus, directory: Path | None = None) -> None:
        self.pauses: list[float] = []
        self.progress: list[tuple[int, int]] = []
        connection = PrometheusConnection(url=fake.url)
        self.queries = RangeQueries(
            PrometheusClient(connection, self._pause, OF_A_HISTORY),
            NOW,
            lambda done, of: self.progress.append((done, of)),
        )
        if directory:
            self.queries.cache = BlockCache(directory, connection, "cluster", NOW)

    def _pause(self, seconds: float) -> bool:
        self.pauses += [seconds] if seconds else []
        return False

    def read(self, grid: Grid = GRID) -> list[tuple[str, float]]:
        """For each sample the name of the pod and the time."""
        found: list[tuple[str, float]] = []
        for block in self.queries.blocks(self.queries.plan("load", grid)):
            for labels, first, values in block.rows():
                begin = block.grid.begin + first * STEP
                found += [(labels["pod"], begin + i * STEP) for i in range(len(values))]
        return found


def whole(grid: Grid = GRID) -> list[tuple[str, float]]:
    times = range(grid.begin, grid.end + 1, STEP)
    return sorted((f"p{number}", float(at)) for number in range(4) for at in times)


def test_an_answer_has_a_bounded_number_of_samples(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_queries, "MOST_SAMPLES", 100)
    assert sorted(Asking(recording.fake).read()) == whole()
    assert max(len(asked.times) for asked in recording.asked) * 4 <= 100
    assert len(recording.asked) in {7, 8}  # in chunks of 16


def test_a_chunk_is_no_longer_than_a_day() -> None:
    assert chunk_steps(1, 300) == 256
    assert chunk_steps(1, 60) == 1024
    assert chunk_steps(30_000, 300) == 32
    assert chunk_steps(10**9, 300) == 1


def test_progress_counts_the_chunks_of_all_planned_reads(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_queries, "MOST_SAMPLES", 200)
    asking = Asking(recording.fake)
    reads = [asking.queries.plan("load", GRID), asking.queries.plan("load", GRID)]
    of = sum(len(read.chunks) for read in reads)
    for read in reads:
        list(asking.queries.blocks(read))
    assert asking.progress == [(i, of) for i in range(1, of + 1)]


def test_without_any_series_nothing_is_asked(recording: Recording) -> None:
    asking = Asking(recording.fake)
    assert asking.queries.plan("nothing", GRID).chunks == ()
    assert recording.asked == []


def test_series_that_only_exist_for_a_part_of_the_time_are_found(recording: Recording) -> None:
    recording.add("late", between(END - 20 * STEP, END), pod="p")
    asking = Asking(recording.fake)
    assert asking.queries.plan("late", GRID).chunks != ()


def test_a_second_read_asks_the_server_nothing(recording: Recording, tmp_path: Path) -> None:
    first = Asking(recording.fake, tmp_path).read()
    before = len(recording.fake.asked)
    assert Asking(recording.fake, tmp_path).read() == first
    assert len(recording.fake.asked) == before


def test_an_interrupted_read_goes_on_where_it_ended(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_queries, "MOST_SAMPLES", 100)
    numbers, answer = count(), recording.answer

    def dying(asked: Asked) -> Reply:
        return refusal(400) if next(numbers) > 4 else answer(asked)

    recording.fake.answer = dying
    with pytest.raises(ObservationError):
        Asking(recording.fake, tmp_path).read()
    done = len(recording.asked) - 1
    recording.fake.answer = answer
    assert sorted(Asking(recording.fake, tmp_path).read()) == whole()
    assert len(recording.asked) - 1 - done in {7 - done, 8 - done}


def test_a_later_time_reads_only_what_is_new(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_queries, "MOST_SAMPLES", 100)
    Asking(recording.fake, tmp_path).read()
    before = len(recording.asked)
    shift = 4 * STEP
    later = GRID._replace(begin=GRID.begin + shift, end=GRID.end + shift)
    assert sorted(Asking(recording.fake, tmp_path).read(later)) == whole(later)
    assert len(recording.asked) - before == 2  # the first and the last chunk have other borders


def test_the_newest_samples_are_not_kept(recording: Recording, tmp_path: Path) -> None:
    now = int(NOW.timestamp())
    newest = Grid(now - 9 * STEP, now, STEP)
    Asking(recording.fake, tmp_path).read(newest)
    Asking(recording.fake, tmp_path).read(newest)
    assert len(recording.asked) == 2


def test_an_answer_with_a_warning_is_used_and_not_kept(
    recording: Recording, tmp_path: Path
) -> None:
    answer = recording.answer

    def warned(asked: Asked) -> Reply:
        reply = answer(asked)
        return reply._replace(body=reply.body[:-1] + b', "warnings": ["a store is away"]}')

    recording.fake.answer = warned
    asking = Asking(recording.fake, tmp_path)
    assert sorted(asking.read()) == whole()
    assert list(asking.queries.warnings) == ["a store is away"]
    Asking(recording.fake, tmp_path).read()
    assert len(recording.asked) == 2


@pytest.mark.parametrize("status", [413, 422])
def test_a_query_that_is_too_large_is_halved(recording: Recording, status: int) -> None:
    answer = recording.answer
    too_many = refusal(status, error="query processing would load too many samples into memory")
    recording.fake.answer = lambda asked: too_many if len(asked.times) > 20 else answer(asked)
    asking = Asking(recording.fake)
    assert sorted(asking.read()) == whole()
    assert asking.pauses == []


def test_a_single_time_that_is_too_large_is_an_error(recording: Recording) -> None:
    answer = recording.answer
    too_many = refusal(422, error="too many samples")
    recording.fake.answer = lambda asked: (
        answer(asked) if asked.query.startswith("count") else too_many
    )
    with pytest.raises(AnswerTooLarge, match="too many samples"):
        Asking(recording.fake).read()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_ever_later(recording: Recording, status: int) -> None:
    answer, numbers = recording.answer, count()
    busy = refusal(status, error="too many outstanding requests")
    recording.fake.answer = lambda asked: busy if next(numbers) < 4 else answer(asked)
    asking = Asking(recording.fake)
    assert sorted(asking.read()) == whole()
    assert asking.pauses == [1, 2, 5, 10]


def test_a_busy_server_may_ask_for_a_longer_pause(recording: Recording) -> None:
    answer, numbers = recording.answer, count()
    busy = refusal(429)._replace(headers={"Retry-After": "17"})
    endless = refusal(429)._replace(headers={"Retry-After": "7200"})
    replies = [busy, endless]
    recording.fake.answer = lambda asked: (
        replies[i] if (i := next(numbers)) < len(replies) else answer(asked)
    )
    asking = Asking(recording.fake)
    asking.read()
    assert asking.pauses == [17, 60]


def test_clusters_are_told_apart_by_their_labels(recording: Recording) -> None:
    recording.add("load", pod="other", cluster="b")
    asking = Asking(recording.fake)
    asking.read()
    assert asking.queries.cluster_values == {"cluster": {"", "b"}}
