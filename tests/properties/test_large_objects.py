"""A hundred of the largest objects of each kind that a tenant may write fit into the memory."""

import subprocess
import sys

from tests.unit.adapters.kubernetes import large_documents

LIMIT_MIB = 1024


def test_a_hundred_of_the_largest_objects_of_each_kind_stay_far_under_the_limit() -> None:
    command = [sys.executable, "-m", large_documents.__name__]
    run = subprocess.run(  # noqa: S603  (a module of these tests)
        command, capture_output=True, text=True, check=True
    )
    peak_mib = float(run.stdout.splitlines()[-1].split()[0])
    assert peak_mib < LIMIT_MIB / 2, run.stdout
