import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr
from requests import PreparedRequest

from desched.adapters.prometheus.client import Samples
from desched.adapters.prometheus.connection import PrometheusConnection
from desched.lab.prometheus.block import Block, Grid, block_of
from desched.lab.prometheus.cache import KEPT, BlockCache

GRID = Grid(1000, 1900, 100)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def a_block(grid: Grid = GRID) -> Block:
    times = np.array([1000.0, 1200.0])
    return block_of(grid, [Samples({"pod": "ä", "node": "a"}, times, np.array([0.1, np.inf]))])


def cache(directory: Path, now: datetime = NOW, cluster: str = "[1.0]", **of: Any) -> BlockCache:
    connection = PrometheusConnection(**({"url": "http://localhost:9090"} | of))
    return BlockCache(directory, connection, cluster, now)


def token(subject: str, issued_at: int) -> SecretStr:
    """A token of an account, as API servers and identity providers give out."""
    claims = f'{{"iss": "https://issuer", "sub": "{subject}", "iat": {issued_at}}}'
    payload = urlsafe_b64encode(claims.encode()).decode().rstrip("=")
    return SecretStr(f"e30.{payload}.signature{issued_at}")


def signing(key: str, second: int) -> Callable[[PreparedRequest], None]:
    def sign(request: PreparedRequest) -> None:
        scope = f"Credential={key}/2026050{second}/eu/aps/aws4_request"
        request.headers["Authorization"] = f"AWS4-HMAC-SHA256 {scope}, Signature={second}"

    return sign


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", a_block())
    found = cache(tmp_path).find("up", GRID)
    assert found is not None
    assert (found.grid, list(found.labels)) == (GRID, [{"pod": "ä", "node": "a"}])
    assert found.firsts.tolist() == [0]
    assert found.values == pytest.approx([0.1, np.nan, np.inf], nan_ok=True)


def test_other_expressions_and_times_have_other_files(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", a_block())
    assert cache(tmp_path).find("down", GRID) is None
    assert cache(tmp_path).find("up", GRID._replace(end=1800)) is None


PASSWORD = {"password": SecretStr("p")}
CERTIFICATE = Path(__file__)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"cluster": "[2.0]"}),  # behind the same port that is forwarded
        ({}, {"url": "http://localhost:9091"}),
        ({}, {"url": "http://localhost:9090/other"}),
        ({"headers": {"X-Scope-OrgID": "a"}}, {"headers": {"X-Scope-OrgID": "b"}}),
        ({"username": "a"} | PASSWORD, {"username": "b"} | PASSWORD),
        ({"username": "a"} | PASSWORD, {"username": "a", "password": SecretStr("q")}),
        ({"url": "http://a:p@localhost:9090"}, {"url": "http://b:p@localhost:9090"}),
        ({"bearer_token": SecretStr("a")}, {"bearer_token": SecretStr("b")}),
        ({"bearer_token": token("a", 1)}, {"bearer_token": token("b", 1)}),
        ({"token_provider": lambda: "a"}, {"token_provider": lambda: "b"}),
        ({"sign": signing("a", 1)}, {"sign": signing("b", 1)}),
        (
            {"client_cert_file": CERTIFICATE},
            {"client_cert_file": CERTIFICATE.with_name("test_block.py")},
        ),
        ({}, {"bearer_token": SecretStr("a")}),
    ],
)
def test_another_cluster_server_or_account_finds_nothing(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any]
) -> None:
    cache(tmp_path, **one).keep("up", a_block())
    assert cache(tmp_path, **one).find("up", GRID) is not None
    assert cache(tmp_path, **other).find("up", GRID) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"bearer_token": token("a", 1)}, {"bearer_token": token("a", 2)}),
        ({"sign": signing("a", 1)}, {"sign": signing("a", 2)}),
    ],
)
def test_an_account_finds_its_files_with_new_credentials(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    cache(tmp_path, **before).keep("up", a_block())
    assert cache(tmp_path, **after).find("up", GRID) is not None


def test_no_empty_answer_is_kept(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", block_of(GRID, []))
    assert files(tmp_path) == []


def test_only_the_user_may_look(tmp_path: Path) -> None:
    cache(tmp_path / "new").keep("up", a_block())
    (file,) = files(tmp_path)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "new", file.parent, file)]
    assert modes == [0o700, 0o700, 0o600]


def test_a_directory_that_others_may_read_becomes_private(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", a_block())
    (file,) = files(tmp_path)
    file.parent.chmod(0o755)
    cache(tmp_path).keep("up", a_block())
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-3], lambda b: b"x" + b, lambda _: b""],
    ids=["cut off", "shifted", "empty"],
)
def test_a_damaged_file_is_as_good_as_none(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache(tmp_path).keep("up", a_block())
    (file,) = files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert cache(tmp_path).find("up", GRID) is None


def test_a_block_that_does_not_fit_its_times_is_as_good_as_none(tmp_path: Path) -> None:
    long = a_block()._replace(firsts=np.array([9]))
    cache(tmp_path).keep("up", long)
    assert cache(tmp_path).find("up", GRID) is None


def test_a_directory_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    blocked = cache(tmp_path / "file")
    blocked.keep("up", a_block())
    assert blocked.find("up", GRID) is None
    blocked.remove_old()


def test_files_that_nobody_uses_are_removed(tmp_path: Path) -> None:
    cache(tmp_path).keep("up", a_block())
    cache(tmp_path).keep("down", a_block())
    for file in files(tmp_path):
        os.utime(file, (NOW.timestamp(), NOW.timestamp()))
    later = cache(tmp_path, now=NOW + KEPT - timedelta(days=1))
    assert later.find("up", GRID) is not None
    cache(tmp_path, now=NOW + KEPT + timedelta(days=1)).remove_old()
    assert len(files(tmp_path)) == 1
    assert later.find("up", GRID) is not None
