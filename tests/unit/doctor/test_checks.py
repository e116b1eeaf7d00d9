"""Every check on every case, and what is true of all of them."""

import re
from collections import defaultdict
from itertools import chain
from pathlib import Path

import pytest
import yaml

from desched.cli.command import flags_of, load_command
from desched.cli.command_table import SUMMARIES
from desched.cli.setting_flags import SETTING_OF_FLAG
from desched.doctor.checks import Verdict
from desched.doctor.diagnosis import ORDER, diagnose
from desched.doctor.prometheus_address import NETWORK_POLICY_PORTS
from desched.policy_file.sections.default_evictor import DefaultProtection, ExtraProtection
from desched.policy_file.sections.root import DeschedulerPolicy
from desched.policy_file.sections.windows import Windows
from desched.policy_keys.section import places_of
from tests.repository import ROOT
from tests.stored_text import check_stored, sections
from tests.unit.doctor.cases import CASES
from tests.unit.doctor.examinations import examination

KUBECTL = {"apply", "auth", "create", "edit", "exec", "get", "port-forward", "taint", "version"}
OF_OTHERS = {
    "timedatectl",
    "consolidationPolicy",  # Karpenter
    "updateMode",  # the VPA
    "Initial",
    "maxUnavailable",  # PodDisruptionBudgets
    "minAvailable",
    "desched.io/evict",  # our annotation
    "node",  # a label of series
    "rights.podGroups",  # values of the chart
    "rights.modelCaches",
    "rights.networks",
    "rights.queues",
    "rights.volcanoConfiguration",
    "KUBERNETES_VIRTUAL_GPUS=true",  # a setting of DCGM's exporter
}
"""Words that a person must type elsewhere than in desched's policy or command line."""

WORDS = {*DefaultProtection, *ExtraProtection, *Windows.model_fields}


DIAGNOSES = [diagnose(case.examined) for case in CASES]
FIXES = sorted({check.fix for each in DIAGNOSES for check in each.checks if check.fix})


def test_a_check_gives_its_verdict_with_what_was_found_and_a_fix() -> None:
    of_checks: dict[str, str] = defaultdict(str)
    for case in CASES:
        found = case.check
        lines = (f"{found.verdict}: {found.found}", found.fix and f"→ {found.fix}", *found.details)
        of_checks[case.name] += "\n".join(filter(None, lines)) + "\n\n"
    check_stored(Path(__file__).with_name("found.txt"), sections(of_checks))


def test_where_all_is_well_it_is_safe_to_start() -> None:
    diagnosis = diagnose(examination())

    assert {check.verdict for check in diagnosis.checks} == {Verdict.OK}
    assert diagnosis.is_safe
    assert not diagnosis.is_invalid


def test_every_check_is_always_there_in_order_of_importance() -> None:
    for diagnosis in DIAGNOSES:
        assert [check.name for check in diagnosis.checks] == list(ORDER)


def test_only_problems_and_unknowns_are_unsafe() -> None:
    for diagnosis in DIAGNOSES:
        verdicts = {check.verdict for check in diagnosis.checks}
        assert diagnosis.is_safe is verdicts.isdisjoint({Verdict.PROBLEM, Verdict.UNKNOWN})


def test_whatever_is_not_well_has_a_fix() -> None:
    for check in chain.from_iterable(diagnosis.checks for diagnosis in DIAGNOSES):
        assert check.found.endswith((".", "?")), check
        if check.verdict not in {Verdict.OK, Verdict.SKIPPED}:
            assert "`" in check.fix, check
        assert not check.fix or check.fix[0].isupper(), check


def test_no_check_advises_what_is_running() -> None:
    """But the flag that writes a policy, and the same command in the pod of the Deployment."""
    others = "-- desched doctor", "desched doctor --write-policy FILE"
    for check in chain.from_iterable(diagnosis.checks for diagnosis in DIAGNOSES):
        advice = " ".join((check.found, check.fix, *check.details))
        assert advice.count("desched doctor") == sum(map(advice.count, others)), advice


def test_each_check_can_fail() -> None:
    failing = {Verdict.WARNING, Verdict.PROBLEM, Verdict.UNKNOWN}
    assert {case.name for case in CASES if case.check.verdict in failing} == set(ORDER)


@pytest.mark.parametrize("fix", FIXES)
def test_a_fix_names_commands_flags_keys_and_files_that_exist(fix: str) -> None:
    for named in re.findall(r"`([^`]+)`", fix):
        assert exists(named), named
    assert "--evict" not in fix


def exists(named: str) -> bool:
    words = named.split()
    if words[0] == "kubectl":
        return any(verb in words for verb in KUBECTL) and all(map(folder_exists, words))
    if words[0] == "desched":
        return command_exists(words[1:])
    if words[0].startswith("--"):
        return words[0].partition("=")[0] in SETTING_OF_FLAG
    if words[0].startswith("deploy/"):
        return folder_exists(words[0])
    key = re.split(r"[:\s]", named)[0]
    return key in OF_OTHERS or all(map(key_exists, key.split(".")))


def folder_exists(word: str) -> bool:
    return not word.startswith("deploy/") or (ROOT / word).exists()


def key_exists(key: str) -> bool:
    return bool(places_of(key, DeschedulerPolicy)) or key in WORDS


def command_exists(words: list[str]) -> bool:
    name = next(name for name in SUMMARIES if words[: len(name.split())] == name.split())
    accepted = set(chain.from_iterable(option.opts for option in flags_of(load_command(name))))
    flags = {word for word in words if word.startswith("-")}
    return flags <= accepted


def test_words_that_do_not_exist_are_noticed() -> None:
    for wrong in ("metrics.adress", "--prometheus-uri", "deploy/nothing", "kubectl frobnicate"):
        assert not exists(wrong), wrong
    assert not exists("desched doctor --write")
    with pytest.raises(StopIteration):
        exists("desched frobnicate")


def test_the_network_policy_allows_the_ports_that_the_check_knows() -> None:
    manifest = yaml.safe_load((ROOT / "deploy/base/network-policy.yaml").read_text())
    ports = {
        port["port"]
        for rule in manifest["spec"]["egress"]
        for port in rule["ports"]
        if port["protocol"] == "TCP"
    }
    assert ports - {53, 5353} == NETWORK_POLICY_PORTS


def test_the_policy_reference_that_is_named_exists() -> None:
    named = {path for case in CASES for path in re.findall(r"docs/[\w-]+\.md", case.check.fix)}
    assert named
    assert all(Path(ROOT / path).exists() for path in named)
