"""What must hold when desched dies at any moment, as by kill -9, and starts again."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mortal import Step
from tests.properties.deaths import Lifetime, Story, any_story, drain, trap

RESTART_SECONDS = 10.0
CYCLES = 4
"""Until the trap is solved: one waits for the window, one moves, one follows up, one is quiet."""


@pytest.fixture(scope="module")
def undisturbed() -> tuple[Story, list[Step]]:
    story, life = trap(), Lifetime()
    story.live(life, CYCLES)
    return story, life.made


def test_without_a_death_the_story_has_every_kind_of_step(
    undisturbed: tuple[Story, list[Step]],
) -> None:
    story, steps = undisturbed
    kinds = {"cluster.read_cluster", "cluster.read_around", "load.read_load", "state.load"}
    kinds |= {"state.save", "steerer.taint_all", "steerer.untaint_all", "evictor.evict"}
    assert {step.call for step in steps} == kinds | {"evictor.announce"}
    assert len(story.witness.evicted) == 2
    assert (story.taints, story.witness.unsettled) == ({}, set())


def test_whenever_it_dies_the_next_one_ends_up_with_the_same_evictions(
    undisturbed: tuple[Story, list[Step]],
) -> None:
    expected, steps = undisturbed
    for count, last in enumerate(steps):
        story = trap()
        story.live(Lifetime(count), CYCLES)
        story.rest(RESTART_SECONDS)
        story.live(Lifetime(), CYCLES + 1)
        found = (story.destinations, story.taints, story.witness.unsettled)
        assert found == (expected.destinations, {}, set()), last
        assert len(story.witness.evicted) == 2, last


DRAIN_CYCLES = 6
"""Two moves in two cycles, a cycle in which the pod lands, and one that ends the drain."""


def test_whenever_it_dies_during_a_drain_the_next_one_completes_it() -> None:
    undisturbed, life = drain(), Lifetime()
    undisturbed.live(life, DRAIN_CYCLES)
    expected = undisturbed.destinations
    assert expected.count(("", "big")) == 0
    assert len(undisturbed.witness.evicted) == 2
    for count, last in enumerate(life.made):
        story = drain()
        story.live(Lifetime(count), DRAIN_CYCLES)
        story.rest(RESTART_SECONDS)
        story.live(Lifetime(), DRAIN_CYCLES)
        assert (story.destinations, story.taints) == (expected, {}), last
        assert len(story.witness.evicted) == 2, last


lives = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([1.0, 10.0, 150.0, 300.0, 900.0])), max_size=6
)
slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(st.randoms(use_true_random=True), lives)
def test_many_deaths_lead_to_no_eviction_beyond_the_limits_and_none_is_forgotten(
    chance: Random, lives: Sequence[tuple[int, float]]
) -> None:
    story = any_story(chance)
    for steps, pause_seconds in lives:
        story.live(Lifetime(steps), CYCLES)
        story.rest(pause_seconds)
    story.live(Lifetime(), 2 * CYCLES)
