"""`--report FILE`: a page beside the output of a command."""

import sys
from importlib.util import find_spec
from pathlib import Path

from desched.cli.command import Invocation
from desched.cli.setting_flags import own_flag
from desched.errors import ConfigurationError
from desched.model.text import on_one_line

REPORT = own_flag(
    "--report FILE", "Also write the report as a page, one HTML file that needs no network."
)


def page_file(invocation: Invocation) -> Path | None:
    """The file that was given; None without one.

    Raises:
        ConfigurationError: it cannot be a file, which is better known before the work than after.
    """
    if "report" not in invocation.flags:
        return None
    path = Path(invocation.flags["report"])
    try:
        usable = path.absolute().parent.is_dir() and not path.is_dir()
    except OSError as error:
        raise _unwritable(path, error) from error
    if not usable:
        raise ConfigurationError(f"--report: {path} is no file in a folder that exists.")
    return path


def charts_file(invocation: Invocation) -> Path | None:
    """The file for a page with charts, which need a library; None without one.

    Raises:
        ConfigurationError: the library is missing, or it cannot be a file.
    """
    path = page_file(invocation)
    if path is not None and find_spec("bokeh") is None:
        raise ConfigurationError(
            "--report: the charts need Bokeh; install it with `pip install 'desched[report]'`."
        )
    return path


def write_page(path: Path, page: str) -> None:
    """Write a page and say where it is.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, error) from error
    sys.stderr.write(f"desched: The report is in {on_one_line(str(path))}\n")


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"--report: cannot write {path} ({error.strerror or error}).")
