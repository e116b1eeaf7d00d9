import msgspec
import pytest

from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.policy.compatibility import GangMode
from desched.policy.policy import EvictionLimits, PriorityThreshold
from tests.unit.policy_file.published import REMOVED, resolved, warnings

EVICT_KEYS = {
    "evictLocalStoragePods": "local_storage",
    "evictSystemCriticalPods": "system_critical",
}
DISABLED_NAMES = {
    "PodsWithLocalStorage": "local_storage",
    "SystemCriticalPods": "system_critical",
}


def protections(**changes):
    return resolved(**changes).protections


@pytest.mark.parametrize("key", EVICT_KEYS)
@pytest.mark.parametrize(
    ("load_aware", "evictor", "protected"),
    [
        (None, None, True),
        (True, None, False),
        (None, True, False),
        (True, True, False),
        (False, True, True),
        (True, False, True),
    ],
)
def test_pods_stay_unless_one_plugin_lets_them_go_and_none_says_no(
    key, load_aware, evictor, protected
):
    found = protections(load_aware={key: load_aware}, evictor={key: evictor})
    assert getattr(found, EVICT_KEYS[key]) is protected


@pytest.mark.parametrize("name", DISABLED_NAMES)
def test_a_disabled_protection_does_not_hold_unless_load_aware_says_so(name):
    evictor = {"ignorePvcPods": REMOVED, "podProtections": {"defaultDisabled": [name]}}
    key = next(k for k, field in EVICT_KEYS.items() if field == DISABLED_NAMES[name])
    assert not getattr(protections(evictor=evictor), DISABLED_NAMES[name])
    assert getattr(protections(evictor=evictor, load_aware={key: False}), DISABLED_NAMES[name])


def test_extra_protections_hold_when_they_are_enabled():
    evictor = {
        "ignorePvcPods": REMOVED,
        "podProtections": {
            "extraEnabled": ["PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"],
            "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "local"}]}},
        },
    }
    found = protections(evictor=evictor)
    assert (found.pvc_pods, found.pods_without_budget) == (True, True)
    assert found.protected_storage_classes == ("local",)
    every_claim = protections(evictor=evictor, load_aware={"ignorePvcPods": True})
    assert (every_claim.pvc_pods, every_claim.protected_storage_classes) == (True, ())


def test_without_them_pvc_pods_and_pods_without_budget_may_move():
    found = protections(evictor={"ignorePvcPods": REMOVED})
    assert (found.pvc_pods, found.pods_without_budget) == (False, False)


def test_the_older_keys_protect_as_well():
    found = protections(evictor={"ignorePvcPods": True, "ignorePodsWithoutPDB": True})
    assert (found.pvc_pods, found.pods_without_budget) == (True, True)


def test_storage_classes_without_their_protection_get_a_warning():
    config = {"PodsWithPVC": {"protectedStorageClasses": [{"name": "local"}]}}
    evictor = {"ignorePvcPods": REMOVED, "podProtections": {"config": config}}
    assert "config.PodsWithPVC: has no effect" in warnings(evictor=evictor)
    assert protections(evictor=evictor).protected_storage_classes == ()


@pytest.mark.parametrize(
    ("load_aware", "evictor", "threshold"),
    [
        (None, None, PriorityThreshold()),
        ({}, {"value": 7, "name": ""}, PriorityThreshold(value=7)),
        ({"value": 5}, {"value": 7}, PriorityThreshold(value=5)),
        ({"value": 9}, {"value": 7}, PriorityThreshold(value=7)),
        (None, {"name": "high"}, PriorityThreshold(class_name="high")),
        ({"name": "high"}, {"name": "high"}, PriorityThreshold(class_name="high")),
        (None, {"value": 0}, PriorityThreshold(value=0)),
    ],
)
def test_the_lower_priority_threshold_holds(load_aware, evictor, threshold):
    found = protections(
        load_aware={"priorityThreshold": load_aware}, evictor={"priorityThreshold": evictor}
    )
    assert msgspec.structs.replace(found.priority_threshold, place="") == threshold


