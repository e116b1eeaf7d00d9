"""`desched plan`: one cycle that changes nothing."""

from desched.cli.command import Command, Invocation, Usage
from desched.cli.runs import run_cycles
from desched.cli.setting_flags import CONNECTION, SETTING_FLAGS


def run(invocation: Invocation) -> int:
    """Run one cycle as a dry run, whatever the environment says."""
    return run_cycles(invocation.settings(dry_run=True, evict=False, once=True))


_PROMETHEUS = tuple(name for name in SETTING_FLAGS if name.startswith("prometheus_"))

COMMAND = Command(
    "plan",
    run,
    Usage(
        details="It reads the cluster and Prometheus, and prints each eviction that a cycle would "
        "begin now and the reason why every other pod stays.",
        examples={
            "desched plan --policy policy.yaml": "in the current context",
            "desched plan --policy policy.yaml -o json | jq .plan.evictions": "for programs",
        },
        settings=("policy", "output", *CONNECTION, "api_server_timeout", *_PROMETHEUS),
        refused={
            "--evict": "`desched plan` changes nothing; omit the flag.",
            "--dry-run": "`desched plan` is always a dry run; omit the flag.",
        },
    ),
)
