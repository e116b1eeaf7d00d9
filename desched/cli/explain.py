"""`desched explain`: why a node, a pod or a workload is as it is."""

import sys
from pathlib import Path

import click

from desched.cli.command import Command, Invocation, Usage, refuse_live_settings
from desched.cli.exit_codes import CAUGHT_SIGNAL, ExitCode
from desched.cli.setting_flags import CONNECTION, PROMETHEUS, own_flag
from desched.errors import ConfigurationError


def run(invocation: Invocation) -> int:
    """Explain the subject that the words name."""
    from desched.bootstrap.explain import explain_file, explain_from, explain_live
    from desched.bootstrap.snapshot import read
    from desched.views.explained.subject import parse_subject

    flags, settings = invocation.flags, invocation.settings()
    subject = parse_subject(flags["kind"], flags.get("name", ""))
    if "service" in flags:
        if "snapshot" in flags:
            raise ConfigurationError("--service and --snapshot contradict each other; keep one.")
        if "policy" in invocation.texts:
            raise ConfigurationError("--policy has no effect with --service; omit it.")
        through_api_server = "://" not in flags["service"]
        refuse_live_settings(invocation, "--service", CONNECTION if through_api_server else ())
        explain_from(settings, subject, flags["service"], sys.stdout, sys.stderr)
        return ExitCode.DONE
    if "snapshot" in flags:
        refuse_live_settings(invocation, "--snapshot")
        policy = settings.policy if "policy" in invocation.texts else None
        file = read(Path(flags["snapshot"]), policy)
        explain_file(settings, subject, file, sys.stdout)
        return ExitCode.DONE
    ended_by = explain_live(settings, subject, sys.stdout, sys.stderr)
    if ended_by is None:
        return ExitCode.DONE
    sys.stderr.write(f"desched: Ended by {ended_by.name}.\n")
    return CAUGHT_SIGNAL + ended_by


COMMAND = Command(
    "explain",
    run,
    Usage(
        details="It plans as `desched plan` does, changes nothing, and says of a node what its "
        "load is made of, of a pod what each rule finds and where it could go, of a workload how "
        "fast it may move, and what would have to change.",
        examples={
            "desched explain node worker-7 --policy policy.yaml": "why it stays overloaded",
            "desched explain pod shop/web-1 --snapshot now.snapshot": "why it stays, in a file",
        },
        settings=("policy", "output", *CONNECTION, "api_server_timeout", *PROMETHEUS),
        parameters=(
            click.Argument(["kind"], metavar="node|pod|workload"),
            click.Argument(["name"], required=False, metavar="[NAMESPACE/]NAME"),
            own_flag(
                "--service",
                "URL|NAME",
                "Explain what a service decided in its last cycle: the one at this URL, such as "
                "http://localhost:10258, or that of this Kubernetes Service, through the API "
                "server.",
            ),
            own_flag(
                "--snapshot",
                "FILE",
                "Explain the cluster in this file, by its own policy unless --policy is given.",
            ),
        ),
        refused={"--from": "did you mean --service, or --snapshot?"},
    ),
)
