"""Runs of desched as processes of their own, forked from one that has imported it and nothing else.

A process that imports desched itself needs most of a second of CPU for that. What `prepare` needs
is imported before, too.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from threading import Lock

from kubernetes.config import incluster_config

from desched import cli
from desched.adapters.kubernetes.client import kubeconfig, server_health
from desched.planning import holds
from tests.controlplane.process import LIBC, PR_SET_PDEATHSIG
from tests.controlplane.waiting import PATIENCE_SECONDS

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", __name__, "tests.controlplane.mortal_runs"])


Prepare = Callable[[], None]


def as_it_is() -> None:
    """Prepare nothing."""


class Fork:
    """Desched that goes on until it ends or is stopped, as a `Child` of a server."""

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        variables: Mapping[str, str],
        prepare: Prepare = as_it_is,
    ) -> None:
        live = (tuple(arguments), log, log, partial(_be_in_place, log.parent, variables, prepare))
        self._process = _FORKS.Process(target=_live, args=live, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._lock = Lock()

    @property
    def returncode(self) -> int | None:
        """The exit code, None as long as it runs."""
        with self._lock:  # who reads it from the server of the forks must be alone
            return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        with self._lock:
            self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired("desched", timeout or 0.0)
        return code


def _be_in_place(directory: Path, variables: Mapping[str, str], prepare: Prepare) -> None:
    os.chdir(directory)
    os.environ.update(variables)
    prepare()


def mount_token(directory: Path, ca_file: Path) -> None:
    """Let the directory be where the kubelet mounts the files `token` and `namespace`."""
    incluster_config.SERVICE_TOKEN_FILENAME = str(directory / "token")
    incluster_config.SERVICE_CERT_FILENAME = str(ca_file)
    kubeconfig._NAMESPACE_FILE = directory / "namespace"  # noqa: SLF001  no setting has it


def forget_failures(seconds: float) -> None:
    """Let failures of the API server hold a cycle only for so long."""
    server_health.LATELY_SECONDS = seconds


def hold_if_unknown() -> None:
    """Let a single node of unknown load hold the cycle, so that it evicts all or nothing."""
    holds.UNKNOWN_NODES_FLOOR, holds.UNKNOWN_NODES_SHARE = 0, 0.0


def run(arguments: Sequence[str], prepare: Prepare = as_it_is) -> CompletedProcess[str]:
    """Desched with these arguments, to its end; `prepare` runs in the process before it begins."""
    with TemporaryDirectory(prefix="desched-") as directory:
        out, error = Path(directory, "out"), Path(directory, "error")
        fork = _FORKS.Process(target=_live, args=(tuple(arguments), out, error, prepare))
        fork.start()
        fork.join(PATIENCE_SECONDS)
        if fork.exitcode is None:
            fork.kill()
            fork.join()
            raise TimeoutError(f"not within {PATIENCE_SECONDS:g} s: {error.read_text()}")
        ended = CompletedProcess(arguments, fork.exitcode, _text_of(out), _text_of(error))
        fork.close()
        return ended


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _live(arguments: Sequence[str], out: Path, error: Path, prepare: Prepare) -> None:
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for stream, path in ((sys.stdout, out), (sys.stderr, error)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), stream.fileno())
    prepare()
    sys.exit(cli.main(arguments))
