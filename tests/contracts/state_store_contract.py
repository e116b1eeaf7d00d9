"""What desched relies on in a stored memory, stated once for the fake and for the real thing."""

import json
from datetime import timedelta
from typing import Protocol

import msgspec
import pytest

from desched.errors import StateConflict
from desched.model.state import CoolDown, Pause, PauseScope, State
from desched.ports import StateStore
from tests.builders import NOW

FIRST = State(since=NOW)
SECOND = msgspec.structs.replace(
    FIRST,
    cool_downs=(CoolDown("uid-web", "Deployment shop/web", NOW + timedelta(hours=1), level=2),),
    pauses=(Pause(PauseScope.EVERYTHING, NOW, None, why="“Räumung” \n\u0000", by="alice"),),
)
UNUSABLE = {
    "cut off": '{"version": 1, "state": {"since":',
    "empty": "",
    "of a newer version": '{"version": 2, "memory": {}}',
    "without a state": '{"version": 1}',
    "with a wrong type": '{"version": 1, "state": {"pauses": 3}}',
}


class MemoryLab(Protocol):
    """A place for memory where nothing is stored yet."""

    def store(self) -> StateStore:
        """A further store over the same place, as another process has it."""

    def write(self, text: str | None) -> None:
        """Write any text to it, as a person with an editor does; None deletes it."""

    def set_aside(self) -> str:
        """The text that was set aside, empty if there is none."""


class StateStoreContract:
    """Inherited by a class with the fixture `lab`."""

    def test_at_first_nothing_is_remembered_and_that_is_no_problem(self, lab: MemoryLab) -> None:
        assert lab.store().load() == (None, "")

    def test_what_was_saved_is_remembered_by_the_next_process(self, lab: MemoryLab) -> None:
        store = lab.store()
        store.load()
        store.save(SECOND)
        assert lab.store().load() == (SECOND, "")
        assert store.load() == (SECOND, "")

    def test_a_store_saves_again_without_another_look(self, lab: MemoryLab) -> None:
        store = lab.store()
        store.load()
        store.save(FIRST)
        store.save(SECOND)
        assert lab.store().load().state == SECOND

    def test_of_two_that_saw_nothing_only_one_saves_the_first_memory(self, lab: MemoryLab) -> None:
        one, other = lab.store(), lab.store()
        one.load()
        other.load()
        one.save(FIRST)
        with pytest.raises(StateConflict):
            other.save(SECOND)
        assert lab.store().load().state == FIRST

    def test_a_store_that_never_looked_overwrites_nothing(self, lab: MemoryLab) -> None:
        lab.store().save(FIRST)
        with pytest.raises(StateConflict):
            lab.store().save(SECOND)
        assert lab.store().load().state == FIRST

    def test_what_somebody_else_wrote_is_not_overwritten_before_it_is_read(
        self, lab: MemoryLab
    ) -> None:
        service, person = lab.store(), lab.store()
        service.save(FIRST)
        person.load()
        person.save(SECOND)
        for _ in range(2):
            with pytest.raises(StateConflict):
                service.save(FIRST)
        assert service.load().state == SECOND
        service.save(FIRST)
        assert lab.store().load().state == FIRST

    def test_a_deleted_memory_is_a_conflict_and_then_a_beginning(self, lab: MemoryLab) -> None:
        store = lab.store()
        store.save(FIRST)
        lab.write(None)
        with pytest.raises(StateConflict):
            store.save(SECOND)
        assert store.load() == (None, "")
        store.save(SECOND)
        assert lab.store().load().state == SECOND

    @pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
    def test_a_memory_that_cannot_be_used_is_a_problem_and_is_kept_for_people(
        self, lab: MemoryLab, text: str
    ) -> None:
        lab.write(text)
        store = lab.store()
        found = store.load()
        assert found.state is None
        assert found.problem
        assert lab.set_aside() == ""
        store.save(FIRST)
        assert lab.store().load() == (FIRST, "")
        assert lab.set_aside() == text
        store.save(SECOND)
        assert lab.set_aside() == text

    def test_what_a_newer_desched_adds_within_the_version_is_ignored(self, lab: MemoryLab) -> None:
        state = {"since": NOW.isoformat(), "moods": ["calm"], "pauses": []}
        lab.write(json.dumps({"version": 1, "state": state, "written_by": "the future"}))
        assert lab.store().load() == (FIRST, "")
