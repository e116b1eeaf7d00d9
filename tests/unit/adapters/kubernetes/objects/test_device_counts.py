"""R3.4: a claim from a template moves its pod only where enough devices are certainly free."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from desched.adapters.kubernetes.objects.device_counts import (
    COMPUTE_DOMAINS,
    DeviceObjects,
    with_devices,
)
from desched.adapters.kubernetes.objects.resource_claims import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    SLICES,
    TAINT_RULES,
)
from desched.api_objects.kinds import Kind
from desched.model.cluster import CLAIMS_NOT_READ, Pod
from tests.builders import amounts, node, pod
from tests.device_manifests import (
    BY_DRIVER,
    DRIVER,
    claim,
    claim_template,
    device_class,
    resource_slice,
)

DEVICES = f"resource.k8s.io/{DRIVER}"
TYPED = f"{BY_DRIVER} && device.attributes['{DRIVER}'].type == 'gpu'"

Objects = list[dict[str, Any]]


def listed(kind: Kind[Any, Any], items: Objects) -> list[Any]:
    return kind.decoder().page(json.dumps({"metadata": {}, "items": items}).encode()).values


class World:
    """Two nodes with two devices each, and a pod on `te1` with one of them."""

    def __init__(self) -> None:
        self.slices = [resource_slice(name, "a", "b") for name in ("te1", "te2")]
        self.claims = [claim("uid-mine", "te1", "a")]
        self.templates = [claim_template()]
        self.classes = [device_class()]
        self.rules: Objects = []
        self.pods = [claiming("mine", on="te1")]

    @property
    def counted(self) -> tuple[dict[str, dict[str, int]], dict[str, Pod]]:
        """The devices of each node, and the pods by name."""
        found = DeviceObjects(
            listed(SLICES, self.slices),
            listed(RESOURCE_CLAIMS, self.claims),
            listed(CLAIM_TEMPLATES, self.templates),
            listed(DEVICE_CLASSES, self.classes),
            listed(TAINT_RULES, self.rules),
        )
        nodes, pods = with_devices([node("te1"), node("te2")], self.pods, found)
        on = {each.name: dict(each.allocatable.extended) for each in nodes}
        return on, {each.name: each for each in pods}

    @property
    def why(self) -> str:
        """Why the claims of the pod are not counted."""
        mine = self.counted[1]["mine"]
        assert bool(mine.uncounted_claims) is not bool(mine.scheduling.requests.extended)
        return mine.uncounted_claims

    @property
    def on(self) -> dict[str, dict[str, int]]:
        return self.counted[0]


def claiming(name: str, on: str = "", templates: tuple[str, ...] = ("gpu",), **fields: Any) -> Pod:
    found = pod(name, on=on, namespace="shop", claim_templates=templates, **fields)
    return replace(found, has_resource_claims=True)


def test_a_pod_requests_its_devices_and_its_node_has_them() -> None:
    """What the pod holds is free once it has left."""
    on, pods = World().counted
    assert pods["mine"].scheduling.requests.extended == ((DEVICES, 1),)
    assert (pods["mine"].uncounted_claims, pods["mine"].claim_templates) == ("", ())
    assert on == {"te1": {DEVICES: 2}, "te2": {DEVICES: 2}}


def test_pods_of_one_class_stay_of_one_class() -> None:
    """Feasibility is computed once for each class."""
    world = World()
    first = world.pods[0]
    world.pods.append(replace(first, name="twin", uid="uid-twin"))
    world.claims.append(claim("uid-twin", "te1", "b"))
    pods = world.counted[1]
    assert pods["mine"].scheduling is pods["twin"].scheduling
    assert first.scheduling.requests.extended == ()


def test_what_other_claims_hold_is_not_there() -> None:
    world = World()
    world.claims.append(claim("uid-other", "te2", "a", name="other"))
    assert world.on == {"te1": {DEVICES: 2}, "te2": {DEVICES: 1}}


def test_a_claim_of_another_namespace_is_not_that_of_a_pod_whose_uid_it_names() -> None:
    """Whoever may write claims in a namespace could keep pods of others by it."""
    world = World()
    world.claims.append(claim("uid-mine", "te2", "a", namespace="evil"))
    assert world.why == ""
    assert world.on == {"te1": {DEVICES: 2}, "te2": {DEVICES: 1}}


def test_the_claim_of_a_finished_pod_holds_its_devices_until_it_is_gone() -> None:
    world = World()
    world.pods.append(claiming("done", on="te2", phase="Succeeded"))
    world.claims.append(claim("uid-done", "te2", "a"))
    assert world.on["te2"] == {DEVICES: 1}


def test_a_pending_pod_requests_what_its_template_says() -> None:
    world = World()
    world.pods.append(claiming("new"))
    assert world.counted[1]["new"].scheduling.requests.extended == ((DEVICES, 1),)


def test_other_resources_stay() -> None:
    world = World()
    request = amounts(0.1, 0.1, **{"a.example.com/x": 3, "z.example.com/x": 4})
    world.pods = [claiming("mine", on="te1", request=request)]
    (names, counts) = zip(*world.counted[1]["mine"].scheduling.requests.extended, strict=True)
    assert names == ("a.example.com/x", DEVICES, "z.example.com/x")
    assert counts == (3, 1, 4)


def test_without_pods_that_have_claims_nothing_changes() -> None:
    world = World()
    world.pods = [pod("mine", on="te1")]
    assert world.on == {"te1": {}, "te2": {}}


def test_several_requests_and_several_claims_add_up() -> None:
    world = World()
    world.templates = [claim_template("gpu", {}, {}), claim_template("more")]
    world.slices[0] = resource_slice("te1", "a", "b", "c")
    world.pods = [claiming("mine", on="te1", templates=("gpu", "more"))]
    world.claims = [claim("uid-mine", "te1", "a", "b"), claim("uid-mine", "te1", "c", name="more")]
    assert world.counted[1]["mine"].scheduling.requests.extended == ((DEVICES, 3),)


def tainted(name: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"name": name, "taints": [{"key": "broken", "effect": effect}]}


@pytest.mark.parametrize(
    ("changed", "free"),
    [
        ({"devices": [{"name": "a"}, tainted("b")]}, 1),
        ({"devices": []}, 0),
        ({"pool": {"name": "te2", "generation": 2, "resourceSliceCount": 2}}, 0),
        ({"devices": [{"name": "a"}, {"name": "a"}]}, 0),
    ],
)
def test_a_device_that_is_not_certainly_usable_is_not_there(
    changed: dict[str, Any], free: int
) -> None:
    """An incomplete pool has none, and one with a name twice is invalid."""
    world = World()
    world.slices[1] = resource_slice("te2", "a", "b", **changed)
    assert world.on["te2"].get(DEVICES, 0) == free
    assert world.why == ""


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    world = World()
    pool = {"name": "te2", "generation": 2, "resourceSliceCount": 2}
    world.slices += [
        resource_slice("te2", "c", pool=pool),
        resource_slice("te2", "d", "e", pool=pool),
    ]
    assert world.on["te2"] == {DEVICES: 3}


@pytest.mark.parametrize(
    ("slices", "claims", "why"),
    [
        (None, [], "its claims do not hold what their templates request"),
        (None, [claim("uid-mine", "te1", "a", "b")], "its claims do not hold"),
        (None, [claim("uid-mine", "te1", "a", adminAccess=True)], "its claims do not hold"),
        (None, [claim("uid-mine", "te1", "a", reserved=["u"])], "others use its claim claim"),
        (None, [claim("uid-mine", "te2", "a")], f"its device {DRIVER}/te2/a is not counted"),
        ([tainted("a")], None, f"its device {DRIVER}/te1/a is not counted"),
    ],
)
def test_a_pod_that_does_not_hold_just_what_is_asked_stays(
    slices: Objects | None, claims: Objects | None, why: str
) -> None:
    world = World()
    if slices is not None:
        world.slices[0] = resource_slice("te1", devices=slices)
    if claims is not None:
        world.claims = claims
    assert world.why.startswith(why)


def test_a_pod_whose_pool_changes_stays() -> None:
    world = World()
    pool = {"name": "te1", "generation": 2, "resourceSliceCount": 2}
    world.slices.append(resource_slice("te1", "a", pool=pool))
    assert "changing pool" in world.why
    assert world.on["te1"] == {}


def test_what_is_not_known_is_named() -> None:
    world = World()
    world.classes = []
    assert world.why == "DeviceClass gpu is not known"
    world.templates = []
    assert world.why == "ResourceClaimTemplate gpu is not known"
    world.templates = [claim_template("gpu", {"allocationMode": "All"})]
    assert "allocationMode All" in world.why
    world = World()
    world.classes = [device_class("gpu", "true")]
    assert "desched does not evaluate its selector true" in world.why


def test_what_makes_a_driver_uncertain_keeps_all_its_pods() -> None:
    shared = resource_slice("", "x", in_pool="fabric", allNodes=True)
    del shared["spec"]["nodeName"]
    world = World()
    world.slices.append(shared)
    assert "desched does not evaluate its allNodes" in world.why
    world = World()
    selector = {"driver": DRIVER, "device": "a"}
    spec = {"taint": {"key": "k", "effect": "NoExecute"}, "deviceSelector": selector}
    world.rules = [{"metadata": {"name": "broken"}, "spec": spec}]
    assert world.why == "desched does not evaluate DeviceTaintRule broken"
    world.rules[0]["spec"]["deviceSelector"]["driver"] = "other.example.com"
    assert world.why == ""
    world.claims.append({"metadata": {"name": "c"}, "status": 7})
    assert "ResourceClaim c: it cannot be read" in world.why


def test_a_slice_of_another_driver_changes_nothing() -> None:
    world = World()
    world.slices.append(resource_slice("te1", "x", driver="other.example.com", in_pool="o"))
    world.slices.append(resource_slice("te1", driver="o2.example.com", allNodes=True))
    assert world.why == ""
    assert world.on["te1"] == {DEVICES: 2}


def with_types(world: World, *types: str) -> None:
    devices = [
        {"name": name, "attributes": {"type": {"string": each}}}
        for name, each in zip("abcd", types, strict=False)
    ]
    world.slices = [resource_slice(each, devices=devices) for each in ("te1", "te2")]


def test_classes_may_part_the_devices_of_a_driver_by_type() -> None:
    """As those of NVIDIA do: full GPUs beside parts of them."""
    world = World()
    world.classes = [device_class("gpu", TYPED), device_class("mig", TYPED.replace("gpu'", "mig'"))]
    with_types(world, "gpu", "mig", "mig")
    kinds = {f"{DEVICES}/gpu": 1, f"{DEVICES}/mig": 2}
    assert world.on == {"te1": kinds, "te2": kinds}
    assert world.counted[1]["mine"].scheduling.requests.extended == ((f"{DEVICES}/gpu", 1),)
    world.claims = [claim("uid-mine", "te1", "b")]
    assert world.why == "its claims do not hold what their templates request"


def test_a_class_of_all_devices_beside_one_of_a_type_is_uncertain() -> None:
    """Else two moves could count the same device."""
    world = World()
    with_types(world, "gpu", "gpu")
    world.classes.append(device_class("part", TYPED))
    assert world.why == "DeviceClass gpu: other classes select a part of its devices"


def test_a_class_by_type_needs_the_type_of_every_device() -> None:
    """CEL fails for a device without it."""
    world = World()
    world.classes = [device_class("gpu", TYPED)]
    assert world.why == f"pool te1 of {DRIVER} has a device without a type"


def test_two_classes_of_the_same_devices_share_them() -> None:
    world = World()
    world.classes.append(device_class("alias"))
    world.templates.append(claim_template("other", {"deviceClassName": "alias"}))
    world.pods.append(claiming("new", templates=("other",)))
    assert world.counted[1]["new"].scheduling.requests.extended == ((DEVICES, 1),)
    assert world.on["te2"] == {DEVICES: 2}


def test_the_channels_of_a_compute_domain_are_never_counted() -> None:
    """R3.4: ComputeDomain never alone."""
    world = World()
    world.classes = [device_class("gpu", f"device.driver == '{COMPUTE_DOMAINS}'")]
    assert world.why == "the pods of a ComputeDomain share their channels"


def test_a_claim_that_others_may_share_stays_as_it_is() -> None:
    world = World()
    shared = pod("mine", on="te1", has_resource_claims=True, uncounted_claims="shared")
    world.pods = [shared, claiming("other")]
    assert world.counted[1]["mine"] is shared
    assert CLAIMS_NOT_READ not in {each.uncounted_claims for each in world.counted[1].values()}
