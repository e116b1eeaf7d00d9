"""The story of the guide on real nodes, as a person sees it: `make reality`."""

import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.controlplane.binaries import NODES, BinariesUnavailableError, find_or_build
from tests.controlplane.cluster import BINARIES
from tests.nodes.lab import NAMES, Lab
from tests.nodes.machine import missing
from tests.nodes.story import HOT, WINDOW_SECONDS, Story

_BEGIN = time.monotonic()


def say(line: str) -> None:
    print(f"\n# {time.monotonic() - _BEGIN:.0f} s: {line}", flush=True)


def tell(story: Story) -> None:
    def shows(command: str, *flags: str) -> None:
        print(f"$ desched {shlex.join([command, *flags])}")
        done = story.types(command, *flags)
        print(done.stdout + done.stderr, flush=True)

    say(f"three pods will burn on {HOT}, beside a stress pod that is pinned there")
    story.begin()
    say(f"they burn; now {WINDOW_SECONDS} s of measurements")
    say_truth(story.measure())
    shows("doctor", "--evict")
    shows("plan")
    say("a service evicts")
    with story.service() as service:
        service.wait_until("it is relieved", lambda: story.is_relieved(service))
    for name in story.evictions():
        say(f"{name} was evicted")
    for name, node in story.places().items():
        say(f"{name} is Ready on {node}")
    say(f"now {WINDOW_SECONDS} s of measurements")
    say_truth(story.measure())
    shows("plan")


def say_truth(busy: dict[str, float]) -> None:
    shares = ", ".join(f"{name} {busy[name]:.1%}" for name in NAMES)
    say(f"by their cgroups, nodes use {shares} of their CPU")


def main() -> int:
    """Ends everything that it has started, also after Ctrl-C and SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if reason := missing():
        print(f"Real nodes are not possible here: {reason}.", file=sys.stderr)
        return 1

    def report(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        binaries = find_or_build(BINARIES, report) | find_or_build(report=report, pinned=NODES)
        with tempfile.TemporaryDirectory() as directory, Lab(binaries) as lab:
            say(f"{len(lab.nodes)} kubelets are Ready")
            tell(Story(lab, Path(directory), "reality"))
    except BinariesUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
