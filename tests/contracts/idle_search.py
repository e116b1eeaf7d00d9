"""A process that gives the workers of a Dask cluster a past, and then waits to be killed."""

import signal
import sys

from desched.whatif.tuning.replays import Stop
from tests.unit.whatif.tuning.dask_threads import executor_at
from tests.unit.whatif.tuning.hot_hours import hot_hours

if __name__ == "__main__":
    with executor_at(sys.argv[1], {"": hot_hours()}, Stop()):
        signal.pause()
