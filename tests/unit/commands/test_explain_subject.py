"""What `desched explain` is asked about, in the forms of kubectl."""

from typing import Any

import pytest

from desched.cli.command import Invocation
from desched.commands import explain
from desched.errors import ConfigurationError
from desched.settings import load_settings
from desched.views.explained.subject import Subject, SubjectKind

WEB = Subject(SubjectKind.WORKLOAD, "web", "shop", "Deployment")


@pytest.fixture
def connect(mocker) -> Any:
    connected = mocker.patch.object(explain, "connect", autospec=True)
    connected.return_value.namespace = "of-context"
    return connected


def subject(**flags: str) -> Subject:
    return explain.subject_of(Invocation(flags, {}), load_settings({}))


def test_the_namespace_is_that_of_the_flag(connect: Any) -> None:
    assert subject(kind="deployment/web", namespace="shop") == WEB
    assert subject(kind="deployment.apps", name="shop/web", namespace="shop") == WEB
    assert subject(kind="node/te3", namespace="shop") == Subject(SubjectKind.NODE, "te3")
    assert not connect.called


def test_without_one_it_is_that_of_the_context(connect: Any) -> None:
    assert subject(kind="pod", name="web-1") == Subject(SubjectKind.POD, "web-1", "of-context")
    assert connect.call_count == 1


@pytest.mark.parametrize("where", [{"snapshot": "f"}, {"service": "http://localhost:10280"}])
def test_a_file_and_a_url_have_no_context(connect: Any, where: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="Name the pod with its namespace"):
        subject(kind="pod/web-1", **where)
    assert not connect.called


@pytest.mark.usefixtures("connect")
def test_two_namespaces_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match="shop/web is not in the namespace blog"):
        subject(kind="deploy", name="shop/web", namespace="blog")
