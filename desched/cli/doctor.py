"""`desched doctor`: is it safe to start desched here?"""

import sys
from pathlib import Path

from desched.cli.command import Command, Invocation, Usage
from desched.cli.exit_codes import ExitCode
from desched.cli.setting_flags import CONNECTION, SETTING_FLAGS, own_flag
from desched.errors import ConfigurationError


def run(invocation: Invocation) -> int:
    """Check everything and return whether it is safe to start."""
    from desched.bootstrap.doctor import Output, run_doctor

    path, force = invocation.flags.get("write_policy"), "force" in invocation.flags
    if force and path is None:
        raise ConfigurationError("--force has no effect without --write-policy; omit it.")
    output = Output(Path(path) if path else None, force)
    diagnosis = run_doctor(invocation.settings(), output, sys.stdout, sys.stderr)
    if diagnosis.is_invalid:
        return ExitCode.CONFIGURATION
    return ExitCode.DONE if diagnosis.is_safe else ExitCode.OBSERVATION


_PROMETHEUS = tuple(name for name in SETTING_FLAGS if name.startswith("prometheus_"))
_CLUSTER = ("api_server_timeout", "watch", "leader_elect", "pod_namespace", "pod_name")

COMMAND = Command(
    "doctor",
    run,
    Usage(
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
            *_PROMETHEUS,
        ),
        parameters=(
            own_flag("--write-policy", "FILE", "Write a policy that fits this cluster."),
            own_flag("--force", "", "Replace the file of --write-policy if it exists."),
        ),
    ),
)
