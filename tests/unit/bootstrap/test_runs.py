import io
import json
import os
import signal
import threading
import urllib.request
from datetime import UTC, datetime
from queue import SimpleQueue

import pytest
import yaml

from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.server_health import RequestLog
from desched.adapters.kubernetes.events import EventWriter
from desched.adapters.kubernetes.logbook_store import KubernetesLogbookStore
from desched.adapters.kubernetes.taints import KubernetesSteerer
from desched.bootstrap.load_samples import LoadSamples
from desched.bootstrap.runs import Ending, intent_of, run, schedule_of, taints_last_seconds
from desched.errors import ConfigurationError, ObservationError, ObservationSource, StopActing
from desched.history.stored import StoredLogbook, decode_logbook
from desched.lab.scenarios import published_scenario
from desched.model.cluster import PodRef
from desched.model.report import Mode
from desched.ports import StandingTaints, SteeringAnswer
from desched.service.process.clock import SystemClock
from desched.settings import load_settings
from tests.simulated_state_store import SimulatedConfigMap, SimulatedStateStore
from tests.unit.service.inputs.test_policy_file import BAD, GOOD

OUTSIDE = 'context "kind" (https://127.0.0.1:6443)'


@pytest.mark.parametrize(
    ("flags", "in_cluster", "mode"),
    [
        ({}, True, Mode.EVICT),
        ({}, False, Mode.DRY_RUN),
        ({"once": "true"}, False, Mode.DRY_RUN),
        ({"once": "true"}, True, Mode.EVICT),
        ({"evict": "true"}, False, Mode.EVICT),
        ({"evict": "true"}, True, Mode.EVICT),
        ({"dry_run": "true"}, True, Mode.DRY_RUN),
        ({"dry_run": "true", "interval": "5m"}, True, Mode.DRY_RUN),
        ({"dry_run": "true"}, False, Mode.DRY_RUN),
    ],
)
def test_it_evicts_by_default_in_a_cluster_and_only_on_demand_outside(flags, in_cluster, mode):
    intent = intent_of(load_settings(flags), in_cluster=in_cluster, target=OUTSIDE)
    assert intent.mode is mode
    assert OUTSIDE in intent.notice


def test_a_dry_run_by_default_names_the_flag_that_would_evict():
    assert "--evict" in intent_of(load_settings({}), in_cluster=False, target=OUTSIDE).notice


@pytest.mark.parametrize(
    ("flags", "minutes"), [({}, 10), ({"interval": "1h"}, 120), ({"cron": "@hourly"}, 20)]
)
def test_soft_taints_last_two_cycles_or_as_long_as_a_replacement_may_take(flags, minutes):
    assert taints_last_seconds(load_settings(flags)) == minutes * 60


def test_the_schedule_is_every_five_minutes_by_default():
    assert schedule_of(load_settings({})).text == "every 5m"
    assert schedule_of(load_settings({"interval": "90s"})).text == "every 1m30s"
    by_cron = load_settings({"cron": "0 2 * * 0", "timezone": "Europe/Berlin"})
    assert schedule_of(by_cron).text == 'cron "0 2 * * 0" in Europe/Berlin'


# --- whole runs against a simulated cluster ---------------------------------------------------


@pytest.fixture
def kubernetes(mocker):
    connection = mocker.create_autospec(KubernetesConnection, instance=True)
    connection.in_cluster, connection.target, connection.namespace = False, OUTSIDE, "desched"
    connection.get.return_value = Answer(403, b"{}")
    connection.reads = RequestLog()
    mocker.patch("desched.bootstrap.runs.connect", return_value=connection)
    mocker.patch("desched.bootstrap.side_tasks.connect", return_value=connection)
    return connection


@pytest.fixture
def events(mocker):
    return mocker.patch(
        "desched.bootstrap.runs.EventWriter",
        return_value=mocker.create_autospec(EventWriter, instance=True),
    )


@pytest.fixture
def simulation(mocker, kubernetes, events):
    del kubernetes, events
    simulation = published_scenario()
    for name, part in (
        ("reader_of", simulation.cluster),
        ("WatchingReader", simulation.cluster),
        ("LoadSource", simulation.load),
        ("KubernetesEvictor", simulation.evictor),
        ("state_store", SimulatedStateStore(SimulatedConfigMap())),
        ("has_right", True),
    ):
        mocker.patch(f"desched.bootstrap.process.{name}", return_value=part)
    mocker.patch("desched.bootstrap.runs.contender", return_value=None)
    return simulation


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    return path


class Stream(io.StringIO):
    """A pipe; nobody watches it."""


