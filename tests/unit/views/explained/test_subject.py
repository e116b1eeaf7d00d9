import pytest

from desched.errors import ConfigurationError
from desched.views.explained.subject import Subject, SubjectKind, parse_subject


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (("node", "te3"), Subject(SubjectKind.NODE, "te3")),
        (("node/te3",), Subject(SubjectKind.NODE, "te3")),
        (("No", "te3"), Subject(SubjectKind.NODE, "te3")),
        (("pod", "shop/web-1"), Subject(SubjectKind.POD, "web-1", "shop")),
        (("po/shop/web-1",), Subject(SubjectKind.POD, "web-1", "shop")),
        (("workload", "shop/web"), Subject(SubjectKind.WORKLOAD, "web", "shop")),
        (("deploy/shop/web",), Subject(SubjectKind.WORKLOAD, "web", "shop", "Deployment")),
        (("vcjob/ml/llama",), Subject(SubjectKind.WORKLOAD, "llama", "ml", "Volcano Job")),
        (("sts", "shop/db"), Subject(SubjectKind.WORKLOAD, "db", "shop", "StatefulSet")),
        (("deployment.apps/web",), Subject(SubjectKind.WORKLOAD, "web", "mine", "Deployment")),
        (
            ("deployments.v1.apps", "web"),
            Subject(SubjectKind.WORKLOAD, "web", "mine", "Deployment"),
        ),
        (("job.batch/once",), Subject(SubjectKind.WORKLOAD, "once", "mine", "Job")),
        (
            ("job.batch.volcano.sh/ml/a",),
            Subject(SubjectKind.WORKLOAD, "a", "ml", "Volcano Job"),
        ),
        (("pod/web-1",), Subject(SubjectKind.POD, "web-1", "mine")),
        (("pod", "web-1"), Subject(SubjectKind.POD, "web-1", "mine")),
    ],
)
def test_a_subject_is_named_as_in_kubectl(words: tuple[str, ...], subject: Subject) -> None:
    assert parse_subject(*words, namespace=lambda: "mine") == subject


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("te3",), '"te3" is no kind that can be explained'),
        (("service", "shop/web"), '"service" is no kind'),
        (("deployment.extensions/web",), '"deployment.extensions" is no kind'),
        (("pod.batch.volcano.sh/web",), "is no kind"),
        (("node",), "Name the node, as in"),
        (("node", "shop/te3"), "Name the node, as in"),
        (("pod", "web-1"), "Name the pod with its namespace"),
        (("pod/web-1",), "Name the pod with its namespace"),
        (("pod", "shop/"), "Name the pod with its namespace"),
        (("pod/",), "Name the pod with its namespace"),
        (("pod", "a/b/c"), "Name the pod with its namespace"),
        (("workload", ""), "Name the workload with its namespace"),
    ],
)
def test_what_names_nothing_is_refused_with_the_form(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_subject(*words)


def test_the_context_is_not_asked_for_what_has_no_name() -> None:
    def namespace() -> str:
        raise AssertionError

    with pytest.raises(ConfigurationError, match="Name the pod"):
        parse_subject("pod/", namespace=namespace)