def test_evicting_system_critical_pods_leaves_the_priority_threshold_alone():
    found = protections(evictor={"evictSystemCriticalPods": True})
    assert not found.system_critical
    assert found.priority_threshold == PriorityThreshold(value=10_000)


def test_the_label_selectors_of_both_plugins_must_hold():
    found = protections(
        load_aware={"labelSelector": {"matchLabels": {"movable": "yes"}}},
        evictor={
            "labelSelector": {
                "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]
            },
            "namespaceLabelSelector": {"matchExpressions": [{"key": "t", "operator": "Exists"}]},
        },
    )
    assert found.labels == LabelSelector(
        (
            Requirement("movable", Operator.IN, ("yes",)),
            Requirement("tier", Operator.NOT_IN, ("db",)),
        )
    )
    assert found.namespace_labels == LabelSelector((Requirement("t", Operator.EXISTS),))


def test_namespaces_replicas_age_and_the_no_eviction_policy_are_handed_on():
    found = protections(
        load_aware={"evictableNamespaces": {"include": ["web", "shop"], "exclude": []}},
        evictor={"minReplicas": 2, "minPodAge": "1h", "noEvictionPolicy": "Mandatory"},
    )
    assert found.included_namespaces == ("web", "shop")
    assert found.excluded_namespaces == ()
    assert (found.min_replicas, found.min_pod_age_seconds) == (2, 3600)
    assert found.prefer_no_eviction_is_mandatory


def test_by_default_single_replicas_and_pods_with_long_grace_periods_stay():
    found = protections()
    assert found.single_replicas
    assert found.gpu_pods
    assert found.max_grace_period_seconds == 600
    assert found.understood_owner_kinds == ()


def test_single_replicas_grace_periods_and_owner_kinds_are_handed_on():
    found = protections(
        load_aware={
            "evictSingleReplica": True,
            "gpuPods": "Allow",
            "maxGracePeriod": "0s",
            "understoodOwnerKinds": ["argoproj.io/Rollout", "ReplicationController"],
        }
    )
    assert not found.single_replicas
    assert not found.gpu_pods
    assert found.max_grace_period_seconds == 0
    assert found.understood_owner_kinds == ("argoproj.io/Rollout", "ReplicationController")


def test_daemon_set_pods_never_move_and_warnings_say_so():
    older = warnings(evictor={"evictDaemonSetPods": True})
    newer = warnings(
        evictor={"ignorePvcPods": REMOVED, "podProtections": {"defaultDisabled": ["DaemonSetPods"]}}
    )
    assert "evictDaemonSetPods: has no effect; pods of DaemonSets never move." in older
    assert "DaemonSetPods has no effect; pods of DaemonSets never move." in newer


@pytest.mark.parametrize(
    "changes",
    [
        {"load_aware": {"evictLocalStoragePods": True}},
        {"evictor": {"evictLocalStoragePods": True}},
        {
            "evictor": {
                "ignorePvcPods": REMOVED,
                "podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]},
            }
        },
    ],
    ids=["LoadAware", "DefaultEvictor", "podProtections"],
)
def test_opening_local_storage_does_not_open_host_paths_and_a_warning_says_so(changes):
    assert "those with a hostPath need an annotation as well" in warnings(**changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("evictLocalStoragePods", True),
        ("evictSystemCriticalPods", True),
        ("ignorePvcPods", True),
        ("labelSelector", {"matchLabels": {"a": "b"}}),
        ("priorityThreshold", {"value": 5}),
    ],
)
def test_keys_that_volcano_never_reads_work_here_and_a_warning_says_so(key, value):
    assert f"args.{key}: has no effect in Volcano's LoadAware; here it has one." in warnings(
        load_aware={key: value}
    )


