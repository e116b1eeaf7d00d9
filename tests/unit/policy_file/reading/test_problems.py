"""One case for each thing that a person can get wrong: where it is said to be, and how."""

from typing import Any

import pytest

from desched.policy_file.upstream_plugins import COUNTERPARTS, UPSTREAM_PLUGINS
from tests.unit.policy_file.published import PUBLISHED, PUBLISHED_TEXT, REMOVED, published, refusal

ARGS = "profiles[0].pluginConfig[1].args"
EVICTOR = "profiles[0].pluginConfig[0].args"


def metrics(**keys):
    return published(load_aware={"metrics": {"type": "prometheus", **keys}})


def profile(**keys):
    return {**PUBLISHED, "profiles": [{**PUBLISHED["profiles"][0], **keys}]}


LOAD_AWARE_CASES: dict[str, tuple[Any, str]] = {
    "metrics.type is null": (
        {"metrics": {"type": None}},
        f"{ARGS}.metrics.type: is null, so there is no load to act on",
    ),
    "metrics.type is missing": (
        {"metrics": {"address": "http://prometheus"}},
        f'{ARGS}.metrics.type: is missing; write "type: prometheus".',
    ),
    "metrics are missing": ({"metrics": REMOVED}, f"{ARGS}.metrics: is missing; write "),
    "another type": (
        {"metrics": {"type": "datadog"}},
        'found "datadog", allowed are "prometheus", "metrics-server" and "prometheus_adaptor".',
    ),
    "a threshold above its target": (
        {"thresholds": {"cpu": 90, "memory": 30}},
        f"{ARGS}.thresholds.cpu: found 90, which is above targetThresholds.cpu (80)",
    ),
    "a resource without a low threshold": (
        {"thresholds": {"cpu": 30}},
        f"{ARGS}.thresholds: has no memory, but targetThresholds has",
    ),
    "a resource without a target": (
        {"thresholds": {"cpu": 30, "memory": 30, "pods": 5}},
        f"{ARGS}.targetThresholds: has no pods, but thresholds has",
    ),
    "an owner kind with a version": (
        {"understoodOwnerKinds": ["argoproj.io/v1alpha1/Rollout"]},
        (
            f'{ARGS}.understoodOwnerKinds[0]: found "argoproj.io/v1alpha1/Rollout", group and kind '
            'are allowed, without a version: "argoproj.io/Rollout"'
        ),
    ),
    "an owner kind with a version as its group": (
        {"understoodOwnerKinds": ["v1/ReplicationController"]},
        f'{ARGS}.understoodOwnerKinds[0]: found "v1/ReplicationController", group and kind are',
    ),
    "an owner kind in lower case": (
        {"understoodOwnerKinds": ["rollouts.argoproj.io"]},
        f'{ARGS}.understoodOwnerKinds[0]: found "rollouts.argoproj.io", group and kind are',
    ),
    "an owner kind that is a list": (
        {"understoodOwnerKinds": [["argoproj.io/Rollout"]]},
        f"{ARGS}.understoodOwnerKinds[0]: found a list, group and kind are allowed",
    ),
    "no threshold at all": ({"thresholds": {}}, f"{ARGS}.thresholds: is empty"),
    "an unknown resource": (
        {"thresholds": {"cpus": 30, "memory": 30}},
        (
            f"{ARGS}.thresholds.cpus: unknown resource, allowed are cpu, memory, gpu, pods; "
            'did you mean "cpu"?'
        ),
    ),
    "a resource by its name in Kubernetes": (
        {"thresholds": {"nvidia.com/gpu": 30, "memory": 30}},
        'pods; did you mean "gpu"?',
    ),
    "further windows for GPUs": (
        {"destinationWindows": {"gpu": [{"window": "1h"}]}},
        f"{ARGS}.destinationWindows.gpu: GPUs have no such windows; remove it,",
    ),
    "a text in place of a mapping": (
        {"placementDomains": "Require"},
        'found "Require", allowed is a mapping, for example "placementDomains: {mode: Prefer}".',
    ),
    "a priority in place of a mapping": (
        {"priorityThreshold": "high"},
        'found "high", allowed is a mapping, for example "priorityThreshold: {name: high}".',
    ),
    "a list that is not one of lists": (
        {"placementDomains": {"levels": ["zone"]}},
        (
            f'{ARGS}.placementDomains.levels[0]: found "zone", allowed is a list, for example '
            '"levels: [[topology.kubernetes.io/zone], [example.com/block], [example.com/rack]]".'
        ),
    ),
    "a percentage below zero": (
        {"thresholds": {"cpu": -1, "memory": 30}},
        f"{ARGS}.thresholds.cpu: found -1, allowed is 0 or more.",
    ),
    "a percentage above a hundred": (
        {"targetThresholds": {"cpu": 101, "memory": 85}},
        f"{ARGS}.targetThresholds.cpu: found 101, allowed is at most 100.",
    ),
    "a threshold in quotes": (
        {"thresholds": {"cpu": "30", "memory": 30}},
        f'{ARGS}.thresholds.cpu: found "30", allowed is a number; write the number without quotes.',
    ),
    "a threshold that is null": (
        {"thresholds": {"cpu": None, "memory": 30}},
        f"{ARGS}.thresholds.cpu: found null, allowed is a number from 0 to 100.",
    ),
    "a fraction for a percentage": (
        {"targetThresholds": {"cpu": 0.8, "memory": 85}},
        f"{ARGS}.targetThresholds.cpu: found 0.8, which is less than one percent; write 80 for 80",
    ),
    "a percentage for a probability": (
        {"maxLandingRisk": 15},
        f"{ARGS}.maxLandingRisk: found 15, allowed is from 0 to 1; write 0.15 for 15 %.",
    ),
    "a fraction for a limit": (
        {"evictionLimits": {"total": 0.05}},
        'a percentage above 0 such as "10%"; write "5%".',
    ),
    "a placeholder that nothing filled in": (
        {"metrics": {"type": "prometheus", "address": "http://${PROMETHEUS}:9090"}},
        f'{ARGS}.metrics.address: holds "${{PROMETHEUS}}", which nothing has filled in',
    ),
    "a placeholder in place of a number": (
        {"targetThresholds": {"cpu": "{{ .Values.cpu }}", "memory": 85}},
        f'{ARGS}.targetThresholds.cpu: holds "{{{{ .Values.cpu }}}}", which nothing has filled in',
    ),
    "namespaces both included and excluded": (
        {"evictableNamespaces": {"include": ["web"], "exclude": ["db"]}},
        f"{ARGS}.evictableNamespaces: has include and exclude; give one of them",
    ),
    "a pattern as a namespace": (
        {"evictableNamespaces": {"exclude": ["kube-*"]}},
        f'{ARGS}.evictableNamespaces.exclude[0]: found "kube-*", the exact name',
    ),
    "a duration in words": (
        {"duration": "5 minutes"},
        f'{ARGS}.duration: "5 minutes" is not a duration; write "5m".',
    ),
    "a duration without a unit": (
        {"duration": "300"},
        f'{ARGS}.duration: "300" has no unit; write "300s" for seconds',
    ),
    "a duration that is a number": (
        {"duration": 300},
        f'{ARGS}.duration: found 300, a duration is a text such as "5m"; write "300s"',
    ),
    "a window of more than a day": (
        {"windows": {"cpu": ["5m", "25h"]}},
        f'{ARGS}.windows.cpu: found a window of "25h"',
    ),
    "no window": (
        {"windows": {"cpu": []}},
        f"{ARGS}.windows.cpu: found an empty list, allowed is a list of at least one, for",
    ),
    "a window for pods, which are counted": (
        {"windows": {"pods": "5m"}},
        f"{ARGS}.windows.pods: unknown key, allowed are cpu, memory, gpu.",
    ),
    "a misspelt key": (
        {"tresholds": {"cpu": 30}},
        f'{ARGS}.tresholds: unknown key; did you mean "thresholds"?',
    ),
    "a key of another section": (
        {"minReplicas": 2},
        f"{ARGS}.minReplicas: does not belong here; it is a key of the args of DefaultEvictor.",
    ),
    "a key of Koordinator's plugin": (
        {"highThresholds": {"cpu": 80}},
        (
            f"{ARGS}.highThresholds: is a key of LowNodeLoad of Koordinator's descheduler; "
            "it is called targetThresholds here."
        ),
    ),
    "a stop margin of zero": (
        {"stopMargin": 0},
        f"{ARGS}.stopMargin: found 0, relief must end under the target",
    ),
    "a ceiling margin of zero": (
        {"ceilingMargin": 0},
        f"{ARGS}.ceilingMargin: found 0, relief must end under the target",
    ),
    "a ceiling above the stop line": (
        {"stopMargin": 12, "ceilingMargin": 10},
        f"{ARGS}.ceilingMargin: found 10, which is less than stopMargin (12)",
    ),
    "a stop margin that empties nodes": (
        {"stopMargin": 51},
        (
            f"{ARGS}.stopMargin: found 51, so that relief would end at 29 percent, below "
            "thresholds.cpu (30); give at most 50."
        ),
    ),
    "a ceiling below zero": (
        {"ceilingMargin": 82},
        f"{ARGS}.ceilingMargin: found 82, which is more than targetThresholds.cpu (80)",
    ),
    "a broken limit": (
        {"evictionLimits": {"total": 1.5}},
        f"{ARGS}.evictionLimits.total: found 1.5, allowed is a whole number, or a",
    ),
    "a yes that is a number": (
        {"useDeviationThresholds": 1},
        f"{ARGS}.useDeviationThresholds: found 1, allowed is true or false.",
    ),
    "a selector that is not one": (
        {"nodeSelector": "pool=web,,zone"},
        f'{ARGS}.nodeSelector: "pool=web,,zone" is not a label selector: "" is not a condition',
    ),
    "a selector object in place of a text": (
        {"nodeSelector": {"matchLabels": {"pool": "web"}}},
        f"{ARGS}.nodeSelector: found a mapping, a selector text",
    ),
    "a label selector without values": (
        {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "In"}]}},
        f"{ARGS}.labelSelector: the operator In needs at least one value.",
    ),
    "a label selector with values too many": (
        {
            "labelSelector": {
                "matchExpressions": [{"key": "a", "operator": "Exists", "values": [""]}]
            }
        },
        f"{ARGS}.labelSelector: the operator Exists takes no values.",
    ),
    "a label selector that compares numbers": (
        {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
        f'{ARGS}.labelSelector.matchExpressions[0].operator: found "Gt", allowed is In, NotIn',
    ),
}


