"""Charts over time: an SVG that stretches with the page, and labels in HTML that do not.

A picture that is scaled as a whole has unreadable letters on a phone. So the SVG holds only shapes, in a
square of `WIDTH` × `HEIGHT` units that is stretched to whatever room there is, and everything with letters
is placed beside and above it in per cent. All charts have the same gutter, so moments stand above each other.

Rules of the file: nothing is shown by colour alone; every chart has a caption, a unit, and a description for
those who cannot see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.pipeline.report.html import Markup, el, join, key
from tidelog.pipeline.report.scale import time_marks

WIDTH: Final = 1000
HEIGHT: Final = 100

Point = tuple[float, float | None]
"""A moment in ms and a value; None interrupts a line."""


Band = tuple[int, int]
"""Something that lasted, behind the curves: a fault, from and to in ms."""


@dataclass(slots=True)
class Chart:
    """One plot: shapes are added, `figure` puts the frame around them."""

    title: str
    unit: str
    span_ms: int
    marks: Sequence[float]
    """Values at which the vertical axis has a line and a label; the first is its bottom, the last its top."""
    label: Callable[[float], str]
    up: Callable[[float], float] = lambda value: value
    """From a value to its place on the axis: the logarithm, say."""
    height_px: int = 130
    description: str = ""
    shapes: list[Markup] = field(default_factory=list)
    legend: list[Markup] = field(default_factory=list)

    def x(self, ms: float) -> str:
        return compact(min(max(ms / self.span_ms, 0.0), 1.0) * WIDTH)

    def y(self, value: float) -> str:
        low, high = self.up(self.marks[0]), self.up(self.marks[-1])
        share = (self.up(max(value, self.marks[0])) - low) / (high - low)
        return compact((1 - min(share, 1.0)) * HEIGHT)

    # ------------------------------------------------------------ shapes

    def bands(self, bands: Iterable[Band]) -> None:
        self.shapes.append(band_shapes(bands, self.span_ms))

    def line(self, points: Sequence[Point], style: str, name: str, *, steps: bool = False) -> None:
        self.shapes.append(el("path", d=self._path(points, steps=steps), class_=f"line {style}"))
        self.legend.append(key(f"line {style}", name))

    def area(self, points: Sequence[tuple[float, float]], width_ms: int, style: str, name: str) -> None:
        """Columns of one bucket each, drawn as one shape."""
        d: list[str] = []
        bottom = self.y(self.marks[0])
        for at, value in points:
            if value > 0:
                d.append(f"M{self.x(at)} {bottom}V{self.y(value)}H{self.x(at + width_ms)}V{bottom}")
        self.shapes.append(el("path", d="".join(d), class_=f"area {style}"))
        self.legend.append(key(f"area {style}", name))

    def _path(self, points: Sequence[Point], *, steps: bool) -> str:
        d: list[str] = []
        pen_down, last_y = False, ""
        for at, value in points:
            if value is None:
                pen_down = False
                continue
            x, y = self.x(at), self.y(value)
            if not pen_down:
                d.append(f"M{x} {y}")
            elif y == last_y:
                d.append(f"H{x}")
            else:
                d.append(f"H{x}V{y}" if steps else f"L{x} {y}")
            pen_down, last_y = True, y
        return "".join(d)

    # ------------------------------------------------------------ the frame

    def figure(self) -> Markup:
        grid = [
            el("line", x1=0, x2=WIDTH, y1=self.y(mark), y2=self.y(mark), class_="grid") for mark in self.marks
        ]
        labels = [
            el("span", self.label(mark), style=f"top:{self.y(mark)}%")
            for mark in (*self.marks[1:-1], self.marks[0], self.marks[-1])
        ]
        return framed(
            self.title,
            self.unit,
            side=el("div", labels, class_="y"),
            plot=picture(
                join(grid, self.shapes), self.description or f"{self.title}, {self.unit}", self.height_px
            ),
            axis=time_axis(self.span_ms),
            legend=self.legend,
        )


def framed(
    title: str, unit: str, *, side: Markup, plot: Markup, axis: Markup, legend: Sequence[Markup] = ()
) -> Markup:
    caption = el(
        "figcaption",
        el("b", title),
        el("span", unit, class_="unit"),
        el("span", legend, class_="legend") if legend else None,
    )
    return el("figure", caption, el("div", side, el("div", plot, class_="plot"), axis, class_="frame"))


def picture(shapes: Markup, description: str, height_px: int) -> Markup:
    return el(
        "svg",
        el("title", description),
        shapes,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=description,
        style=f"height:{height_px}px",
    )


def time_axis(span_ms: int) -> Markup:
    marks = time_marks(span_ms)
    return el(
        "div",
        [
            el("span", text, style=f"left:{compact(at / span_ms * 100)}%", class_="odd" if n % 2 else None)
            for n, (at, text) in enumerate(marks)
            if at <= span_ms * 0.97  # a label at the very end would stand outside of the page
        ],
        el("i", "after the load began"),
        class_="x",
    )


def band_shapes(bands: Iterable[Band], span_ms: int) -> Markup:
    """All of them as one shape: the lanes of faults say which is which."""
    d = []
    for from_ms, to_ms in bands:
        left, right = from_ms / span_ms * WIDTH, to_ms / span_ms * WIDTH
        d.append(f"M{compact(left)} 0H{compact(max(right, left + 1))}V{HEIGHT}H{compact(left)}")
    return el("path", d="".join(d), class_="band") if d else Markup()


def compact(value: float) -> str:
    """A coordinate in as few characters as a screen can show a difference for."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
