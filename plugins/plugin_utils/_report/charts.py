# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""Charts of a report as SVG for a page of HTML.

By matplotlib, since its SVG needs no script and no font of its own, prints, and is some kB, where plotly's or bokeh's script
alone is 4.8 MB or 1.3 MB. Its colours are the page's variables, so that one drawing is both light and dark.
"""

from __future__ import annotations

import dataclasses
import io
import math
import re
import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._units import format_size
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import BaselineCurve, Check, Curve, Pairs

try:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
except ImportError:
    # Then there is no page, see formats.py.
    matplotlib = None  # type: ignore[assignment]

_Curve = t.TypeVar("_Curve", Curve, BaselineCurve)

#: Colours and shapes by which lines are told apart; of more lines, the slowest share a quiet colour.
SERIES = 6
SHAPES = ("o", "s", "^", "D", "v", "P")

#: Stand-ins in matplotlib's drawing, each for a variable of the page's style.
_COLOURS = {
    **{f"#0000{place + 0xA0:02x}": f"--series-{place + 1}" for place in range(SERIES)},
    "#0000b0": "--quiet",
    "#0000b1": "--text-soft",
    "#0000b2": "--grid",
    "#0000b3": "--limit",
    "#0000b4": "--baseline",
}
_BY_VARIABLE = {variable: colour for colour, variable in _COLOURS.items()}

#: Width and height in inches of a chart for a desk and of one for a phone, and the size of its text in points.
_WIDE = (9.6, 4.3, 9.5)
_NARROW = (4.6, 4.0, 10.5)

#: Slow, as the median, fast.
_HEAT = ("#b3261e", "#e8a87c", "#ece7da", "#8fb8d8", "#2b6cb0")

#: Characters of a host's name beside a chart.
_LONGEST_NAME = 18

# Names of hosts are text, whatever is in them.
_STYLE = {"svg.fonttype": "none", "font.family": "sans-serif", "path.simplify": False, "text.parse_math": False}


def bandwidth_charts(
    name: str,
    curves: t.Sequence[Curve],
    places: t.Mapping[str, int],
    limits: t.Sequence[Check],
    baseline: t.Sequence[BaselineCurve],
) -> dict[str, str]:
    """``wide`` and ``narrow``: bus bandwidth over size, both on logarithmic axes.

    ``name`` is unique in the page. ``places``: the colour of each label, as series_of gives them.
    """

    def draw(ticks: int) -> t.Callable[[t.Any], None]:
        return lambda axes: _draw_bandwidth(axes, curves, places, limits, baseline, ticks)

    return {"wide": _drawn(f"{name}-wide", _WIDE, draw(12)), "narrow": _drawn(f"{name}-narrow", _NARROW, draw(5))}


def shows_in_place(curves: t.Sequence[Curve]) -> bool:
    """Whether both placements are drawn: of few settings only, since two lines of each are too many otherwise."""
    placements = {curve.placement for curve in curves}
    return len(placements) > 1 and len({curve.label for curve in curves}) <= 3


def pair_charts(name: str, pairs: Pairs) -> dict[str, str]:
    """``wide`` and ``narrow``: the pairs of hosts as a heat map."""
    return {
        "wide": _drawn(f"{name}-wide", (9.6, 7.4, 9.5), lambda axes: _draw_pairs(axes, pairs, 40)),
        "narrow": _drawn(f"{name}-narrow", (4.6, 4.6, 10.5), lambda axes: _draw_pairs(axes, pairs, 12)),
    }


def soak_charts(
    name: str, series: t.Mapping[str, t.Sequence[tuple[int, float]]], dips: t.Sequence[tuple[int, float]]
) -> dict[str, str]:
    """``wide`` and ``narrow``: bus bandwidth over cycles. ``series``: by label, at most SERIES. ``dips``: to be marked."""

    def draw(axes: t.Any) -> None:
        for place, readings in enumerate(series.values()):
            cycles, values = zip(*readings)
            axes.plot(cycles, values, color=_colour(f"--series-{place + 1}"), linewidth=1.3, zorder=3)
        for cycle, value in dips:
            axes.plot(
                [cycle],
                [value],
                linestyle="none",
                marker="x",
                color=_colour("--limit"),
                markersize=7,
                markeredgewidth=2,
                zorder=5,
            )
        axes.set_ylim(bottom=0)
        axes.set_ylabel("busbw (GB/s)")
        axes.set_xlabel("cycle")
        axes.xaxis.label.set_color(_colour("--text-soft"))
        axes.grid(True, color=_colour("--grid"), linewidth=0.7)

    return {"wide": _drawn(f"{name}-wide", _WIDE, draw), "narrow": _drawn(f"{name}-narrow", _NARROW, draw)}


def series_of(labels: t.Iterable[str]) -> dict[str, int]:
    """The place of each label among the colours, from 0; -1 of those that are too many."""
    places: dict[str, int] = {}
    for label in labels:
        places.setdefault(label, len(places) if len(places) < SERIES else -1)
    return places


def _draw_bandwidth(
    axes: t.Any,
    curves: t.Sequence[Curve],
    places: t.Mapping[str, int],
    limits: t.Sequence[Check],
    baseline: t.Sequence[BaselineCurve],
    ticks: int,
) -> None:
    both = shows_in_place(curves)
    outside = any(curve.placement == "out_of_place" for curve in curves)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for curve in reversed(curves):
        place, line = places[curve.label], _line(curve)
        inside = outside and curve.placement == "in_place"
        if inside and not both:
            continue
        if place < 0:
            axes.plot(line.sizes, line.busbw, color=_colour("--quiet"), linewidth=0.9, zorder=2)
            continue
        colour = _colour(f"--series-{place + 1}")
        # Where repeats differ.
        if curve.low != curve.high:
            axes.fill_between(line.sizes, line.low, line.high, color=colour, alpha=0.15, linewidth=0, zorder=2)
        axes.plot(
            line.sizes if inside else curve.sizes,
            line.busbw if inside else curve.busbw,
            color=colour,
            linewidth=1.1 if inside else 1.9,
            linestyle=(0, (4, 2)) if inside else "solid",
            marker=None if inside else SHAPES[place],
            markersize=4.2,
            markeredgewidth=0,
            zorder=3 if inside else 4,
        )
    _draw_baseline(axes, baseline)
    smallest = min(size for curve in curves for size in curve.sizes)
    for limit in limits:
        low, high = t.cast("tuple[int, int]", limit.sizes)
        low = max(low, smallest)
        span = _across(low) if low == high else (low, high)
        axes.plot(span, (limit.limit, limit.limit), color=_colour("--limit"), linewidth=2.2, zorder=6)
    axes.set_ylabel("busbw (GB/s)")
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    low, high = axes.get_ylim()
    if high / low < 100:
        # Within two decades, powers of ten alone say little: there may be just one.
        axes.yaxis.set_major_locator(FixedLocator(_steps(low, high)))
    largest = max(size for curve in curves for size in curve.sizes)
    axes.xaxis.set_major_locator(FixedLocator(_powers(smallest, largest, ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: format_size(round(value))))
    axes.grid(True, color=_colour("--grid"), linewidth=0.7)


def _across(size: int) -> tuple[float, float]:
    """The ends of a short line across a size."""
    return size / 1.4, size * 1.4


def _line(curve: _Curve) -> _Curve:
    """The curve as a line or band: of a single size, across it. Otherwise there would be nothing to see."""
    if len(curve.sizes) > 1:
        return curve
    ends: dict[str, t.Any] = {name: 2 * getattr(curve, name) for name in ("busbw", "low", "high")}
    ends["sizes"] = _across(curve.sizes[0])
    return dataclasses.replace(curve, **ends)


def _draw_baseline(axes: t.Any, baseline: t.Sequence[BaselineCurve]) -> None:
    colour = _colour("--baseline")
    for curve in map(_line, baseline):
        axes.fill_between(curve.sizes, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0, zorder=1)
        axes.plot(curve.sizes, curve.busbw, color=colour, linewidth=1.6, linestyle=(0, (1, 1.6)), zorder=5)


def _draw_pairs(axes: t.Any, pairs: Pairs, ticks: int) -> None:
    number, span = len(pairs.hosts), 0.0
    grid = [[math.nan] * number for host in pairs.hosts]
    for (a, b), busbw in pairs.busbw.items():
        grid[a][b] = grid[b][a] = busbw
    if pairs.busbw:
        # The median is the middle colour; a small spread is shown as such, and not as the whole range of colours.
        median = t.cast("float", pairs.median)
        span = max(*(abs(busbw - median) for busbw in pairs.busbw.values()), 0.1 * median, 1e-9)
        image = axes.imshow(
            grid,
            cmap=LinearSegmentedColormap.from_list("heat", _HEAT),
            vmin=median - span,
            vmax=median + span,
            interpolation="none",
        )
        low, high = min(pairs.busbw.values()), max(pairs.busbw.values())
        scale = axes.figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
        scale.ax.set_ylim(max(low, median - span), max(high, low + 1e-9))
        scale.ax.set_title("GB/s", fontsize="small", color=_colour("--text-soft"), loc="left")
        _quiet(scale.ax)
        scale.outline.set_visible(False)
    for a, b in pairs.failed:
        axes.plot(
            [a, b], [b, a], linestyle="none", marker="x", color=_colour("--limit"), markersize=7, markeredgewidth=2
        )
    places = _spread(list(range(number)), ticks)
    short = _tick_names(pairs.hosts)
    names = [short[place] for place in places]
    axes.set_xticks(places, names, rotation=90)
    axes.set_yticks(places, names)
    if number <= 16 and ticks > 16:
        _write_values(axes, pairs, span)


def _write_values(axes: t.Any, pairs: Pairs, span: float) -> None:
    median = pairs.median or 0.0
    for (a, b), busbw in pairs.busbw.items():
        # On the dark ends of the colours.
        colour = "#ffffff" if abs(busbw - median) > 0.7 * span else "#1b1b1f"
        for x, y in ((a, b), (b, a)):
            axes.text(x, y, f"{busbw:.3g}", ha="center", va="center", fontsize="small", color=colour)


def _drawn(name: str, form: tuple[float, float, float], draw: t.Callable[[t.Any], None]) -> str:
    """The drawing as an element of a page."""
    width, height, points = form
    with matplotlib.rc_context():
        # A matplotlibrc of the user, or in the folder that this runs in, may ask for LaTeX.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**_STYLE, "svg.hashsalt": name, "font.size": points})
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        draw(axes)
        _quiet(axes)
        figure.patch.set_visible(False)
        axes.patch.set_visible(False)
        for side in axes.spines.values():
            side.set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Creator": None, "Date": None, "Format": None, "Type": None})
    return _for_page(text.getvalue(), name)


def _quiet(axes: t.Any) -> None:
    axes.tick_params(colors=_colour("--text-soft"), length=0, labelcolor=_colour("--text-soft"))
    axes.yaxis.label.set_color(_colour("--text-soft"))


def _for_page(svg: str, name: str) -> str:
    """Without what belongs to a file of its own; its ids are unique in the page, its colours the page's."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r'\1 aria-hidden="true" focusable="false"', svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    svg = re.sub(r"font(-family)?: ([^;\"]*?)(?:'[^']*'(?:, )?)+(sans-serif)?", _own_font, svg)
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg.strip()


