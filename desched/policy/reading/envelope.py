"""Finds the one policy document in what people hand over.

That is the document itself, a ConfigMap that holds it, the JSON of Huawei CCE's add-on settings, or
a file of several documents of which one is any of these.
"""

from collections.abc import Mapping

from desched.policy.document.root import API_VERSION, KIND
from desched.policy.reading.yaml_source import KeyPath, YamlDocument, complaint, read_documents
from desched.policy.wording import quoted

POLICY_KEY = "policy.yaml"
"""The ConfigMap's key, and the file's name where the ConfigMap is mounted."""
CCE_KEY = "deschedulerPolicy"


def find_policy(text: str, source: str) -> tuple[YamlDocument, KeyPath]:
    """The document that holds the policy, and where in it the policy begins.

    Raises:
        ConfigurationError: there is none, there are several, or it is another kind of document.
    """
    documents = read_documents(text, source)
    if not documents:
        raise complaint(source, 1, f"the file is empty; it must hold a {KIND}.")
    candidates = [each for each in documents if len(documents) == 1 or _holds_policy(each)]
    if len(candidates) != 1:
        text = (
            f"the file has {len(documents)} documents, of which {len(candidates)} hold a policy; "
            "exactly one must."
        )
        raise complaint(source, 1, text)
    document, path = _unwrap(candidates[0])
    if not path:
        _check_kind(document)
    return document, path


def _mapping(document: YamlDocument) -> Mapping[str, object]:
    if isinstance(document.value, dict):
        return document.value
    found = "a list" if isinstance(document.value, list) else "a single value"
    raise document.complaint(
        (),
        f"this is not a policy but {found}; it must be a mapping that begins with "
        f"apiVersion: {API_VERSION} and kind: {KIND}.",
    )


def _holds_policy(document: YamlDocument) -> bool:
    if not isinstance(document.value, dict):
        return False
    if document.value.get("kind") != "ConfigMap":
        return document.value.get("kind") == KIND or CCE_KEY in document.value
    key = _policy_key(document.value.get("data"))
    return key == POLICY_KEY or (key is not None and KIND in str(document.value["data"]))


def _policy_key(data: object) -> str | None:
    if not isinstance(data, dict):
        return None
    if POLICY_KEY in data:
        return POLICY_KEY
    return next(iter(data)) if len(data) == 1 else None


def _unwrap(document: YamlDocument) -> tuple[YamlDocument, KeyPath]:
    value = _mapping(document)
    if CCE_KEY in value:
        return document, (CCE_KEY,)
    if value.get("kind") != "ConfigMap":
        return document, ()
    data = value.get("data")
    key = _policy_key(data)
    text = data.get(key) if isinstance(data, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise document.complaint(
            ("data",),
            f'data: the ConfigMap has no text under the key "{POLICY_KEY}"; put the policy there.',
        )
    path: KeyPath = ("data", str(key))
    inner = read_documents(
        text,
        document.source,
        first_line=document.texts.get(path, document.line_of(path)),
        keeps_lines=path in document.texts,
    )
    if len(inner) != 1:
        raise document.complaint(
            path, f"data.{key}: found {len(inner)} documents; exactly one policy must be here."
        )
    return inner[0], ((CCE_KEY,) if CCE_KEY in _mapping(inner[0]) else ())


def _check_kind(document: YamlDocument) -> None:
    value = _mapping(document)
    version, kind = value.get("apiVersion"), value.get("kind")
    want = f'write "apiVersion: {API_VERSION}" and "kind: {KIND}"'
    instead = f"which is no longer read; {want}, and profiles in place of strategies."
    key = problem = ""
    if kind == "DeschedulerConfiguration":
        key = "kind"
        problem = (
            f"{kind} is the configuration of Koordinator's descheduler, which desched does not "
            f"read; {want}, with the thresholds in the args of LoadAware."
        )
    elif version == "descheduler/v1alpha1":
        key, problem = "apiVersion", f"found {quoted(version)}, {instead}"
    elif "strategies" in value:
        key, problem = "strategies", f"strategies belong to descheduler/v1alpha1, {instead}"
    elif version != API_VERSION:
        key, problem = "apiVersion", f"{_found(version)}; {want}."
    elif kind != KIND:
        key, problem = "kind", f"{_found(kind)}; {want}."
    if problem:
        raise document.complaint((key,), f"{key}: {problem}")


def _found(value: object) -> str:
    return "is missing" if value is None else f"found {quoted(value)}"
