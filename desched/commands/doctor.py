"""`desched doctor`: is it safe to start desched here?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from desched.cli.command import Command, Invocation
from desched.cli.exit_codes import ExitCode
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION, PROMETHEUS, own_flag
from desched.errors import ConfigurationError, ObservationError

if loaded_to_run(__name__):
    from msgspec.structs import replace
    from rich.console import Console

    from desched.adapters.kubernetes.client.connection import connect
    from desched.bootstrap.policy_source import DEPLOYED, deployed_policy, named_policy
    from desched.bootstrap.runs import schedule_of
    from desched.doctor.checks import Diagnosis
    from desched.doctor.diagnosis import diagnose
    from desched.doctor.examination import PolicyFacts
    from desched.doctor.price import ProposedPrice
    from desched.doctor.proposed_policy import STARTING_POLICY
    from desched.doctor.questions import PROPOSED, DoctorQuestions, Tell, first_line
    from desched.doctor.table import DoctorReport, diagnosis_blocks
    from desched.model.report import Mode
    from desched.policy_file.loading import PolicyText, parse_policy
    from desched.service.process.clock import SystemClock
    from desched.service.process.logs import configure_logs
    from desched.settings import Settings
    from desched.views.rendering import write_out


class Output(NamedTuple):
    """Where the proposed policy goes; without `force` no file is replaced."""

    policy_file: Path | None = None
    force: bool = False


def run(invocation: Invocation) -> int:
    """Check everything and return whether it is safe to start."""
    path, force = invocation.flags.get("write_policy"), "force" in invocation.flags
    if force and path is None:
        raise ConfigurationError("--force has no effect without --write-policy; omit it.")
    diagnosis = diagnosed(invocation.settings(), Output(Path(path) if path else None, force))
    if diagnosis.is_invalid:
        return ExitCode.CONFIGURATION
    return ExitCode.DONE if diagnosis.is_safe else ExitCode.OBSERVATION


def diagnosed(settings: Settings, output: Output) -> Diagnosis:
    """Check everything, print the checks, and write the policy if that is asked for.

    Raises:
        ConfigurationError: there is no account, or the policy cannot be written.
    """
    configure_logs(settings.log_format, "error", sys.stderr)
    schedule_of(settings)
    _refuse_to_replace(output)
    clock = SystemClock()
    kubernetes = connect(settings.kubeconfig, settings.context, clock.wait)
    written_to = str(output.policy_file or "")
    facts = replace(_policy_facts(settings, clock, output), written_to=written_to)
    with _progress() as tell:
        questions = DoctorQuestions(settings, kubernetes, clock, tell)
        examination, proposal = questions.examine(facts), None
        price: ProposedPrice | None = None
        if not facts.source or output.policy_file is not None:
            fitting, proposal = questions.propose(examination)
            has_own_price = facts.source and not facts.problem
            if proposal is not None and output.policy_file is not None and not has_own_price:
                fitting, proposal, price = questions.with_price(fitting)
            if not facts.source:
                written = replace(fitting.policy, written_to=written_to)
                examination = replace(fitting, policy=written)
    diagnosis = diagnose(examination)
    mode = Mode.EVICT if examination.run.evicts else Mode.DRY_RUN
    report = DoctorReport(
        examination.at, examination.run.target, facts.source, mode.value, diagnosis
    )
    write_out(settings.output, report, diagnosis_blocks(report))
    _write_policy(proposal, output, price)
    return diagnosis


@contextmanager
def _progress() -> Iterator[Tell]:
    """Show on a terminal what is being asked."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(file=sys.stderr).status("") as status:
        yield lambda text: status.update(f"{text} …")


def _policy_facts(settings: Settings, clock: SystemClock, output: Output) -> PolicyFacts:
    """The policy that is in question; one to start from if there is none or it is invalid."""
    start = parse_policy(STARTING_POLICY, PROPOSED).policy
    path = settings.policy
    try:
        found = named_policy(settings, clock.wait) if path else _deployed(settings, clock, output)
        if found is None:
            return PolicyFacts(start)
        loaded = parse_policy(*found)
    except ConfigurationError as error:
        return PolicyFacts(start, str(path or DEPLOYED.name), problem=first_line(error))
    return PolicyFacts(loaded.policy, str(path or found.source), loaded.warnings)


def _deployed(settings: Settings, clock: SystemClock, output: Output) -> PolicyText | None:
    """The policy of the installation; None if there is none, or if this run writes another one."""
    if output.policy_file is not None:
        return None
    try:
        return deployed_policy(settings, clock.wait)
    except ObservationError:  # which rights and the API server show, with what to do
        return None


def _refuse_to_replace(output: Output) -> None:
    path = output.policy_file
    if path is not None and path.exists() and not output.force:
        raise ConfigurationError(f"{path} exists; pass --force to replace it.")


def _write_policy(text: str | None, output: Output, price: ProposedPrice | None) -> None:
    path = output.policy_file
    if path is None:
        return
    if text is None:
        raise ConfigurationError(
            f"{path} is not written, because no Prometheus was found and metrics-server does not "
            "answer; name a Prometheus with --prometheus-url (DESCHED_PROMETHEUS_URL)."
        )
    _refuse_to_replace(output)  # it may have come to exist meanwhile
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}.") from error
    wait = " --wait 3m" * parse_policy(text, PROPOSED).policy.metrics.type.is_sampled
    sys.stderr.write(f"desched: Wrote {path}. Try it with `desched plan --policy {path}{wait}`.\n")
    for sentence in price.why if price else ():
        sys.stderr.write(f"desched: evictionPrice: {sentence}\n")


_CLUSTER = ("api_server_timeout", "watch", "leader_elect", "pod_namespace", "pod_name")

COMMAND = Command(
    "doctor",
    details="It asks for rights, Prometheus, each query, windows, thresholds against today's "
    "load, budgets, other deschedulers and more, gives a fix for each problem, and changes "
    "nothing. Exit code 0: safe to start, 2: invalid configuration, 3: not safe. Pass the "
    "flags of the run whose start is in question.",
    examples={
        "desched doctor --policy policy.yaml": "check this cluster for a policy",
        "desched doctor --write-policy policy.yaml": "find Prometheus, and write a policy",
    },
    settings=(
        *("policy", "output", "dry_run", "evict", "once", "interval", "cron", "timezone"),
        *CONNECTION,
        *_CLUSTER,
        *PROMETHEUS,
    ),
    parameters=(
        own_flag("--write-policy FILE", "Write a policy that fits this cluster."),
        own_flag("--force", "Replace the file of --write-policy if it exists."),
    ),
)
