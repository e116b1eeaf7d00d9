"""Every text of a snapshot is renamed, or is known to be no name."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
import pytest

from desched.gangs.objects import DeclaredGroup, GangObjects, GroupPart
from desched.gangs.pod_groups import TASK, groups_of
from desched.model.cluster import PodVolume, VolumeKind
from desched.model.names import Form, NodeName, Plain
from desched.model.selectors import LabelSelector, Operator, Requirement
from desched.model.snapshot import Snapshot
from desched.model.state import EvictionRecord, State
from desched.planning.eligibility.annotations import (
    SAFE_TO_EVICT_VOLUMES_ANNOTATION,
    may_lose,
)
from desched.plugins import HOUSE
from desched.plugins.caches.models import (
    CACHE_KEY,
    GPUSTACK,
    KSERVE,
    KSERVE_CLAIM,
    KSERVE_MODEL,
    kserve_claim,
    models_of,
)
from desched.plugins.caches.objects import CacheObjects, ModelCopies
from desched.plugins.kinds import PLUGIN_KINDS
from desched.plugins.queues.objects import MANAGED, QUEUE_NAME, Queue, QueueObjects
from desched.plugins.queues.requeue import requeue
from desched.policy.policy import Protections
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.names import with_new_names
from desched.snapshot_file.renaming import Renaming, renames_of
from tests.builders import NOW, certain, context_of, load, node, pod, policy, snapshot

OF_PLUGINS = (
    *(kinds.keeps for kinds in PLUGIN_KINDS),
    *(plugin.state for plugin in HOUSE if plugin.state is not None),
)
PLAIN_TEXTS = frozenset(
    {
        "Amounts.extended",
        "CSINode.attach_limits",
        "ClusterLoad.extras",
        "ClusterState.extras",
        "ClusterState.priority_classes",
        "ClusterState.server_version",
        "ClusterState.sized_owners",
        "ClusterState.storage_classes",
        "ClusterState.unread_kinds",
        "ClusterState.volcano_configurations",
        "DeclaredGroup.system",
        "Drain.reserve",
        "EvictionRecord.purpose",
        "GroupPart.match_label_keys",
        "GroupTopology.level",
        "GroupTopology.preferred_level",
        "HostPort.protocol",
        "LastCycle.hold",
        "LastCycle.mode",
        "LastCycle.result",
        "ModelCopies.system",
        "Node.addresses",
        "Node.images",
        "Node.operating_system",
        "Owner.api_version",
        "Owner.kind",
        "PersistentVolume.csi_driver",
        "PersistentVolume.csi_handle",
        "PersistentVolume.labels",
        "PersistentVolume.storage_class",
        "PersistentVolumeClaim.storage_class",
        "Pod.phase",
        "Pod.qos",
        "Pod.scheduler",
        "PodAffinityTerm.topology_key",
        "Queue.system",
        "Requirement.key",
        "SchedulingClass.images",
        "SpreadConstraint.match_label_keys",
        "SpreadConstraint.topology_key",
        "StorageClass.name",
        "State.extras",
        "StorageClass.provisioner",
        "Taint.effect",
        "Taint.key",
        "Toleration.effect",
        "Toleration.key",
        "Toleration.operator",
        "Topology.levels",
        "Topology.system",
        "VolcanoConfiguration.further",
        "VolcanoConfiguration.weights",
        "Workload.kind",
        "Workload.rolled_by_hand",
    }
)
"""Addresses are dropped; images and handles of volumes are numbers before names are replaced."""


def test_every_text_of_a_snapshot_and_of_the_state_has_a_mark() -> None:
    """Else nobody decided whether it is a name."""
    assert renames_of(Snapshot).keys() == {"cluster", "load"}
    assert {"evictions", "pauses", "extras"} < renames_of(State).keys()
    assert all(map(renames_of, OF_PLUGINS))


def test_the_texts_that_keep_their_value_are_these() -> None:
    """Each is a key, a kind, a zone or a word of Kubernetes; a new one has to be judged."""
    kinds = [Snapshot, State, *OF_PLUGINS]
    assert {text for kind in kinds for text in _plain_texts(kind)} == PLAIN_TEXTS


def _plain_texts(kind: Any, where: str = "") -> Iterator[str]:
    """Where texts are, by struct and field, that are the same in a file with new names."""
    if Form.PLAIN in get_args(kind)[1:]:
        yield where
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for name, hint in get_type_hints(kind, include_extras=True).items():
            yield from _plain_texts(hint, f"{kind.__name__}.{name}")
    else:
        for part in get_args(kind):
            if part is not Ellipsis:
                yield from _plain_texts(part, where)


@pytest.mark.parametrize(
    "kind",
    [
        str,
        bytes,
        Any,
        str | None,
        tuple[str, ...],
        tuple[int, str],
        frozenset[str],
        list[int],
        Mapping[NodeName, str],
        Mapping[str, int],
        Annotated[str, msgspec.Meta(max_length=3)],
    ],
    ids=str,
)
def test_a_text_without_a_mark_is_an_error(kind: Any) -> None:
    inner = msgspec.defstruct("Inner", [("text", kind)])

    with pytest.raises(TypeError, match=r"Outer\.inner: Inner\.text: .* needs a mark"):
        renames_of(msgspec.defstruct("Outer", [("inner", inner)]))


class Inner(msgspec.Struct):
    node: NodeName
    number: int = 7


class Outer(msgspec.Struct):
    inner: Inner
    other: Inner | None
    by_node: Mapping[NodeName, tuple[Inner, ...]]
    pairs: frozenset[tuple[Plain, NodeName]]
    plain: tuple[Plain, ...] = ()


def test_names_are_replaced_wherever_their_mark_is() -> None:
    shared = Inner("a")
    value = Outer(shared, None, {"b": (shared, Inner("c"))}, frozenset({("a", "b")}), ("a",))

    found = Renaming(lambda mark, text, _: f"{mark}-{text}").of(value)

    assert found == Outer(
        Inner("node-a"),
        None,
        {"node-b": (Inner("node-a"), Inner("node-c"))},
        frozenset({("a", "node-b")}),
        ("a",),
    )
    assert found.inner is found.by_node["node-b"][0]


def test_gangs_stay_apart_and_keep_their_minima() -> None:
    """Else a plan of a snapshot with new names would move other pods."""
    volcano, least = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member"
    native = "gang.scheduling.koordinator.sh/name"
    marks = [
        {volcano: "podgroup-one", least: "6"},
        {volcano: "podgroup-two", least: "6"},
        {volcano: "three"},
        {native: "podgroup-one", "gang.scheduling.koordinator.sh/min-available": "2"},
        {volcano: "five", TASK: "six", "role": "seven"},
        {volcano: "five", TASK: "eight", "role": "seven"},
    ]
    pods = [pod(f"a{i}", annotations=each, of=None) for i, each in enumerate(marks)]
    pods += [pod(f"l{i}", labels=each, of=None) for i, each in enumerate(marks)]
    pods.append(pod("n", of=None, scheduling_group="four"))
    said = [("Volcano", "podgroup-one", 7), ("Volcano", "three", 3), ("Kubernetes", "four", 4)]
    declared = tuple(DeclaredGroup(system, "apps", name, least) for system, name, least in said)
    six = LabelSelector((Requirement(TASK, Operator.IN, ("six",)),))
    part = GroupPart("nine", 5, six, ("role",))
    declared += (DeclaredGroup("Volcano", "apps", "five", 8, "", (part,)),)
    seen = snapshot([], pods, load({}), declared_groups=declared)
    content = SnapshotContent(seen, State(), "")
    renamed = with_new_names(content, policy()).snapshot.cluster

    before, after = (
        [g for p in each.pods for g in groups_of(p, None, GangObjects.of(each.extras).by_key)]
        for each in (seen.cluster, renamed)
    )
    assert {7, 3, 4, 5, 8} <= {g.minimum for g in before}
    assert [(g.minimum, g.stays) for g in after] == [(g.minimum, g.stays) for g in before]
    keys = [g.key for g in before]
    new_keys = [g.key for g in after]
    assert len(set(zip(keys, new_keys, strict=True))) == len(set(keys)) == len(set(new_keys))
    names = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    assert not [name for name in names if name in str(new_keys)]


def test_an_eviction_names_the_gang_that_its_pod_is_in() -> None:
    """Also if the gang has the name of the owner of its pods."""
    name = "scheduling.k8s.io/group-name"
    named = pod("a", annotations={name: "llama", "scheduling.volcano.sh/group-min-member": "2"})
    owned = pod("b", annotations={"scheduling.volcano.sh/group-min-member": "2"})
    records = tuple(
        EvictionRecord(
            each.ref, "n1", "uid-w", NOW, certain("n2"), gang=str(*groups_of(each, None))
        )
        for each in (named, owned)
    )
    group = DeclaredGroup("Volcano", "apps", "llama", 2)
    seen = snapshot([node("n1"), node("n2")], [named, owned], load({}), declared_groups=(group,))
    content = with_new_names(SnapshotContent(seen, State(evictions=records), ""), policy())

    pods, found = content.snapshot.cluster.pods, content.state.evictions
    assert [each.gang for each in found] == [str(*groups_of(each, None)) for each in pods]
    assert records[0].gang == "gang apps/llama (Volcano)"
    assert "llama" not in str(content)


def test_nodes_hold_the_same_models_by_new_names() -> None:
    """R1.2: else a plan of a snapshot with new names would move other pods."""
    texts = ["llama", "llama=v2", " llama = v2 ", "llama=Ready"]
    pods = [pod(f"a{i}", annotations={CACHE_KEY: each}) for i, each in enumerate(texts)]
    held = ["true", "v2", "Ready", "Updating"]
    label = "cache.desched.io/llama"
    nodes = [node(f"n{i}", labels={label: each}) for i, each in enumerate(held)]
    content = SnapshotContent(snapshot(nodes, pods, load({})), State(), "")
    renamed = with_new_names(content, policy()).snapshot.cluster

    before, after = (
        [[m.is_on(n) for n in nodes for m in models_of(p, None)] for p in pods]
        for nodes, pods in ((nodes, pods), (renamed.nodes, renamed.pods))
    )
    assert after == before
    assert before[1] == before[2] == [False, True, False, False]
    assert "v2" not in str(renamed)


def test_nodes_hold_the_same_models_of_objects_by_new_names() -> None:
    """R1.2: as the labels, annotations and volumes of their pods name them."""
    digest = f"sha256:{'3' * 64}"
    mounted = (PodVolume(VolumeKind.CLAIM, "llama-gpu"), PodVolume(VolumeKind.MODEL, model=digest))
    served = pod(
        "a",
        labels={KSERVE_MODEL: "llama"},
        annotations={KSERVE_CLAIM: "llama-gpu"},
        volumes=mounted,
    )
    copies = (
        ModelCopies(KSERVE, ("llama", "other"), ("n1", "gone")),
        ModelCopies(GPUSTACK, (digest,), ("n0",)),
    )
    seen = snapshot(
        [node("n0"), node("n1")], [served], load({}), extras=CacheObjects(copies).extras
    )
    renamed = with_new_names(SnapshotContent(seen, State(), ""), policy()).snapshot.cluster

    (one,) = renamed.pods
    held = CacheObjects.of(renamed.extras).nodes_by_model
    llama, mount = models_of(one, None, held)
    assert [llama.is_on(each) for each in renamed.nodes] == [False, True]
    assert [mount.is_on(each) for each in renamed.nodes] == [True, False]
    assert kserve_claim(one, held) == one.volumes[0].claim
    assert not {"llama", "llama-gpu", digest, "gone"} & set(str(renamed).split("'"))


def test_volumes_that_may_be_lost_are_the_same_by_new_names() -> None:
    volumes = tuple(PodVolume(VolumeKind.EMPTY_DIR, name=name) for name in ("tmp", "data"))
    value = {SAFE_TO_EVICT_VOLUMES_ANNOTATION: "cache,tmp"}
    seen = snapshot([node("n0")], [pod("a", annotations=value, volumes=volumes)], load({}))
    renamed = with_new_names(SnapshotContent(seen, State(), ""), policy()).snapshot.cluster
    (one,) = renamed.pods
    assert [may_lose(one, volume) for volume in one.volumes] == [True, False]
    assert not {"tmp", "data", "cache"} & set(re.findall(r"\w+", str(one)))


def test_a_pod_is_in_the_same_queue_by_new_names() -> None:
    """What waits there decides whether it moves."""
    of_kueue = {MANAGED: "true", QUEUE_NAME: "main"}
    of_volcano = {"scheduling.k8s.io/group-name": "podgroup-web"}
    pods = [
        pod("a", on="n0", labels=of_kueue),
        pod("b", on="n0", annotations=of_volcano),
    ]
    queues = QueueObjects(
        (
            Queue("Kueue", "apps", "main", cluster_queue="team-a"),
            Queue("Kueue", "", "team-a", waiting=3),
            Queue("Volcano", "", "research"),
        )
    ).extras
    groups = (
        DeclaredGroup("Volcano", "apps", "podgroup-web", 1, queue="research"),
        DeclaredGroup("Volcano", "apps", "llama", 1, queue="research", waits=True),
    )
    seen = snapshot([node("n0")], pods, load({}), extras=queues, declared_groups=groups)
    renamed = with_new_names(SnapshotContent(seen, State(), ""), policy()).snapshot.cluster

    context = context_of(renamed)
    found = [requeue(p, context) for p in renamed.pods]
    assert [each.busy.partition(":")[0] for each in found if each] == [
        "3 Workloads wait there",
        "1 PodGroup waits there",
    ]
    assert not {"main", "team-a", "research", "llama"} & set(str(renamed).split("'"))


def test_a_value_that_the_policy_names_stays_where_an_object_has_it_as_its_name() -> None:
    is_redis = LabelSelector((Requirement("app", Operator.IN, ("redis",)),))
    by = policy(protections=Protections(labels=is_redis))
    seen = snapshot([node("n1")], [pod("redis", on="n1", labels={"app": "redis"})], load({}))
    content = with_new_names(SnapshotContent(seen, State(), ""), by)

    (found,) = content.snapshot.cluster.pods
    assert found.name != "redis"
    assert found.labels == {"app": "redis"}
