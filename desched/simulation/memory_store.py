"""Memory of a simulated cluster: one text that several stores share."""

from dataclasses import dataclass

from desched.errors import MemoryConflict
from desched.model.memory import Memory
from desched.model.stored_memory import Recollection, decoded, encoded, set_aside


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


class SimulatedMemoryStore:
    """The MemoryStore over a SimulatedConfigMap; it encodes as the real one does."""

    def __init__(self, place: SimulatedConfigMap) -> None:
        self._place = place
        self._version: int | None = None  # None: there was none, so that the next is the first
        self._unusable = ""

    def load(self) -> Recollection:
        """What is remembered now; nothing, with a problem, if it cannot be used."""
        text = self._place.text
        self._version = None if text is None else self._place.version
        recollection = Recollection() if text is None else decoded(text)
        self._unusable = text or "" if recollection.problem else ""
        return recollection

    def save(self, memory: Memory) -> None:
        """Store it in place of what this store loaded or saved last, else as the first one.

        Raises:
            MemoryConflict: somebody else wrote meanwhile; nothing is stored.
        """
        text = encoded(memory).decode()
        if self._version != (None if self._place.text is None else self._place.version):
            raise MemoryConflict("Somebody else changed the memory; nothing was written.")
        if self._unusable:
            self._place.set_aside = set_aside(self._unusable)
        self._place.write(text)
        self._version = self._place.version
        self._unusable = ""
