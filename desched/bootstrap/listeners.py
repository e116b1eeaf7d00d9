"""Where a service listens: for probes and Prometheus, and for people."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from desched.adapters.running_service import PAGES_PORT
from desched.service.process.http_endpoints import Answers, ListenAddress, listen_address, serve
from desched.settings import Settings, flag_of, variable_of

PROBES_IN_CLUSTER = ":10258"
PROBES_OUTSIDE = "127.0.0.1:10258"


class Listeners(NamedTuple):
    """The addresses for probes and metrics, and for pages; the same one if both are on loopback."""

    probes: ListenAddress
    pages: ListenAddress


def listeners_of(settings: Settings, *, in_cluster: bool) -> Listeners:
    """Where to listen.

    Raises:
        ConfigurationError: an address is of another form.
    """

    def address(field: str, default: str) -> ListenAddress:
        given: str | None = getattr(settings, field)
        return listen_address(given or default, f"{flag_of(field)} ({variable_of(field)})")

    probes = address("listen_address", PROBES_IN_CLUSTER if in_cluster else PROBES_OUTSIDE)
    if settings.pages_address is None and probes.is_loopback:
        return Listeners(probes, probes)
    return Listeners(probes, address("pages_address", f"127.0.0.1:{PAGES_PORT}"))


@contextmanager
def listening(
    listeners: Listeners, probes: Answers, everything: Answers
) -> Iterator[Mapping[str, int]]:
    """Serve both addresses; yields their ports for the log."""
    if listeners.pages == listeners.probes:
        with serve(listeners.probes, everything) as bound:
            yield {"port": bound.port, "pages_port": bound.port}
        return
    with serve(listeners.pages, everything, flag_of("pages_address")) as pages:
        hint = f"pages are at {pages.host}:{pages.port}\n"
        with serve(listeners.probes, probes, hint=hint) as bound:
            yield {"port": bound.port, "pages_port": pages.port}
