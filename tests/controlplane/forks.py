"""Runs of desched as processes of their own, forked from one that has imported it and nothing else.

A process that imports desched itself needs most of a second of CPU for that. What `prepare` needs
is imported before, too.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

from desched import cli
from tests.controlplane.process import LIBC, PR_SET_PDEATHSIG
from tests.controlplane.waiting import PATIENCE_SECONDS

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", __name__, "tests.controlplane.mortal_runs"])


def _as_it_is() -> None:
    pass


def run(arguments: Sequence[str], prepare: Callable[[], None] = _as_it_is) -> CompletedProcess[str]:
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


def _live(arguments: Sequence[str], out: Path, error: Path, prepare: Callable[[], None]) -> None:
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for stream, path in ((sys.stdout, out), (sys.stderr, error)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    prepare()
    sys.exit(cli.main(arguments))
