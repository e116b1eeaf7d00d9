"""When a process watches the cluster, and when its first lists begin."""

import pytest

from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.bootstrap.cluster_watch import SPREAD_SECONDS, cluster_watch_of
from desched.settings import load_settings


@pytest.mark.parametrize(("in_cluster", "seconds"), [(True, SPREAD_SECONDS), (False, 0.0)])
def test_first_lists_are_spread_in_a_cluster_and_begin_at_once_for_a_person(
    mocker, in_cluster, seconds
):
    connection = mocker.create_autospec(KubernetesConnection, instance=True)
    connection.in_cluster = in_cluster
    mocker.patch("desched.bootstrap.cluster_watch.connect", return_value=connection)
    made = mocker.patch("desched.bootstrap.cluster_watch.ClusterWatch")
    cluster_watch_of(load_settings({}))
    (client,) = made.call_args.args
    assert client.spread_seconds == seconds


@pytest.mark.parametrize("flags", [{"once": True}, {"watch": False}])
def test_a_single_cycle_watches_nothing(flags):
    assert cluster_watch_of(load_settings(flags)) is None
