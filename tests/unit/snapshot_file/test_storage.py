import gzip
import io
import json
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from desched.errors import ConfigurationError
from desched.model.load import DeviceUsage, PodUsage
from desched.plugins.gpus.load import GpuLoad
from desched.snapshot_file import storage
from desched.snapshot_file.content import SnapshotContent
from desched.snapshot_file.document import encode
from desched.snapshot_file.load_check import own_policy
from desched.snapshot_file.storage import load_snapshot, save_snapshot, write_snapshot
from tests.builders import NOW
from tests.properties.rich_clusters import POLICY, RichCluster


def content(seed: int = 1) -> SnapshotContent:
    cluster = RichCluster(seed)
    return SnapshotContent(cluster.snapshot(), cluster.state(), *POLICY, target="test")


def written(path: Path, text: bytes) -> Path:
    path.write_bytes(gzip.compress(text))
    return path


def problem(path: Path) -> str:
    with pytest.raises(ConfigurationError) as error:
        load_snapshot(path)
    assert str(error.value).startswith(f"{path}: ")
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "now.snapshot"
    path.write_text("an older file")

    save_snapshot(content(), path)

    assert load_snapshot(path) == content()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["now.snapshot"]


def test_the_usage_of_gpus_is_kept_and_must_be_over_the_windows_of_the_policy(
    tmp_path: Path,
) -> None:
    found = content()
    gpus = GpuLoad({}, {"apps": {"a": DeviceUsage((0.5,), (0.25,))}}).extras
    seen = replace(found.snapshot, load=replace(found.snapshot.load, extras=gpus))
    save_snapshot(replace(found, snapshot=seen), tmp_path / "s")

    loaded = load_snapshot(tmp_path / "s")

    assert loaded.snapshot.load.extras == gpus
    with pytest.raises(ConfigurationError, match="was not measured for its policy"):
        own_policy(loaded, "s")


def test_equal_contents_give_equal_files() -> None:
    first, second = io.BytesIO(), io.BytesIO()

    write_snapshot(content(), first)
    write_snapshot(content(), second)

    assert first.getvalue() == second.getvalue()


def test_pods_of_a_workload_share_what_they_have_in_common(tmp_path: Path) -> None:
    save_snapshot(content(), tmp_path / "s")

    pods = load_snapshot(tmp_path / "s").snapshot.cluster.pods

    assert len({id(pod.scheduling) for pod in pods}) == len({pod.scheduling for pod in pods})
    assert len({id(pod.labels) for pod in pods}) < len(pods)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written: No such file"):
        save_snapshot(content(), tmp_path / "missing" / "s")
    (tmp_path / "a-directory").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be written: Is a directory"):
        save_snapshot(content(), tmp_path / "a-directory")

    assert [each.name for each in tmp_path.iterdir()] == ["a-directory"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in problem(tmp_path / "s")
    assert "cannot be read: Is a directory" in problem(tmp_path)


def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for text in (b"", b"apiVersion: v1", b"\x1f\x8b\x08 broken"):
        path.write_bytes(text)
        assert "no snapshot of desched" in problem(path) or "cut off" in problem(path)
    assert "no snapshot of desched" in problem(written(path, b"{}"))
    assert "no snapshot of desched" in problem(written(path, b'{"format": "else/v1"}'))
    assert "no snapshot of desched" in problem(written(path, b"\xff\xfe"))
    assert "no snapshot of desched" in problem(written(path, b"[" * 100_000))


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    save_snapshot(content(), path)
    path.write_bytes(path.read_bytes()[:-100])

    assert "this snapshot is cut off" in problem(path)


def test_a_file_with_another_checksum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    save_snapshot(content(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + b"\0\0\0\0" + whole[-4:])

    assert "damaged" in problem(path)


def test_a_bomb_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LARGEST_BYTES", 2**20)
    path = written(tmp_path / "s", encode(content()) + b" " * 2**21)

    assert "more than 1 MiB when decompressed" in problem(path)
    monkeypatch.setattr(storage, "LARGEST_BYTES", 1000)
    with pytest.raises(ConfigurationError, match="more than the 0 MiB"):
        write_snapshot(content(), io.BytesIO())


@pytest.mark.parametrize("version", ["v1", "v3"])
def test_another_format_is_named_with_its_version(tmp_path: Path, version: str) -> None:
    text = f'{{"format": "desched.io/snapshot/{version}", "written_by": "3.1.0"}}'
    found = problem(written(tmp_path / "s", text.encode()))

    assert f"its format is desched.io/snapshot/{version}, written by desched 3.1.0" in found
    assert "use the version that wrote it" in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"cpu_millicores":4000', '"cpu_millicores":-4000'),
        ('"cpu_millicores":4000', '"cpu_millicores":4e30'),
        ('"cpu_millicores":4000', '"cpu_millicores":"4"'),
        ('"cpu_millicores":4000', '"cpu_millicores":NaN'),
        ('"ratio":', '"ratio":-'),
        ('"ratio":', '"ratio":1e999,"was":'),
        ('"desired_replicas":', '"desired_replicas":-'),
        ('"priority":50', '"priority":99999999999'),
        ('"max_skew":2', '"max_skew":99999999999'),
        ('"taken_at":"2026-05-01T12:00:00Z"', '"taken_at":"2026-05-01T12:00:00"'),
        ('"taken_at":"2026', '"taken_at":"9999'),
        ('"started_at":"2026-05-01T10:03:20Z"', '"started_at":"2026-05-01T10:03:20"'),
        ('"taken_at":"2026', '"taken_at":"0001'),
        ('"may_steer":true', '"may_steer":"yes"'),
        ('"version":1,"state"', '"version":9,"state"'),
        ('"type":"measured"', '"type":"guessed"'),
        ('"name":"acme-node-1"', '"name":"acme-node-0"'),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str) -> None:
    texts = (encode(content(seed)).decode() for seed in range(50))
    text = next(text for text in texts if old in text)

    found = problem(written(tmp_path / "s", text.replace(old, new).encode()))

    assert "this snapshot cannot be used" in found


def test_load_of_other_windows_than_its_policy_has_is_refused() -> None:
    right = content()
    usage = {key: PodUsage((1.0,), (1.0,)) for key in right.snapshot.load.pods}
    load = replace(right.snapshot.load, pods=usage)
    wrong = replace(right, snapshot=replace(right.snapshot, load=load))

    assert own_policy(right, "s").longest_window_seconds == 900
    with pytest.raises(ConfigurationError, match=r"s: .* its load was not measured for its policy"):
        own_policy(wrong, "s")


def test_a_policy_that_this_desched_refuses_is_named_with_its_file() -> None:
    wrong = replace(content(), policy_text="kind: Pod")

    with pytest.raises(ConfigurationError, match=r"policy.yaml in s:1"):
        own_policy(wrong, "s")


def test_the_file_is_json_that_people_can_read(tmp_path: Path) -> None:
    save_snapshot(content(), tmp_path / "s")

    document = json.loads(gzip.decompress((tmp_path / "s").read_bytes()))

    assert document["format"] == "desched.io/snapshot/v2"
    assert document["taken_at"] == NOW.isoformat().replace("+00:00", "Z")
    assert {"nodes", "pods", "workloads"} <= document["cluster"].keys()
