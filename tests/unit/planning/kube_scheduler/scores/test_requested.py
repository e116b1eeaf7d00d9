"""What the pods of every node request changes with each pod, and its balance with it."""

import numpy as np

from desched.model.cluster import SchedulingClass
from desched.model.resources import Amounts
from desched.planning.kube_scheduler.scores.plugins import Capacity, balance
from desched.planning.kube_scheduler.scores.requested import Requested, requested_amounts

CAPACITY = Capacity.of_nodes(np.array([[4000, 8000, 0], [10_000, 10_000, 10_000]]))
POD = SchedulingClass(Amounts(1000, 500, pods=1), scored_memory_bytes=700)
OTHER = SchedulingClass(Amounts(0, 2000, pods=1), scored_cpu_millicores=100)


def on(*pods_of_nodes):
    totals = [np.sum([requested_amounts(p) for p in pods], axis=0) for pods in pods_of_nodes]
    return Requested.of(np.array(totals, dtype=np.int64), CAPACITY)


def same(one, other):
    return np.array_equal(one.amounts, other.amounts) and np.array_equal(one.balance, other.balance)


def test_a_pod_that_comes_or_goes_leaves_what_counting_anew_would_find():
    start = on([POD], [POD, OTHER], [OTHER])
    assert same(start.having(POD, 2), on([POD], [POD, OTHER], [OTHER, POD]))
    assert same(start.having(POD, 1, -1), on([POD], [OTHER], [OTHER]))
    assert same(start, on([POD], [POD, OTHER], [OTHER]))


def test_each_alternative_has_the_pod_on_its_own_node():
    start = on([POD], [OTHER], [OTHER]).in_alternatives(2)
    after = start.having(POD, np.array([0, 1]))
    for row, alone in enumerate(
        (on([POD] * 2, [OTHER], [OTHER]), on([POD], [OTHER, POD], [OTHER]))
    ):
        assert np.array_equal(after.amounts[row], alone.amounts[0])
        assert np.array_equal(after.balance[row], alone.balance[0])
    assert np.array_equal(after.balance, balance(after.amounts[:, :2], CAPACITY))
