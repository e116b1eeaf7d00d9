"""Plots of a soak as SVG files; needs matplotlib, which is in requirements/bench.txt."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

Point = tuple[float, float]


class Line(NamedTuple):
    """A series of a plot, of (seconds, value)."""

    name: str
    colour: str
    points: Sequence[Point]
    dashed: bool = False


def plot(path: Path, title: str, lines: Sequence[Line], marks: Sequence[float] = ()) -> None:
    """Draw lines over minutes; `marks` are times, drawn as ticks at the foot."""
    from matplotlib.figure import Figure  # noqa: PLC0415  only reports of `make soak` need it

    figure = Figure(figsize=(8.6, 2.6), layout="constrained")
    axes = figure.add_subplot()
    for line in lines:
        minutes = [seconds / 60 for seconds, _ in line.points]
        values = [value for _, value in line.points]
        style = "--" if line.dashed else "-"
        axes.plot(minutes, values, style, color=line.colour, label=line.name)
    at_the_foot = axes.get_xaxis_transform()
    axes.plot([s / 60 for s in marks], [0] * len(marks), "|", color="red", transform=at_the_foot)
    axes.set_title(title, loc="left", fontsize="medium")
    axes.set_xlabel("minutes")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.legend(loc="lower right", ncols=len(lines))
    figure.savefig(path, metadata={"Date": None})