def started(policy, messages=None, **flags):
    """Output and messages of a run with these flags; the log is among the messages."""
    stdout, stderr = Stream(), messages or Stream()
    run(load_settings({"policy": policy, "log_format": "json", **flags}), stdout, stderr)
    return stdout.getvalue(), stderr.getvalue()


def log_lines(messages):
    return [json.loads(line) for line in messages.splitlines() if line.startswith("{")]


def test_a_dry_run_prints_one_report_and_evicts_nothing(simulation, policy):
    before = {pod.uid for pod in simulation.cluster.read_cluster().pods}
    output, messages = started(policy, dry_run="true", output="json")
    report = json.loads(output)
    assert report["mode"] == "dry_run"
    assert report["result"] == "planned"
    assert report["target"] == OUTSIDE
    assert OUTSIDE in messages
    assert {pod.uid for pod in simulation.cluster.read_cluster().pods} == before


@pytest.mark.usefixtures("simulation")
def test_once_outside_a_cluster_evicts_only_on_demand(policy):
    output, _ = started(policy, once="true", output="json")
    assert json.loads(output)["mode"] == "dry_run"
    output, messages = started(policy, once="true", evict="true", output="json")
    assert json.loads(output)["result"] == "evicted"
    assert "Evicting pods in" in messages


@pytest.mark.usefixtures("simulation")
def test_each_eviction_of_a_run_is_in_the_audit_trail(policy, tmp_path):
    path = tmp_path / "audit.jsonl"
    output, _ = started(policy, once="true", evict="true", output="json", audit_log=str(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    outcomes = json.loads(output)["outcomes"]
    assert outcomes
    assert [(line["pod"], line["verdict"]) for line in lines] == [
        (outcome["pod"], outcome["verdict"]) for outcome in outcomes
    ]


@pytest.mark.parametrize("flags", [{"logbook": "true"}, {}])
def test_a_service_keeps_a_logbook_outside_a_cluster_only_on_demand(
    simulation, policy, mocker, flags
):
    store = mocker.create_autospec(KubernetesLogbookStore, instance=True)
    store.load.return_value = StoredLogbook()
    mocker.patch("desched.bootstrap.logbook.KubernetesLogbookStore", return_value=store)
    stop_after(simulation, mocker, looks=2)
    started(policy, **SERVICE, **flags)
    books = [decode_logbook(call.args[0]).book for call in store.save.call_args_list]
    assert bool(books) == bool(flags)
    assert all(book is not None and book.target == OUTSIDE for book in books)


@pytest.mark.usefixtures("simulation")
def test_a_single_run_prints_a_table_by_default(policy):
    output, _ = started(policy, dry_run="true")
    assert "te3" in output
    assert not output.startswith("{")


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize("flags", [{"once": "true"}, {}])
def test_evicting_where_the_lease_has_no_namespace_ends_at_once(kubernetes, policy, flags):
    kubernetes.get.return_value = Answer(200, b'{"kind": "NamespaceList", "items": []}')
    with pytest.raises(ConfigurationError, match="kubectl create namespace desched-system"):
        started(policy, evict="true", **flags)


@pytest.mark.usefixtures("simulation")
def test_a_policy_from_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(GOOD))
    writer.start()
    output, _ = started(pipe, dry_run="true", output="json")
    writer.join()
    assert json.loads(output)["policy"] == str(pipe)


def test_a_bad_policy_is_refused_before_any_request(kubernetes, policy):
    policy.write_text(BAD)
    with pytest.raises(ConfigurationError, match="targetTresholds"):
        started(policy, dry_run="true")
    kubernetes.get.assert_not_called()


def test_a_single_cycle_that_cannot_observe_raises(simulation, policy, mocker):
    mocker.patch.object(
        simulation.cluster,
        "read_cluster",
        side_effect=ObservationError(ObservationSource.CLUSTER, "The API server is away."),
    )
    with pytest.raises(ObservationError, match="The API server is away"):
        started(policy, once="true")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_report_of_a_single_cycle_is_in_its_ending(
    simulation, policy, mocker, number
):
    def interrupted(*_):
        os.kill(os.getpid(), number)
        raise ObservationError(ObservationSource.CLUSTER, "desched is stopping.")

    mocker.patch.object(simulation.cluster, "read_cluster", side_effect=interrupted)
    stdout, stderr = Stream(), Stream()
    ending = run(load_settings({"policy": policy, "dry_run": "true"}), stdout, stderr)
    assert ending == Ending(cut_short_by=number)
    assert stdout.getvalue() == ""
    assert log_lines(stderr.getvalue()) == []
    assert "a second signal stops at once" in stderr.getvalue()


@pytest.mark.usefixtures("simulation")
def test_a_single_cycle_that_can_judge_no_node_is_inconclusive(policy):
    policy.write_text(GOOD.replace("    profiles:", "    nodeSelector: no=such\n    profiles:"))
    settings = load_settings({"policy": policy, "dry_run": "true"})
    assert run(settings, Stream(), Stream()) == Ending(inconclusive=True)


def test_a_single_cycle_with_an_eviction_of_unknown_outcome_is_inconclusive(
    simulation, policy, mocker
):
    mocker.patch.object(
        simulation.evictor, "evict", side_effect=StopActing("The API server did not answer.")
    )
    settings = load_settings({"policy": policy, "once": "true", "evict": "true"})
    stdout = Stream()
    assert run(settings, stdout, Stream()) == Ending(inconclusive=True)
    assert "unknown: " in stdout.getvalue()


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({"cron": "* *"}, "--cron (DESCHED_CRON)"),
        ({"cron": "@hourly", "timezone": "Mars"}, "--timezone (DESCHED_TIMEZONE)"),
        (
            {"state_namespace": "Bad_NS"},
            '--state-namespace (DESCHED_STATE_NAMESPACE): "Bad_NS" is no',
        ),
        ({"listen_address": "99999"}, "--listen-address (DESCHED_LISTEN_ADDRESS)"),
    ],
)
def test_invalid_settings_are_refused_by_name_before_any_request(mocker, policy, flags, names):
    connect = mocker.patch("desched.bootstrap.runs.connect", autospec=True)
    with pytest.raises(ConfigurationError) as caught:
        started(policy, **flags)
    assert str(caught.value).startswith(names)
    connect.assert_not_called()


