import pytest
import structlog

from desched.adapters.kubernetes.sample_store import KubernetesSampleStore
from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.bootstrap.load_samples import LoadSamples
from desched.errors import ObservationError, ObservationSource

ERROR = ObservationError(ObservationSource.CLUSTER, "The API server does not answer.")


@pytest.fixture
def store(mocker):
    return mocker.create_autospec(KubernetesSampleStore, instance=True)


@pytest.fixture
def reader(mocker):
    return mocker.create_autospec(SampledLoadReader, instance=True)


def test_a_reader_continues_with_what_was_kept_and_leaves_it_to_the_next(store, reader):
    samples = LoadSamples(store, lambda: True)
    samples.recall(reader)
    reader.recall.assert_called_once_with(store.read.return_value)
    samples.keep()
    store.write.assert_called_once_with(reader.kept.return_value)


@pytest.mark.parametrize("may_write", [None, lambda: False])
def test_a_dry_run_and_a_replica_that_does_not_lead_write_nothing(store, reader, may_write):
    samples = LoadSamples(store, may_write)
    samples.recall(reader)
    samples.keep()
    assert not store.write.called


def test_without_metrics_server_nothing_is_written(store):
    LoadSamples(store, lambda: True).keep()
    assert not store.write.called


def test_a_failure_is_logged_and_windows_fill_again(store, reader):
    store.read.side_effect = store.write.side_effect = ERROR
    samples = LoadSamples(store, lambda: True)
    with structlog.testing.capture_logs() as logs:
        samples.recall(reader)
        samples.keep()
    assert [entry["event"] for entry in logs] == ["samples.not_read", "samples.not_kept"]