@pytest.mark.parametrize("case", LOAD_AWARE_CASES)
def test_a_mistake_in_the_args_of_load_aware_gets_its_own_sentence(case):
    changes, sentence = LOAD_AWARE_CASES[case]
    assert sentence in refusal(published(load_aware=changes))


METRICS_CASES: dict[str, tuple[Any, str]] = {
    "an address without a scheme": (
        {"address": "prometheus:9090"},
        'metrics.address: found "prometheus:9090", which is not an http or https URL',
    ),
    "an address with a broken port": (
        {"address": "http://prometheus:port"},
        "which is not an http or https URL",
    ),
    "an address with a query": ({"address": "http://p/?x=1"}, 'a URL without "?" and "#"'),
    "a password": (
        {"address": "http://admin:secret@prometheus"},
        "metrics.address: holds a user name or password",
    ),
    "a label that is none": (
        {"matchers": {"my-cluster": "a"}},
        "metrics.matchers.my-cluster: is not the name of a label",
    ),
    "a matcher that is a number": (
        {"matchers": {"cluster": 7}},
        "metrics.matchers.cluster: found 7, allowed is a text; quote it",
    ),
    "a query with a fixed window": (
        {"queries": {"nodeCPU": 'rate(busy{job="a:b"}[5m])'}},
        "metrics.queries.nodeCPU: has no {window}; write it in place of the range",
    ),
    "a misspelt query": (
        {"queries": {"nodeCpu": "x"}},
        (
            "metrics.queries.nodeCpu: unknown key, allowed are nodeCPU, nodeMemory, podCPU, "
            'podMemory, nodeCPUDestination, nodeMemoryDestination; did you mean "nodeCPU"?'
        ),
    ),
}


