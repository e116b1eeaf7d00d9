import pytest
import structlog

from desched.adapters.kubernetes.sample_store import KubernetesSampleStore
from desched.adapters.metrics_apis.reader import SampledLoadReader
from desched.adapters.running_service import RunningService
from desched.bootstrap.load_samples import LoadSamples
from desched.errors import ConfigurationError, ObservationError, ObservationSource

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


@pytest.fixture
def running(mocker):
    return mocker.create_autospec(RunningService, instance=True)


def test_a_look_continues_with_the_samples_of_the_running_service(store, reader, running):
    LoadSamples(store, running=running).recall(reader)
    reader.recall.assert_called_once_with(running.load_samples.return_value)
    assert not store.read.called


@pytest.mark.parametrize("trouble", [ERROR, ConfigurationError("There is no Service.")])
def test_without_a_running_service_it_continues_with_what_was_kept(store, reader, running, trouble):
    for running.load_samples.side_effect in (trouble, lambda: ""):
        reader.reset_mock()
        LoadSamples(store, running=running).recall(reader)
        reader.recall.assert_called_once_with(store.read.return_value)


def test_a_service_offers_its_samples_also_in_a_dry_run(store, reader):
    samples = LoadSamples(store)
    assert samples.offered() == ""
    samples.recall(reader)
    assert samples.offered() == reader.kept.return_value


def test_a_failure_is_logged_and_windows_fill_again(store, reader):
    store.read.side_effect = store.write.side_effect = ERROR
    samples = LoadSamples(store, lambda: True)
    with structlog.testing.capture_logs() as logs:
        samples.recall(reader)
        samples.keep()
    assert [entry["event"] for entry in logs] == ["samples.not_read", "samples.not_kept"]
