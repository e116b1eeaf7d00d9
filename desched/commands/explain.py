"""`desched explain`: why a node, a pod or a workload is as it is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Any

import click

from desched.cli.command import Command, Invocation, refuse_live_settings
from desched.cli.exit_codes import ExitCode, ended_by
from desched.cli.lazy_loading import loaded_to_run
from desched.cli.setting_flags import CONNECTION, PROMETHEUS, own_flag
from desched.errors import ConfigurationError

if loaded_to_run(__name__):
    from desched.adapters.kubernetes.client.connection import connect
    from desched.adapters.kubernetes.forwarded_port import ForwardedPort
    from desched.adapters.running_service import PAGES_PORT, RunningService, ServiceUrl
    from desched.bootstrap.look import LiveCluster, with_look
    from desched.bootstrap.state import state_namespace
    from desched.decision import decide
    from desched.observation import observe
    from desched.service.process.clock import SystemClock
    from desched.settings import Settings, service_name, service_url
    from desched.snapshot_file.load_check import with_policy
    from desched.snapshot_file.report import target_of
    from desched.views.explained.explain import explain
    from desched.views.explained.subject import Subject, parse_subject
    from desched.views.explained.values import Explanation
    from desched.views.explanation import explanation_blocks
    from desched.views.rendering import write_out
    from desched.wording.formatting import plain, span


def run(invocation: Invocation) -> int:
    """Explain the subject that the words name."""
    flags, settings = invocation.flags, invocation.settings()
    subject = subject_of(invocation, settings)
    if "service" in flags:
        if "snapshot" in flags:
            raise ConfigurationError("--service and --snapshot contradict each other; keep one.")
        if "policy" in invocation.texts:
            raise ConfigurationError("--policy has no effect with --service; omit it.")
        refuse_live_settings(invocation, "--service", CONNECTION if _is_live(flags) else ())
        explanation: Explanation | Signals = _of_service(settings, subject, flags["service"])
    elif "snapshot" in flags:
        refuse_live_settings(invocation, "--snapshot")
        given = settings.policy if "policy" in invocation.texts else None
        content, policy = with_policy(Path(flags["snapshot"]), given)
        decision = decide(content.snapshot, policy, content.state, may_steer=content.may_steer)
        explanation = explain(subject, decision, target_of(content))
    else:
        explanation = with_look(settings, partial(_of_cluster, subject))
    if isinstance(explanation, Signals):
        return ended_by(explanation)
    write_out(settings.output, explanation, explanation_blocks(explanation))
    return ExitCode.DONE


def _is_live(flags: Mapping[str, Any]) -> bool:
    """Whether the answer comes through an account of a cluster."""
    return "snapshot" not in flags and "://" not in flags.get("service", "")


def subject_of(invocation: Invocation, settings: Settings) -> Subject:
    """What the words name; without a namespace, as kubectl, in that of the context."""
    flags = invocation.flags
    given: str = flags.get("namespace", "")

    def namespace() -> str:
        if given or not _is_live(flags):
            return given
        return connect(settings.kubeconfig, settings.context, SystemClock().wait).namespace

    subject = parse_subject(flags["kind"], flags.get("name", ""), namespace=namespace)
    if given and subject.namespace not in {"", given}:
        raise ConfigurationError(f"{subject} is not in the namespace {given} of --namespace.")
    return subject


def _of_cluster(subject: Subject, look: LiveCluster) -> Explanation:
    policy = look.policy.policy
    decision = decide(observe(look.world, policy), policy, look.state)
    return explain(subject, decision, look.target)


def _of_service(settings: Settings, subject: Subject, where: str) -> Explanation:
    """By the last cycle of the service at a URL, or of a Kubernetes Service."""
    name, service = _running_service(settings, where)
    explanation, answered_at = service.explanation(subject)
    if answered_at is not None:
        age = span(answered_at - explanation.taken_at)
        sys.stderr.write(f"desched: By the last cycle of {plain(name)}, {age} ago.\n")
    return explanation


def _running_service(settings: Settings, where: str) -> tuple[str, RunningService]:
    """The service, and its name for people."""
    wait = SystemClock().wait
    service = service_name(where)
    if service is None:
        try:
            url = service_url(where)
        except ValueError as error:
            raise ConfigurationError(f"--service: {error}.") from None
        name = f"the service at {url.strip().rstrip('/')}"
        return name, RunningService(name, ServiceUrl(url, wait).get)
    kubernetes = connect(settings.kubeconfig, settings.context, wait)
    namespace = state_namespace(settings, kubernetes)
    name = f"Service {namespace}/{service}, {kubernetes.target}"
    return name, RunningService(name, ForwardedPort(kubernetes, namespace, service, PAGES_PORT).get)


COMMAND = Command(
    "explain",
    details="It plans as `desched plan` does, changes nothing, and says of a node what its "
    "load is made of, of a pod what each rule finds and where it could go, of a workload how "
    "fast it may move, and what would have to change.",
    examples={
        "desched explain node worker-7": "why it stays overloaded, by the policy of the cluster",
        "desched explain pod/web-1 -n shop --snapshot now.snapshot": "why it stays, in a file",
    },
    settings=("policy", "output", *CONNECTION, "api_server_timeout", *PROMETHEUS),
    parameters=(
        click.Argument(["kind"], metavar="node|pod|workload"),
        click.Argument(["name"], required=False, metavar="[NAMESPACE/]NAME"),
        own_flag(
            "--namespace, -n NAME",
            "The namespace of a pod or workload that is named without one; by default that of the "
            "context.",
        ),
        own_flag(
            "--service URL|NAME",
            "Explain what a service decided in its last cycle: the one at this URL, such as "
            "http://localhost:10280, or that of this Kubernetes Service, through the API "
            "server.",
        ),
        own_flag(
            "--snapshot FILE",
            "Explain the cluster in this file, by its own policy unless --policy is given.",
        ),
    ),
    refused={"--from": "did you mean --service, or --snapshot?"},
)
