"""Finds the one policy document in what people hand over.

That is the document itself, a ConfigMap that holds it, the JSON of Huawei CCE's add-on settings, or
a file of several documents of which one is any of these.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from desched.policy.wording import quoted
from desched.policy_file.reading.yaml_source import Frame, read_documents
from desched.policy_keys.document import YamlDocument
from desched.policy_keys.findings import FindingRule, KeyPath, Place, refused
from desched.policy_keys.section import API_VERSION, KIND

POLICY_KEY = "policy.yaml"
"""The ConfigMap's key, and the file's name where the ConfigMap is mounted."""
CCE_KEY = "deschedulerPolicy"


def find_policy(text: str, source: str) -> tuple[YamlDocument, KeyPath]:
    """The document that holds the policy, and where in it the policy begins.

    Raises:
        InvalidPolicy: there is none, there are several, or it is another kind of document.
    """
    document, path = find_document(text, source, (KIND,))
    if not path:
        _check_kind(document)
    return document, path


def find_document(text: str, source: str, kinds: Collection[str]) -> tuple[YamlDocument, KeyPath]:
    """The document of one of these kinds, and where in it the policy begins.

    A file of a single document is taken for what was looked for.

    Raises:
        InvalidPolicy: there is none, or there are several.
    """
    documents = read_documents(text, Frame(source))
    if not documents:
        text = f"the file is empty; it must hold a {KIND}."
        raise refused(source, Place(), text, FindingRule.DOCUMENT)
    candidates = [
        document for document in documents if len(documents) == 1 or _holds(document, kinds)
    ]
    if len(candidates) != 1:
        text = (
            f"the file has {len(documents)} documents, of which {len(candidates)} hold a policy; "
            "exactly one must."
        )
        raise refused(source, Place(), text, FindingRule.DOCUMENT)
    return _unwrap(candidates[0], kinds)


def _mapping(document: YamlDocument) -> Mapping[str, object]:
    if isinstance(document.value, dict):
        return document.value
    shape = "a list" if isinstance(document.value, list) else "a single value"
    raise document.refused(
        (),
        f"this is not a policy but {shape}; it must be a mapping that begins with "
        f"apiVersion: {API_VERSION} and kind: {KIND}.",
    )


def _holds(document: YamlDocument, kinds: Collection[str]) -> bool:
    if not isinstance(document.value, dict):
        return False
    if document.value.get("kind") != "ConfigMap":
        kind = document.value.get("kind")
        return (isinstance(kind, str) and kind in kinds) or CCE_KEY in document.value
    data = document.value.get("data")
    key = _policy_key(data, kinds)
    return key == POLICY_KEY or (key is not None and _names(data, key, kinds))


def _names(data: Any, key: str, kinds: Collection[str]) -> bool:
    return any(kind in str(data[key]) for kind in kinds)


def _policy_key(data: object, kinds: Collection[str]) -> str | None:
    if not isinstance(data, dict):
        return None
    if POLICY_KEY in data:
        return POLICY_KEY
    likely = [key for key in data if _names(data, key, kinds)]
    keys = likely if len(likely) == 1 else [*data]
    return keys[0] if len(keys) == 1 else None


def _unwrap(document: YamlDocument, kinds: Collection[str]) -> tuple[YamlDocument, KeyPath]:
    value = _mapping(document)
    if CCE_KEY in value:
        return document, (CCE_KEY,)
    if value.get("kind") != "ConfigMap":
        return document, ()
    data = value.get("data")
    key = _policy_key(data, kinds)
    text = data.get(key) if isinstance(data, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise document.refused(
            ("data",),
            f'the ConfigMap has no text under the key "{POLICY_KEY}"; put the policy there.',
        )
    path: KeyPath = ("data", str(key))
    block, begins = document.texts.get(path), document.place_of(path)
    frame = Frame(document.source, begins, keeps_lines=False)
    if block:
        frame = Frame(document.source, Place(block.line, block.indent + 1), block.indent)
    inner = read_documents(text, frame)
    if len(inner) != 1:
        raise document.refused(
            path, f"found {len(inner)} documents; exactly one policy must be here."
        )
    unwrapped = msgspec.structs.replace(inner[0], findings=(*document.findings, *inner[0].findings))
    return unwrapped, ((CCE_KEY,) if CCE_KEY in _mapping(unwrapped) else ())


def _check_kind(document: YamlDocument) -> None:
    """Refuse what is no policy; a policy without apiVersion or kind is left to the schema."""
    value = _mapping(document)
    version, kind = value.get("apiVersion"), value.get("kind")
    convert = "`desched policy convert` translates it"
    if kind == "DeschedulerConfiguration":
        text = f"{kind} is the configuration of Koordinator's descheduler; {convert}."
        raise document.refused(("kind",), text)
    if version == "descheduler/v1alpha1":
        text = f"found {quoted(version)}, which is no longer read; {convert}."
        raise document.refused(("apiVersion",), text)
    if "strategies" in value:
        text = f"strategies belong to descheduler/v1alpha1, which is no longer read; {convert}."
        raise document.refused(("strategies",), text)
    if "profiles" in value and kind in (None, KIND):  # no set: it may be a list
        return
    want = f'write "apiVersion: {API_VERSION}" and "kind: {KIND}"'
    if kind is not None and kind != KIND:
        raise document.refused(("kind",), f"found {quoted(kind)}, which is no policy; {want}.")
    if version is None:
        raise document.refused(("apiVersion",), f"is missing; {want}.")
    if version != API_VERSION:
        raise document.refused(("apiVersion",), f"found {quoted(version)}; {want}.")
