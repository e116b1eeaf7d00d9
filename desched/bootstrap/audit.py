"""Where the audit trail goes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from desched.errors import ConfigurationError
from desched.service.cycles.runner import ReportSink
from desched.service.telemetry.audit_log import AuditLog
from desched.settings import Settings, flag_of, variable_of

STANDARD_OUTPUT = "-"


@contextmanager
def audit_log(settings: Settings, stdout: TextIO) -> Iterator[Sequence[ReportSink]]:
    """Writes the audit trail during the context; no sink without a file.

    Raises:
        ConfigurationError: the file cannot be written, which is better known before an eviction.
    """
    target = settings.audit_log
    if target is None:
        yield ()
    elif target == STANDARD_OUTPUT:
        yield (AuditLog(stdout).publish,)
    else:
        with _opened(Path(target)) as stream:
            yield (AuditLog(stream).publish,)


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        name = f"{flag_of('audit_log')} ({variable_of('audit_log')})"
        why = error.strerror or str(error)
        raise ConfigurationError(f"{name}: cannot write {path} ({why}).") from error
