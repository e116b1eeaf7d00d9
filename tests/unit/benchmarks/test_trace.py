"""Reading the traces that have CPU only, from small files."""

from pathlib import Path

import numpy as np

from benchmarks.day import Kind
from benchmarks.days import regimes_of, trace_of
from benchmarks.trace import SAMPLES, Trace, read_jobs_of


def test_a_job_is_a_machine_of_planetlab_and_the_days_of_a_machine_of_bitbrains(
    tmp_path: Path,
) -> None:
    cpu = np.arange(3 * SAMPLES, dtype=np.uint8).reshape(3, SAMPLES)
    np.savez(tmp_path / "planetlab-20110303.npz", cpu_percent=cpu)
    np.savez(tmp_path / "bitbrains-half.npz", cpu_mhz=cpu, vm=np.array(["7", "8", "7"]))
    planetlab = read_jobs_of(Trace.PLANETLAB, others=tmp_path)
    assert [job.shape for job in planetlab] == [(1, SAMPLES, 2)] * 3
    bitbrains = read_jobs_of(Trace.BITBRAINS, others=tmp_path)
    assert [len(job) for job in bitbrains] == [2, 1]
    assert (bitbrains[0][:, :, 0] == cpu[[0, 2]]).all()
    assert not bitbrains[0][:, :, 1].any()


def test_every_kind_of_day_has_a_trace_and_requests() -> None:
    for kind in Kind:
        named = [trace for trace in Trace if kind.startswith(trace)]
        assert trace_of(kind) in (named or [Trace.GOOGLE])
        assert regimes_of(kind)
        assert ("odd requests" in kind) == ("odd requests" in regimes_of(kind))
