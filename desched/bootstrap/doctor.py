"""The command `desched doctor`: ask everything, judge it, print it, and write a policy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from msgspec.structs import replace
from rich.console import Console

from desched.adapters.kubernetes.client.connection import connect
from desched.bootstrap.doctor_questions import PROPOSED, DoctorQuestions, Tell, first_line
from desched.bootstrap.policy_source import named_policy
from desched.bootstrap.runs import schedule_of
from desched.doctor.checks import Diagnosis
from desched.doctor.diagnosis import diagnose
from desched.doctor.examination import PolicyFacts
from desched.doctor.proposed_policy import STARTING_POLICY
from desched.doctor.table import DoctorReport, print_diagnosis, render_diagnosis
from desched.errors import ConfigurationError
from desched.model.report import Mode
from desched.policy.loading import parse_policy
from desched.policy.policy import MetricsType
from desched.service.process.clock import SystemClock
from desched.service.process.logs import configure_logs
from desched.settings import Settings


class Output(NamedTuple):
    """Where the proposed policy goes; without `force` no file is replaced."""

    policy_file: Path | None = None
    force: bool = False


def run_doctor(settings: Settings, output: Output, stdout: TextIO, stderr: TextIO) -> Diagnosis:
    """Check everything, print the checks, and write the policy if that is asked for.

    Raises:
        ConfigurationError: there is no account, or the policy cannot be written.
    """
    configure_logs(settings.log_format, "error", stderr)
    schedule_of(settings)
    refuse_to_replace(output)
    clock = SystemClock()
    kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
    written_to = str(output.policy_file or "")
    facts = replace(policy_facts(settings, clock), written_to=written_to)
    with _progress(stderr) as tell:
        questions = DoctorQuestions(settings, kubernetes, clock, tell)
        examination, proposal = questions.examine(facts), None
        if not facts.source or output.policy_file is not None:
            fitting, proposal = questions.propose(examination)
            if not facts.source:
                written = replace(fitting.policy, written_to=written_to if proposal else "")
                examination = replace(fitting, policy=written)
    diagnosis = diagnose(examination)
    mode = Mode.EVICT if examination.run.evicts else Mode.DRY_RUN
    report = DoctorReport(
        examination.at, examination.run.target, facts.source, mode.value, diagnosis
    )
    if settings.output in {None, "table"} and stdout.isatty():
        print_diagnosis(report, Console(file=stdout))
    else:
        stdout.write(render_diagnosis(report, settings.output or "table"))
    stdout.flush()
    write_policy(proposal, output, stderr)
    return diagnosis


@contextmanager
def _progress(stderr: TextIO) -> Iterator[Tell]:
    """Show on a terminal what is being asked."""
    if not stderr.isatty():
        yield lambda _: None
        return
    with Console(file=stderr).status("") as status:
        yield lambda text: status.update(f"{text} …")


def policy_facts(settings: Settings, clock: SystemClock) -> PolicyFacts:
    """The policy that the settings name; one to start from if there is none or it is invalid."""
    start = parse_policy(STARTING_POLICY, PROPOSED).policy
    path = settings.policy
    if path is None:
        return PolicyFacts(start)
    try:
        loaded = parse_policy(*named_policy(settings, clock.wait))
    except ConfigurationError as error:
        return PolicyFacts(start, str(path), problem=first_line(error))
    return PolicyFacts(loaded.policy, str(path), loaded.warnings)


def refuse_to_replace(output: Output) -> None:
    """Refuse before anything is asked.

    Raises:
        ConfigurationError: the file exists and may not be replaced.
    """
    path = output.policy_file
    if path is not None and path.exists() and not output.force:
        raise ConfigurationError(f"{path} exists; pass --force to replace it.")


def write_policy(text: str | None, output: Output, stderr: TextIO) -> None:
    """Write the proposed policy, if that is asked for.

    Raises:
        ConfigurationError: there is nothing to write, or the file cannot be written.
    """
    path = output.policy_file
    if path is None:
        return
    if text is None:
        raise ConfigurationError(
            f"{path} is not written, because no Prometheus was found and metrics-server does not "
            "answer; name a Prometheus with --prometheus-url (DESCHED_PROMETHEUS_URL)."
        )
    refuse_to_replace(output)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}.") from error
    wait = " --wait 3m" * _type_in(text).is_sampled
    stderr.write(f"desched: Wrote {path}. Try it with `desched plan --policy {path}{wait}`.\n")


def _type_in(policy: str) -> MetricsType:
    return parse_policy(policy, PROPOSED).policy.metrics.type
