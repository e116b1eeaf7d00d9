"""Starts the control plane with five nodes and Prometheus to try things on by hand."""

import os
import signal
import sys

from tests.controlplane.binaries import BinariesUnavailableError, find_or_build
from tests.controlplane.cluster import BINARIES, ControlPlane


def main() -> int:
    """Runs until Ctrl-C or SIGTERM and leaves nothing behind."""
    try:
        binaries = find_or_build(BINARIES, lambda line: print(line, file=sys.stderr, flush=True))
    except BinariesUnavailableError as unavailable:
        print(unavailable, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ControlPlane(binaries) as control_plane, control_plane.prometheus() as prometheus:
            control_plane.add_node(*(f"te{number}" for number in range(1, 6)))
            print(f"export KUBECONFIG={control_plane.admin_kubeconfig}")
            print(f"export DESCHED_PROMETHEUS_URL={prometheus.url}")
            print(f"# kubectl: {binaries['kubectl']}")
            print(f"# Ctrl-C or `kill {os.getpid()}` ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