def _own_font(match: re.Match[str]) -> str:
    return f"font{match[1] or ''}: {match[2]}sans-serif"


def _colour(variable: str) -> str:
    return _BY_VARIABLE[variable]


def _spread(values: t.Sequence[int], most: int) -> list[int]:
    """Every nth of the values, so that there are no more of them; the last is among them."""
    step = max(1, math.ceil(len(values) / most))
    return list(values[::-1][::step])[::-1]


def _powers(low: int, high: int, most: int) -> list[int]:
    """Powers of two within the bounds, evenly spread; if there is one at most, the bounds."""
    exponents = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    return [2**exponent for exponent in _spread(exponents, most)] if len(exponents) > 1 else sorted({low, high})


def _steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within the bounds; if these are too few, round values at even distances."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    steps = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    steps = [step for step in steps if low <= step <= high]
    return steps if len(steps) > 2 else list(MaxNLocator(8, steps=(1, 2, 5, 10)).tick_values(low, high))


def _tick_names(hosts: t.Sequence[str]) -> list[str]:
    """Short names of hosts. Where they are long, without the domain that all share: by that none is told from the others."""
    parts = hosts[0].split(".")
    domains = ("." + ".".join(parts[place:]) for place in range(1, len(parts)))
    domain = next((domain for domain in domains if all(host.endswith(domain) for host in hosts)), "")
    # Of addresses, the end tells most.
    if max(map(len, hosts)) > _LONGEST_NAME and re.search("[a-z]", domain):
        hosts = [host[: -len(domain)] for host in hosts]
    return [_short(host) for host in hosts]


def _short(host: str, most: int = _LONGEST_NAME) -> str:
    """The ends of a long name; its middle tells least."""
    return host if len(host) <= most else f"{host[: most // 2 - 1]}…{host[-(most // 2) :]}"
