"""A Dask cluster of threads of this process."""

from distributed import LocalCluster


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