@pytest.mark.parametrize("case", METRICS_CASES)
def test_a_mistake_in_metrics_gets_its_own_sentence(case):
    keys, sentence = METRICS_CASES[case]
    assert f"{ARGS}." in refusal(metrics(**keys))
    assert sentence in refusal(metrics(**keys))


@pytest.mark.parametrize(
    "address",
    [
        "http://admin:secret@prometheus",
        "http://admin:secret#1@prometheus",
        "http://admin:secret/1@prometheus",
        "http://admin:[secret@prometheus",
        "admin:secret@prometheus",
        "http://prometheus/?token=secret",
        "htp://prometheus/?token=secret",
    ],
)
def test_a_refused_password_is_not_repeated(address):
    assert "secret" not in refusal(metrics(address=address))


EVICTOR_CASES: dict[str, tuple[Any, str]] = {
    "a priority by value and by name": (
        {"priorityThreshold": {"value": 5, "name": "high"}},
        f'{EVICTOR}.priorityThreshold: has a value (5) and a name ("high"); give one of them.',
    ),
    "a priority above the highest": (
        {"priorityThreshold": {"value": 2_000_000_001}},
        f"{EVICTOR}.priorityThreshold.value: found 2000000001, allowed is at most 2000000000.",
    ),
    "two forms of the same": (
        {"podProtections": {"extraEnabled": ["PodsWithoutPDB"]}},
        f"{EVICTOR}.ignorePvcPods: ignorePvcPods and the lists of podProtections are two forms",
    ),
    "an unknown protection": (
        {"podProtections": {"extraEnabled": ["PodsWithPCV"]}},
        (
            f'{EVICTOR}.podProtections.extraEnabled[0]: found "PodsWithPCV", allowed is '
            'PodsWithPVC, PodsWithoutPDB, PodsWithResourceClaims; did you mean "PodsWithPVC"?'
        ),
    ),
    "a protection twice": (
        {
            "ignorePvcPods": REMOVED,
            "podProtections": {"extraEnabled": ["PodsWithPVC", "PodsWithPVC"]},
        },
        f"{EVICTOR}.podProtections.extraEnabled[1]: PodsWithPVC is listed twice",
    ),
    "a storage class without a name": (
        {
            "podProtections": {
                "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": ""}]}}
            }
        },
        'protectedStorageClasses[0].name: found "", allowed is a text that is not empty.',
    ),
    "an unknown no-eviction policy": (
        {"noEvictionPolicy": "mandatory"},
        (
            f'{EVICTOR}.noEvictionPolicy: found "mandatory", allowed is Preferred, Mandatory; '
            'did you mean "Mandatory"?'
        ),
    ),
}


