"""Results that an object computes once for each combination of arguments."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


def cached(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Compute each result of a method once; callers must not modify it, nor mix argument styles.

    Unlike those of `functools.cache`, the results belong to the object, and go with it.
    """
    name = f"_results_of_{method.__name__}"

    @wraps(method)
    def known_or_computed(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (*args, *kwargs.values()) if kwargs else args
        results: dict[Any, T] = vars(self).get(name) or vars(self).setdefault(name, {})
        try:
            return results[key]
        except KeyError:
            result = results[key] = method(self, *args, **kwargs)
            return result

    return known_or_computed
