"""The pinned requirements install on a day on which any of them has a newer version."""

from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

LOCKS = sorted((Path(__file__).parents[2] / "requirements").glob("*.txt"))


def pinned(lock: Path) -> dict[str, set[str]]:
    """The extras with which each package is pinned, by its name."""
    lines = (line for line in lock.read_text().splitlines() if "==" in line.split(";")[0])
    found: dict[str, set[str]] = {}
    for line in lines:
        requirement = Requirement(line.removesuffix("\\"))
        found.setdefault(requirement.name.lower(), set()).update(requirement.extras)
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_package_that_is_needed_with_an_extra_is_pinned_with_it(lock: Path) -> None:
    """Older versions of pip read a pin without the extra as one of another package."""
    pins = pinned(lock)
    assert pins
    for installed in distributions():
        name = installed.metadata["Name"].lower()
        for needed in map(Requirement, installed.requires or ()) if name in pins else ():
            wanted = needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in {"", *pins[name]}
            )
            if wanted and needed.name.lower() in pins:
                assert needed.extras <= pins[needed.name.lower()], f"{name} needs {needed}"
