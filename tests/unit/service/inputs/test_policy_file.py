from importlib import resources

import pytest
from structlog.testing import capture_logs

from desched.errors import ConfigurationError
from desched.lab.demo import POLICY_FILE
from desched.policy_file.loading import load_policy
from desched.service.inputs.policy_file import PolicyFile, log_policy

GOOD = resources.files("desched.lab").joinpath(POLICY_FILE).read_text(encoding="utf-8")
OTHER = GOOD.replace("cpu: 80", "cpu: 70")
BAD = GOOD.replace("targetThresholds", "targetTresholds")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(GOOD)
    return file


@pytest.fixture
def policy_file(path):
    return PolicyFile(lambda: load_policy(path))


def look(policy_file):
    """What a cycle does that goes well."""
    reading = policy_file.mark_news(policy_file.read())
    policy_file.accept(reading)
    return reading


def trigger(reading):
    return max(rule.target_ratio for rule in reading.policy.rules if rule.resource == "cpu")


def test_an_edit_is_in_force_at_the_next_look_and_is_news_once(path, policy_file):
    assert trigger(look(policy_file)) == pytest.approx(0.8)
    assert not look(policy_file).news
    path.write_text(OTHER)
    reading = look(policy_file)
    assert reading.news
    assert reading.changes == ("targetThresholds.cpu: 80 % → 70 %",)
    with capture_logs() as logs:
        log_policy(reading)
    assert logs[0]["changes"] == ["targetThresholds.cpu: 80 % → 70 %"]
    assert trigger(reading) == pytest.approx(0.7)
    assert look(policy_file).changes == ()


def test_a_bad_edit_and_its_repair_change_nothing(path, policy_file):
    look(policy_file)
    path.write_text(BAD)
    assert look(policy_file).changes == ()
    path.write_text(f"# mended\n{GOOD}")
    assert look(policy_file).changes == ()


def test_a_bad_edit_keeps_the_last_good_policy_and_is_news_once(path, policy_file):
    look(policy_file)
    path.write_text(BAD)
    reading = look(policy_file)
    assert reading.news
    assert "targetTresholds" in reading.problem
    assert trigger(reading) == pytest.approx(0.8)
    assert not look(policy_file).news


def test_another_bad_edit_is_news_again_and_so_is_the_mended_file(path, policy_file):
    look(policy_file)
    path.write_text(BAD)
    look(policy_file)
    path.write_text("{")
    assert look(policy_file).news
    path.write_text(GOOD)
    reading = look(policy_file)
    assert reading.news
    assert reading.problem == ""


def test_a_file_that_vanishes_is_a_bad_edit(path, policy_file):
    look(policy_file)
    path.unlink()
    reading = look(policy_file)
    assert reading.problem
    assert trigger(reading) == pytest.approx(0.8)


def test_between_cycles_only_a_changed_file_counts_as_an_edit(path, policy_file):
    look(policy_file)
    assert policy_file.read_edit() is None
    path.write_text(f"# a comment\n{GOOD}")
    assert policy_file.read_edit() is None
    path.write_text(OTHER)
    assert trigger(policy_file.read_edit()) == pytest.approx(0.7)
    assert policy_file.read_edit() is None
    path.write_text(BAD)
    assert "targetTresholds" in policy_file.read_edit().problem
    assert policy_file.read_edit() is None


def test_an_edit_that_no_cycle_ran_with_yet_stays_in_force_after_a_bad_one(path, policy_file):
    look(policy_file)
    path.write_text(OTHER)
    policy_file.read_edit()
    path.write_text(BAD)
    assert trigger(policy_file.read_edit()) == pytest.approx(0.7)
    assert trigger(look(policy_file)) == pytest.approx(0.7)


def test_the_first_edit_shows_what_changed_though_no_cycle_ran(path, policy_file):
    policy_file.read()
    path.write_text(OTHER)
    edit = policy_file.mark_news(policy_file.read_edit())
    assert edit.changes == ("targetThresholds.cpu: 80 % → 70 %",)


def test_a_first_policy_that_is_bad_is_refused(path, policy_file):
    path.write_text(BAD)
    with pytest.raises(ConfigurationError, match="targetTresholds"):
        policy_file.read()


def test_the_swapped_symlinks_of_a_mounted_configmap_are_followed(tmp_path):
    for name, text in (("v1", GOOD), ("v2", OTHER)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(text)
    data = tmp_path / "..data"
    data.symlink_to("v1")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    policy_file = PolicyFile(lambda: load_policy(tmp_path / "policy.yaml"))
    assert trigger(look(policy_file)) == pytest.approx(0.8)
    swapped = tmp_path / "..data_tmp"
    swapped.symlink_to("v2")
    swapped.rename(data)
    assert trigger(look(policy_file)) == pytest.approx(0.7)


def test_a_policy_that_does_not_suit_the_cluster_gives_way_to_the_last_good_one(path, policy_file):
    look(policy_file)
    path.write_text(OTHER)
    edited = policy_file.read()
    reading = policy_file.refuse(edited.policy, ConfigurationError("No such PriorityClass."))
    assert reading.problem == "No such PriorityClass."
    assert trigger(reading) == pytest.approx(0.8)
    assert policy_file.read_edit() is None
    path.write_text(BAD)
    assert trigger(policy_file.read_edit()) == pytest.approx(0.8)


def test_without_another_policy_the_error_stands(policy_file):
    error = ConfigurationError("No such PriorityClass.")
    first = policy_file.read()
    with pytest.raises(ConfigurationError, match="No such PriorityClass"):
        policy_file.refuse(first.policy, error)
    policy_file.accept(first)
    with pytest.raises(ConfigurationError, match="No such PriorityClass"):
        policy_file.refuse(first.policy, error)


def test_a_refused_edit_is_logged_loudly_and_once(path, policy_file):
    look(policy_file)
    path.write_text(BAD)
    with capture_logs() as lines:
        log_policy(look(policy_file))
        log_policy(look(policy_file))
    (line,) = lines
    assert line["event"] == "policy.refused"
    assert line["log_level"] == "error"
    assert "targetTresholds" in line["problem"]


def test_a_loaded_policy_and_its_warnings_are_logged(path, policy_file):
    path.write_text(GOOD.replace("nodeFit: true", "nodeFit: false"))
    with capture_logs() as lines:
        log_policy(look(policy_file))
    assert lines[0]["event"] == "policy.loaded"
    assert any(line["event"] == "policy.warned" and "nodeFit" in line["warning"] for line in lines)
