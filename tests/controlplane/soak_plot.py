"""Plots of a soak as small SVG files."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 860, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 34, 34
_GRID, _TEXT = "#dddddd", "#444444"
_MOST_POINTS = 400

Point = tuple[float, float]


class Line(NamedTuple):
    """A series of a plot."""

    name: str
    colour: str
    points: Sequence[Point]
    dashed: bool = False


def plot(title: str, unit: str, lines: Sequence[Line], marks: Sequence[float] = ()) -> str:
    """Lines over minutes; `marks` are times, drawn as ticks at the foot.

    Points are (seconds, value); the unit stands behind the numbers of the axis.
    """
    most_seconds = max((x for line in lines for x, _ in line.points), default=1.0)
    most = max((y for line in lines for _, y in line.points), default=1.0)
    step = _round_step(most / 5)
    top = step * max(1, -(-most // step))

    def at(point: Point) -> str:
        x = _LEFT + point[0] / most_seconds * (_WIDTH - _LEFT - _RIGHT)
        y = _HEIGHT - _BOTTOM - point[1] / top * (_HEIGHT - _TOP - _BOTTOM)
        return f"{x:.1f},{y:.1f}"

    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">'
    )
    parts = [
        head,
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 16, title, weight="bold"),
    ]
    for number in range(round(top / step) + 1):
        value = number * step
        _, y = at((0, value)).split(",")
        parts.append(f'<path d="M{_LEFT} {y}H{_WIDTH - _RIGHT}" stroke="{_GRID}"/>')
        parts.append(_text(_LEFT - 6, float(y) + 4, f"{value:g}{unit}", anchor="end"))
    every = _round_step(most_seconds / 60 / 8)
    for number in range(int(most_seconds / 60 / every) + 1):
        x, _ = at((number * every * 60, 0)).split(",")
        text = f"{number * every:g} min"
        parts.append(_text(float(x), _HEIGHT - _BOTTOM + 24, text, anchor="middle"))
    for seconds in marks:
        x, y = at((seconds, 0)).split(",")
        parts.append(f'<path d="M{x} {y}v7" stroke="#c0392b" stroke-width="1.5"/>')
    for line in lines:
        dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
        points = " ".join(map(at, _thinned(line.points)))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{line.colour}" '
            f'stroke-width="1.5"{dashes}/>'
        )
    parts.extend(_legend(lines))
    return "\n".join([*parts, "</svg>\n"])


def _legend(lines: Sequence[Line]) -> Iterable[str]:
    x = float(_WIDTH - _RIGHT)
    for line in reversed(lines):
        x -= 6.2 * len(line.name) + 26
        yield f'<path d="M{x} 12h14" stroke="{line.colour}" stroke-width="2"/>'
        yield _text(x + 18, 16, line.name)


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """Enough for a screen: of each stretch its highest point."""
    size = -(-len(points) // _MOST_POINTS) or 1
    stretches = (points[start : start + size] for start in range(0, len(points), size))
    return [max(stretch, key=lambda point: point[1]) for stretch in stretches]


def _round_step(least: float) -> float:
    """The next of 1, 2, 5, 10, 20, …"""
    size = 1.0
    while True:
        for factor in (1, 2, 5):
            if factor * size >= least:
                return factor * size
        size *= 10


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{_TEXT}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )
