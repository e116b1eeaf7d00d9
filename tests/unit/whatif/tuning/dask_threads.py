"""A Dask cluster of threads of this process, and an executor on any."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from distributed import LocalCluster

from desched.history.past import Past
from desched.whatif.tuning.dask_workers import DaskExecutor, dask_client, dask_executor
from desched.whatif.tuning.replays import Stop


def workers_in_this_process() -> LocalCluster:
    """A scheduler on loopback with one worker; a context."""
    return LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",  # or else a port that others may have
    )


@contextmanager
def executor_at(
    address: str, pasts: Mapping[str, Past], stop: Stop, patience_seconds: float = 60.0
) -> Iterator[DaskExecutor]:
    """Runs jobs on the workers of the scheduler at this address."""
    with (
        dask_client(address, patience_seconds) as client,
        dask_executor(client, pasts, stop, patience_seconds) as executor,
    ):
        yield executor