@pytest.mark.parametrize("case", EVICTOR_CASES)
def test_a_mistake_in_the_args_of_default_evictor_gets_its_own_sentence(case):
    changes, sentence = EVICTOR_CASES[case]
    assert sentence in refusal(published(evictor=changes))


def test_two_thresholds_of_which_one_needs_the_cluster_to_be_known_are_refused():
    text = refusal(published(load_aware={"priorityThreshold": {"name": "high"}}))
    assert "only the cluster knows which is lower; give it once" in text


PROFILE_CASES = {
    "no profile": ({**PUBLISHED, "profiles": []}, "profiles: there is no profile"),
    "profiles missing": (published(profiles=REMOVED), 'profiles: is missing; write "profiles:"'),
    "nothing enabled": (
        profile(plugins={}, pluginConfig=[]),
        "profiles: no profile enables LoadAware",
    ),
    "configured but not enabled": (
        profile(plugins={}),
        "profiles[0].plugins: LoadAware is configured but not enabled",
    ),
    "enabled but not configured": (
        profile(pluginConfig=[]),
        "profiles[0]: LoadAware is enabled but not configured",
    ),
    "configured twice": (
        profile(
            pluginConfig=[*PUBLISHED["profiles"][0]["pluginConfig"], {"name": "DefaultEvictor"}]
        ),
        "profiles[0].pluginConfig[2]: DefaultEvictor is configured twice",
    ),
    "at the wrong extension point": (
        profile(plugins={"deschedule": {"enabled": ["LoadAware"]}}),
        (
            "profiles[0].plugins.deschedule.enabled[0]: LoadAware does nothing at this extension "
            "point; enable it at balance."
        ),
    ),
    "enabled and disabled": (
        profile(plugins={"balance": {"enabled": ["LoadAware"], "disabled": ["LoadAware"]}}),
        "LoadAware is enabled and disabled at once",
    ),
    "a misspelt plugin": (
        profile(plugins={"balance": {"enabled": ["LoadAwar"]}}),
        (
            'found "LoadAwar", which is no plugin that desched has; allowed are LoadAware, '
            'GpuFragmentation, DefaultEvictor; did you mean "LoadAware"?'
        ),
    ),
    "a misspelt plugin's configuration": (
        profile(pluginConfig=[{"name": "DefaultEvicter"}]),
        (
            'profiles[0].pluginConfig[0].name: found "DefaultEvicter", which is no plugin that '
            "desched has; allowed are LoadAware, GpuFragmentation, DefaultEvictor; did you mean "
            '"DefaultEvictor"?'
        ),
    ),
    "a configuration without a name": (
        profile(pluginConfig=[{"args": {}}]),
        "profiles[0].pluginConfig[0].name: is missing: the plugin.",
    ),
    "args beside args": (
        profile(pluginConfig=[{"name": "DefaultEvictor", "nodeFit": True}]),
        (
            "profiles[0].pluginConfig[0].nodeFit: does not belong here; it is a key of the args of "
            "LoadAware and of the args of DefaultEvictor."
        ),
    ),
    "a list in place of a plugin's name": (
        profile(pluginConfig=[{"name": []}]),
        "profiles[0].pluginConfig[0].name: found an empty list, which is no plugin",
    ),
    "a setting in the policy": (
        {**PUBLISHED, "dryRun": True},
        "dryRun: is a setting, not part of the policy; start desched with --dry-run.",
    ),
    "a key of kubernetes-sigs": (
        {**PUBLISHED, "gracePeriodSeconds": 10},
        "gracePeriodSeconds: is a key of kubernetes-sigs/descheduler; desched always leaves",
    ),
}