def test_a_quiet_service_outside_a_cluster_still_names_where_it_evicts(simulation, policy, mocker):
    stop_after(simulation, mocker, looks=1)
    _, messages = started(policy, evict="true", log_level="error", **SERVICE)
    assert messages == f"desched: Evicting pods in {OUTSIDE}.\n"


def test_on_a_terminal_the_table_replaces_the_line_of_the_log(simulation, policy, mocker):
    mocker.patch.object(Stream, "isatty", return_value=True)
    stop_after(simulation, mocker, looks=1)
    output, messages = started(policy, log_format="console", **SERVICE)
    assert "te3" in output
    assert "cycle.completed" not in messages
    assert messages.count(OUTSIDE) == 1


def stop_after(simulation, mocker, looks, meanwhile=lambda _: None):
    """Send SIGTERM when the cluster is looked at for the last time, and wait until it is heard."""
    read, count = simulation.cluster.read_cluster, iter(range(1, looks + 1))
    stop, heard = SystemClock.stop, SimpleQueue[None]()

    def stop_and_tell(clock):
        stop(clock)
        heard.put(None)

    def look(*_):
        number = next(count)
        meanwhile(number)
        if number == looks:
            # To the main thread, which sleeps: another one would let it sleep on to its next look.
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)
            heard.get(timeout=120)  # or else a busy machine would begin the next cycle
        return read()

    mocker.patch.object(SystemClock, "stop", stop_and_tell)
    mocker.patch.object(simulation.cluster, "read_cluster", side_effect=look)


SERVICE = {"interval": "1s", "listen_address": "127.0.0.1:0"}


def test_a_service_logs_each_cycle_and_ends_with_sigterm(simulation, policy, mocker):
    stop_after(simulation, mocker, looks=2)
    output, messages = started(policy, **SERVICE)
    assert output == ""
    lines = log_lines(messages)
    names = [line["event"] for line in lines]
    assert names[0] == "service.started"
    assert names[-1] == "service.stopped"
    assert names.count("cycle.completed") == 2
    assert lines[0]["schedule"] == "every 1s"
    assert lines[0]["mode"] == "dry_run"
    assert "--evict was not given" in lines[0]["notice"]
    assert len(lines) == len(messages.splitlines())


def test_a_service_keeps_its_samples_when_it_stops(simulation, policy, mocker):
    keep = mocker.patch.object(LoadSamples, "keep", autospec=True)
    stop_after(simulation, mocker, looks=1)
    started(policy, **SERVICE)
    keep.assert_called_once()


@pytest.fixture
def remover(mocker):
    remover = mocker.create_autospec(KubernetesSteerer, instance=True)
    remover.standing.return_value = StandingTaints({"te9": datetime(2026, 1, 1, tzinfo=UTC)}, None)
    remover.untaint.return_value = SteeringAnswer(done=True)
    mocker.patch("desched.bootstrap.side_tasks.KubernetesSteerer", return_value=remover)
    return remover


