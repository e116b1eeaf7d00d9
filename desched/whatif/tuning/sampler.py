"""Which values to try next: Optuna's sampler for several objectives, with a fixed seed."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from desched.whatif.tuning.replays import Score
from desched.whatif.tuning.space import Dimension, Values

STARTUP_TRIALS = 16
"""So many policies differ from today's at random, before results decide."""

MOST_KEYS = 3
"""Each of these differs in at most so many keys."""


class Sampler(Protocol):
    """Proposes values, and learns from the scores of earlier ones."""

    def propose(self) -> Values:
        """Values to try; they may have been tried before."""
        ...

    def learn(self, values: Values, score: Score | None) -> None:
        """Take note of a result; None: the values contradict each other."""
        ...


class OptunaSampler:
    """Tree-structured Parzen estimators for overload, its severity and evictions.

    Each value is the position in its dimension, so that of an ordered one neighbours are similar.
    `today` are the values of today's policy, as far as they are in the dimensions. `number` is that
    of the policies tried before, so that a search that goes on draws other ones.
    """

    def __init__(
        self, dimensions: Sequence[Dimension], today: Values, seed: int, number: int
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._dimensions = {each.key: each for each in dimensions}
        self._distributions = {each.key: _distribution(each) for each in dimensions}
        self._study = optuna.create_study(
            directions=[StudyDirection.MINIMIZE] * 3,
            sampler=TPESampler(
                seed=seed + number,
                n_startup_trials=STARTUP_TRIALS,
                multivariate=True,
                constant_liar=True,
            ),
        )
        self._open: dict[tuple[tuple[str, int], ...], int] = {}
        if len(today) == len(dimensions):
            self._begin_near(today, np.random.default_rng(seed), STARTUP_TRIALS - number)

    def propose(self) -> Values:
        """Values to try; they may have been tried before."""
        trial = self._study.ask(self._distributions)
        self._open[tuple(sorted(trial.params.items()))] = trial.number
        return {key: self._dimensions[key].values[i] for key, i in trial.params.items()}

    def learn(self, values: Values, score: Score | None) -> None:
        """Take note of a result; None: the values contradict each other."""
        params = {
            key: each.values.index(values[key])
            for key, each in self._dimensions.items()
            if key in values and values[key] in each.values
        }
        number = self._open.pop(tuple(sorted(params.items())), None)
        results = None if score is None else _objectives(score)
        if number is not None:
            state = TrialState.FAIL if results is None else None
            self._study.tell(number, results, state=state)
        elif results is not None and len(params) == len(self._dimensions):
            trial = create_trial(params=params, distributions=self._distributions, values=results)
            self._study.add_trial(trial)

    def _begin_near(self, today: Values, chance: np.random.Generator, trials: int) -> None:
        """Propose policies first that differ from today's in a few keys."""
        keys = list(self._dimensions)
        for _ in range(trials):
            params = {key: self._dimensions[key].values.index(today[key]) for key in keys}
            most = min(MOST_KEYS, len(keys))
            chosen = chance.choice(
                len(keys), chance.integers(1, most, endpoint=True), replace=False
            )
            for key in (keys[i] for i in chosen):
                others = [i for i in range(len(self._dimensions[key].values)) if i != params[key]]
                params[key] = int(chance.choice(others))
            self._study.enqueue_trial(params)


def _distribution(dimension: Dimension) -> BaseDistribution:
    count = len(dimension.values)
    return (
        IntDistribution(0, count - 1)
        if dimension.ordered
        else CategoricalDistribution(range(count))
    )


def _objectives(score: Score) -> list[float]:
    return [score.node_minutes, score.point_minutes, float(score.evictions)]
