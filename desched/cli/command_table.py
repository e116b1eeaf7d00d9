"""Which commands exist: one line for each, whose module loads when the command is used."""

from collections.abc import Mapping

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "See what desched would do": {
        "plan": "Show what one cycle would do, and change nothing.",
        "doctor": "Check whether it is safe to start desched here.",
        "explain": "Say why a node, pod or workload is as it is.",
        "snapshot": "Write all that a plan needs to a file.",
        "backtest": "Compare policies over a time that is past, from Prometheus.",
        "simulate": "Compare policies in a simulation, from a snapshot on.",
        "validate": "Show what is wrong with policy files, without a cluster.",
        "policy convert": "Write a policy from that of another descheduler.",
        "policy diff": "Show in what two policies differ, also on a snapshot.",
        "demo": "Show a cycle on a simulated cluster.",
    },
    "Operate desched": {
        "status": "Show the last cycle, pauses and evictions in flight.",
        "report": "Show what a service saw and did over days, dry runs too.",
        "history": "List the evictions of a service with what came of them.",
        "pause": "Stop evictions for a while, wherever desched runs.",
        "resume": "End pauses and cool-downs.",
        "steering clear": "Remove desched's soft taints from all nodes.",
    },
    "Other": {
        "help": "Show the help of a command, or all settings.",
        "completion": "Print the completion script of bash, zsh or fish.",
        "version": "Show the version.",
    },
}
"""By group and name. `COMMAND` in desched/commands/steering_clear.py declares `steering clear`."""

SUMMARIES: Mapping[str, str] = {
    name: summary for group in COMMANDS.values() for name, summary in group.items()
}