@pytest.fixture(
    params=[
        ({"evict": "true"}, False, True),
        ({"evict": "true"}, True, True),
        ({"dry_run": "true"}, True, True),
        ({"dry_run": "true"}, False, False),
        ({}, False, False),
    ],
    ids=lambda param: f"{param[0]} {'inside' if param[1] else 'outside'}",
)
def place(request, kubernetes):
    """The flags of a service, inside a cluster or not, and whether it may write."""
    flags, kubernetes.in_cluster, may_write = request.param
    return flags, may_write


def test_expired_taints_go_in_every_service_but_a_dry_run_outside(
    simulation, remover, policy, mocker, place
):
    flags, may_write = place
    stop_after(simulation, mocker, looks=1)
    started(policy, **SERVICE, **flags)
    assert [call.args[0] for call in remover.untaint.mock_calls] == ["te9"] * may_write


@pytest.mark.usefixtures("simulation")
def test_a_single_run_removes_no_taint_beside_its_cycle(remover, policy):
    started(policy, once="true", evict="true")
    remover.standing.assert_not_called()


def test_expired_taints_go_although_the_policy_lets_no_cycle_run(kubernetes, remover, policy):
    policy.write_text(BAD)
    with pytest.raises(ConfigurationError, match="targetTresholds"):
        started(policy, evict="true", **SERVICE)
    remover.untaint.assert_called_once()
    kubernetes.get.assert_not_called()


def test_without_an_account_the_invalid_policy_is_still_the_error(mocker, policy):
    connect = mocker.patch("desched.bootstrap.side_tasks.connect", autospec=True)
    connect.side_effect = ConfigurationError("no account")
    policy.write_text(BAD)
    with pytest.raises(ConfigurationError, match="targetTresholds"):
        started(policy, evict="true", **SERVICE)


def test_a_service_prints_reports_only_on_demand(simulation, policy, mocker):
    stop_after(simulation, mocker, looks=2)
    output, _ = started(policy, output="yaml", **SERVICE)
    assert [report["cycle"] for report in yaml.safe_load_all(output)] == [1, 2]


def test_a_service_shows_its_metrics_and_probes_while_it_runs(simulation, policy, mocker):
    messages, seen = Stream(), {}

    def ask(number):
        if number < 2:
            return
        port = log_lines(messages.getvalue())[0]["port"]
        for path in ("metrics", "healthz", "readyz"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=120) as answer:
                seen[path] = answer.read().decode()

    stop_after(simulation, mocker, looks=2, meanwhile=ask)
    started(policy, messages, **SERVICE)
    assert 'desched_cycles_total{mode="dry_run",result="held"} 1.0' in seen["metrics"]
    assert 'desched_hold{reason="just_started"} 1.0' in seen["metrics"]
    assert seen["healthz"] == seen["readyz"] == "ok\n"


def test_a_bad_edit_leaves_an_event_on_the_pod_once_and_the_service_goes_on(
    simulation, policy, events, mocker, monkeypatch
):
    monkeypatch.setenv("DESCHED_POD_NAME", "desched-0")
    monkeypatch.setenv("DESCHED_POD_NAMESPACE", "operations")
    stop_after(simulation, mocker, looks=3, meanwhile=lambda _: policy.write_text(BAD))
    _, messages = started(policy, **SERVICE)
    assert events.call_args.args[-1] == PodRef("operations", "desched-0")
    events.return_value.warn_on_self.assert_called_once()
    reason, note = events.return_value.warn_on_self.call_args.args
    assert reason == "PolicyRefused"
    assert "targetTresholds" in note
    names = [line["event"] for line in log_lines(messages)]
    assert names.count("policy.refused") == 1
    assert names.count("cycle.completed") == 3


def test_a_bad_edit_is_refused_long_before_the_next_cycle(simulation, policy, events, mocker):
    read, main = simulation.cluster.read_cluster, threading.get_ident()

    def edit_and_look(*_):
        policy.write_text(BAD)
        return read()

    mocker.patch("desched.service.cycles.loop.EDIT_SECONDS", 0.02)
    mocker.patch.object(simulation.cluster, "read_cluster", side_effect=edit_and_look)
    stop = events.return_value.warn_on_self
    stop.side_effect = lambda *_: signal.pthread_kill(main, signal.SIGTERM)
    _, messages = started(policy, **SERVICE | {"interval": "1h"})
    names = [line["event"] for line in log_lines(messages)]
    assert [each for each in names if each in {"cycle.completed", "policy.refused"}] == [
        "cycle.completed",
        "policy.refused",
    ]
    stop.assert_called_once()
