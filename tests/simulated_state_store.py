"""Memory of a simulated cluster: one text that several stores share."""

from dataclasses import dataclass

from desched.errors import StateConflict
from desched.model.state import State
from desched.model.stored_state import StoredState, encode_state, set_aside
from desched.plugins.states import decode_state


@dataclass
class SimulatedConfigMap:
    """What is stored; `text` is None while there is none. `version` grows with every write."""

    text: str | None = None
    set_aside: str = ""
    version: int = 0

    def write(self, text: str | None) -> None:
        """Change it behind the back of every store; None deletes it."""
        self.text = text
        self.version += 1


class SimulatedStateStore:
    """The MemoryStore over a SimulatedConfigMap; it encodes as the real one does."""

    def __init__(self, place: SimulatedConfigMap) -> None:
        self._place = place
        self._version: int | None = None  # None: there was none, so that the next is the first
        self._unusable = ""

    def load(self) -> StoredState:
        """What is remembered now; nothing, with a problem, if it cannot be used."""
        text = self._place.text
        self._version = None if text is None else self._place.version
        stored = StoredState() if text is None else decode_state(text)
        self._unusable = text or "" if stored.problem else ""
        return stored

    def save(self, state: State) -> None:
        """Store it in place of what this store loaded or saved last, else as the first one.

        Raises:
            StateConflict: somebody else wrote meanwhile; nothing is stored.
        """
        text = encode_state(state).decode()
        if self._version != (None if self._place.text is None else self._place.version):
            raise StateConflict("Somebody else changed the state; nothing was written.")
        if self._unusable:
            self._place.set_aside = set_aside(self._unusable)
        self._place.write(text)
        self._version = self._place.version
        self._unusable = ""