@pytest.mark.parametrize("case", PROFILE_CASES)
def test_a_mistake_around_the_profiles_gets_its_own_sentence(case):
    document, sentence = PROFILE_CASES[case]
    assert sentence in refusal(document)


@pytest.mark.parametrize("plugin", sorted(COUNTERPARTS))
def test_a_plugin_that_load_aware_stands_in_for_is_refused_with_that(plugin):
    text = refusal(profile(plugins={"balance": {"enabled": [plugin]}}))
    advice = "`desched policy convert` translates it to LoadAware."
    assert f"{plugin} is a plugin of {UPSTREAM_PLUGINS[plugin]}; {advice}" in text


@pytest.mark.parametrize("plugin", sorted(UPSTREAM_PLUGINS.keys() - COUNTERPARTS))
def test_an_enabled_plugin_of_others_is_refused_with_the_name_of_who_runs_it(plugin):
    text = refusal(profile(plugins={"balance": {"enabled": ["LoadAware", {"name": plugin}]}}))
    assert (
        f"profiles[0].plugins.balance.enabled[1]: {plugin} is a plugin of "
        f"{UPSTREAM_PLUGINS[plugin]}, which can run it beside desched; desched does not have it"
    ) in text


def test_each_plugin_of_others_is_put_down_to_those_who_have_it():
    assert UPSTREAM_PLUGINS["LowNodeLoad"] == "Koordinator's descheduler"
    assert "Volcano" in UPSTREAM_PLUGINS["LowNodeUtilization"]


def test_all_mistakes_are_listed_each_with_its_own_line_in_the_outer_file():
    text = PUBLISHED_TEXT.replace("type: Prometheus", "type: null").replace(
        "nodeFit: true", "nodeFitt: true"
    )
    lines = text.splitlines()
    problems = refusal(text).splitlines()
    pointed_at = [lines[int(problem.split(":")[1]) - 1].strip() for problem in problems]
    assert pointed_at == ["nodeFitt: true", "type: null"]


def test_a_missing_key_points_to_the_section_that_lacks_it():
    text = PUBLISHED_TEXT.replace("          thresholds:", "          evictionLimits:").replace(
        "            cpu: 30\n            memory: 30\n", "            total: 1\n"
    )
    section = PUBLISHED_TEXT.splitlines().index("      - args:", 15)
    missing = next(line for line in refusal(text).splitlines() if "is missing" in line)
    assert int(missing.split(":")[1]) == section + 1


def test_a_misspelt_key_is_not_reported_as_missing_too():
    (line,) = refusal(PUBLISHED_TEXT.replace("targetThresholds", "targetTresholds")).splitlines()
    assert line.endswith('did you mean "targetThresholds"?')


def test_a_key_that_would_break_the_line_is_spelt_out():
    text = refusal({**PUBLISHED, "a\nb\x1b[1m": 1, "": 2})
    assert r'policy.yaml:1: "a\nb\x1b[1m": unknown key' in text
    assert 'policy.yaml:1: "": unknown key' in text
    assert len(text.splitlines()) == 2


def test_a_flood_of_mistakes_is_cut_short_and_counted():
    lines = refusal({**PUBLISHED, **{f"key{n:03}": 1 for n in range(200)}}).splitlines()
    assert len(lines) == 31
    assert lines[-1] == "… and 170 more problems."