def test_failed_pods_make_no_load_and_a_warning_says_so():
    of_load_aware = warnings(load_aware={"evictFailedBarePods": True})
    older = warnings(evictor={"evictFailedBarePods": True})
    newer = warnings(
        evictor={
            "ignorePvcPods": REMOVED,
            "podProtections": {"defaultDisabled": ["FailedBarePods"]},
        }
    )
    for said in (of_load_aware, older, newer):
        assert "has no effect; a failed pod makes no load" in said


@pytest.mark.parametrize("plugin", ["load_aware", "evictor"])
def test_fit_is_always_checked_and_a_warning_says_so(plugin):
    assert "args.nodeFit: has no effect" in warnings(**{plugin: {"nodeFit": False}})
    assert warnings(**{plugin: {"nodeFit": True}}) == ""


def test_both_node_selectors_scope_the_nodes_and_the_evictors_limits_destinations():
    policy = resolved(
        nodeSelector="pool=web",
        load_aware={"nodeSelector": "!spot"},
        evictor={"nodeSelector": "zone in (a,b)"},
    )
    assert policy.node_selector == LabelSelector(
        (
            Requirement("pool", Operator.IN, ("web",)),
            Requirement("spot", Operator.DOES_NOT_EXIST),
        )
    )
    assert policy.destination_selector == LabelSelector(
        (Requirement("zone", Operator.IN, ("a", "b")),)
    )


@pytest.mark.parametrize(
    ("own", "peers", "limits"),
    [
        (None, {}, EvictionLimits()),
        (None, {"PerNode": 10, "PerNamespace": 3, "Total": 50}, EvictionLimits(50, 10, 3)),
        (
            {"node": 5, "total": 9, "workload": 3},
            {},
            EvictionLimits(9, 5, workload=3, in_flight_workload=3),
        ),
        (
            {"node": 5, "total": 9, "namespace": 4},
            {"PerNode": 3, "PerNamespace": 7, "Total": 20},
            EvictionLimits(9, 3, 4),
        ),
        ({"node": None}, {}, EvictionLimits()),
    ],
)
def test_the_smaller_limit_holds_and_a_default_gives_way_to_either(own, peers, limits):
    top_level = {f"maxNoOfPodsToEvict{key}": value for key, value in peers.items()}
    assert resolved(load_aware={"evictionLimits": own}, **top_level).limits == limits


def test_a_limit_of_zero_gets_a_warning():
    assert "maxNoOfPodsToEvictTotal: is 0, so nothing is ever" in warnings(
        maxNoOfPodsToEvictTotal=0
    )
    assert "args.evictionLimits.node: is 0, so nothing is ever" in warnings(
        load_aware={"evictionLimits": {"node": 0}}
    )


def test_gangs_move_whole_only_by_their_key():
    """R2.3: opt-in, whatever the compatibility."""
    strict = {"compatibility": "Strict"}
    assert resolved().gang_mode is resolved(load_aware=strict).gang_mode is GangMode.SURPLUS
    assert resolved(load_aware={"gangMode": "Whole"}).gang_mode is GangMode.WHOLE


def test_a_limit_that_keeps_most_gangs_is_a_warning():
    whole = {"gangMode": "Whole", "gpuPods": "Allow"}
    assert "lets 50% of a workload's replicas move" in warnings(load_aware=whole)
    for limits in ({"workloadHourly": "100%"}, {"workloadHourly": 8}):
        assert "gangMode" not in warnings(load_aware={**whole, "evictionLimits": limits})
    assert "gangMode" not in warnings()


def test_gangs_that_move_whole_without_those_with_gpus_are_a_warning():
    """S3.6: GPU pods are protected by default."""
    for protect in ({}, {"gpuPods": "Protect"}):
        assert "keeps each gang with GPUs" in warnings(load_aware={"gangMode": "Whole", **protect})
    assert "gang with GPUs" not in warnings(load_aware={"gpuPods": "Protect"})
