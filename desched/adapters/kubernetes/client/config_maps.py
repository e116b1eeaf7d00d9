"""ConfigMaps, in which desched finds and keeps texts."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import msgspec

from desched.adapters.kubernetes.client.answers import Answer
from desched.api_objects.decoding import UNDECODABLE
from desched.api_objects.metadata import Strings, VersionedMetadata, Wire

NO_CONFIG_MAP = "the answer is no ConfigMap"


class ConfigMap(Wire):
    """A ConfigMap; values of `binary_data` are in base64."""

    kind: Literal["ConfigMap"]
    metadata: VersionedMetadata
    data: Strings = None
    binary_data: Strings = None

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts by their keys."""
        return self.data or {}


_DECODER = msgspec.json.Decoder(ConfigMap)


def config_map(answer: Answer) -> ConfigMap | None:
    """The ConfigMap in an answer, None if it has none."""
    with suppress(*UNDECODABLE):
        return _DECODER.decode(answer.body)
    return None
