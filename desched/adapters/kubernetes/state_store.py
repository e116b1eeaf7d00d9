"""The state in a ConfigMap, which people and other instances read and write too."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from http import HTTPStatus

from desched.adapters.kubernetes.client.access import CREATE_STATE, GET_STATE, PATCH_STATE
from desched.adapters.kubernetes.client.answers import Answer
from desched.adapters.kubernetes.client.config_maps import NO_CONFIG_MAP, ConfigMap, config_map
from desched.adapters.kubernetes.client.connection import KubernetesConnection
from desched.adapters.kubernetes.client.paged_reads import why_refused
from desched.errors import (
    ObservationError,
    ObservationSource,
    StateConflict,
    StateRefused,
    StopActing,
)
from desched.model.state import State
from desched.model.stored_state import StoredState, encode_state, set_aside
from desched.plugins.states import decode_state

CONFIG_MAP = "desched-state"
STATE_KEY = "state.json"
SET_ASIDE_KEY = "set-aside.json"
DEADLINE_SECONDS = 10.0
"""For one request with all its retries."""

_REFUSED = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)
"""Nothing is stored after these answers, and a retry does not help."""


@dataclass
class KubernetesStateStore:
    """The StateStore on one ConfigMap; a write fails if the stored version is not the loaded one.

    `seconds_left` is how long this process may still act; no write lasts longer.
    """

    connection: KubernetesConnection
    namespace: str
    _: KW_ONLY
    deadline_seconds: float = DEADLINE_SECONDS
    seconds_left: Callable[[], float] = lambda: math.inf
    server_time: datetime | None = field(default=None, init=False)  # of the last load
    _version: str = field(default="", init=False)
    _unusable: str = field(default="", init=False)

    @property
    def place(self) -> str:
        """The ConfigMap, for people."""
        return f"ConfigMap {self.namespace}/{CONFIG_MAP}"

    def load(self) -> StoredState:
        """The stored state; an empty one with a problem if it cannot be used."""
        answer = self.connection.get(self._path, deadline_seconds=self.deadline_seconds)
        self.server_time = answer.date
        if answer.is_from_server(HTTPStatus.NOT_FOUND):
            self._version = self._unusable = ""
            return StoredState()
        found = self._read(answer)
        text = found.texts.get(STATE_KEY)
        stored = StoredState() if text is None else decode_state(text)
        self._version = found.metadata.resource_version
        self._unusable = text or "" if stored.problem else ""
        if not stored.problem:
            return stored
        return StoredState(
            problem=f"The state in {self.place} cannot be used: {stored.problem}. Its "
            "pauses and cool-downs are not in effect; nothing is evicted for a while instead. The "
            f"next write keeps it under {SET_ASIDE_KEY} and starts a new one; read it with "
            f"`kubectl -n {self.namespace} get configmap {CONFIG_MAP} -o yaml`, and set its pauses "
            "again."
        )

    def save(self, state: State) -> None:
        """Replace what this store loaded or saved last; create it if there was nothing."""
        data = {STATE_KEY: encode_state(state).decode()}
        if self._unusable:
            data[SET_ASIDE_KEY] = set_aside(self._unusable)
        try:
            answer = self._change(data) if self._version else self._create(data)
        except ObservationError as error:
            raise StopActing(f"Whether {self.place} was written is not known. {error}") from error
        stored = config_map(answer) if answer.is_done else None
        if stored is None:
            raise self._not_stored(answer)
        self._version = stored.metadata.resource_version
        self._unusable = ""

    @property
    def _path(self) -> str:
        return GET_STATE.path(self.namespace, CONFIG_MAP)

    def _read(self, answer: Answer) -> ConfigMap:
        if answer.status != HTTPStatus.OK:
            refusal = why_refused(answer, GET_STATE, self.namespace)
        elif stored := config_map(answer):
            return stored
        else:
            refusal = NO_CONFIG_MAP
        raise ObservationError(
            ObservationSource.CLUSTER, f"The state in {self.place} could not be read: {refusal}."
        )

    def _create(self, data: dict[str, str]) -> Answer:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": self.namespace,
                "name": CONFIG_MAP,
                "labels": {"app.kubernetes.io/name": "desched"},
            },
            "data": data,
        }
        return self.connection.post(
            CREATE_STATE.path(self.namespace), body, deadline_seconds=self._write_seconds
        )

    def _change(self, data: dict[str, str]) -> Answer:
        """Changes only these keys; all other fields of the object stay."""
        body = {"metadata": {"resourceVersion": self._version}, "data": data}
        return self.connection.patch(self._path, body, deadline_seconds=self._write_seconds)

    @property
    def _write_seconds(self) -> float:
        return min(self.deadline_seconds, self.seconds_left())

    def _not_stored(self, answer: Answer) -> StopActing:
        from_server = answer.status_object is not None
        deleted = answer.status == HTTPStatus.NOT_FOUND and self._version
        if from_server and (deleted or answer.status == HTTPStatus.CONFLICT):
            return StateConflict(
                f"Somebody else changed {self.place} since it was read; nothing was written."
            )
        if from_server and answer.status in _REFUSED:
            return StateRefused(
                f"The state in {self.place} was not written: {self._why_refused(answer)}."
            )
        return StopActing(
            f"Whether {self.place} was written is not known: the API server answered "
            f"{answer.status}: {answer.explanation}."
        )

    def _why_refused(self, answer: Answer) -> str:
        match answer.status:
            case HTTPStatus.FORBIDDEN:
                what = PATCH_STATE if self._version else CREATE_STATE
                refusal = why_refused(answer, what, self.namespace)
                return f"{refusal}. The server's message: {answer.explanation}"
            case HTTPStatus.NOT_FOUND:
                return (
                    f"there is no namespace {self.namespace}; create it with `kubectl create "
                    f"namespace {self.namespace}`, or name another with --state-namespace"
                )
            case _:
                return f"status {answer.status}: {answer.explanation}"
