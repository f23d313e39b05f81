"""Bars as SVG: a row for each thing that was measured, a bar for each tool, on a logarithmic scale."""

from __future__ import annotations

import math

#: A tool has one colour in all plots, and no other tool has it. Keyprint's is the strongest.
COLOURS = {
    "Keyprint": "#b6308b",
    "C": "#888888",
    "Numba": "#5b8def",
    "Quadrants": "#f2994a",
    "GT4Py": "#59a14f",
    "joblib": "#9c755f",
    "dask": "#76b7b2",
    "pickle+xxh64": "#edc948",
    "pickle.dumps": "#c9b458",
    "plain file": "#a0a0c8",
    "SQLite": "#4e79a7",
    "diskcache": "#e15759",
}
#: For tools that are new: each of these is used once.
OTHERS = ("#86bcb6", "#d37295", "#8cd17d", "#b07aa1", "#ff9d9a", "#79706e")

#: Ways in which several tools do the same, in plots of lines.
WAYS = ("block", "grid", "nodes", "host")

LABELS, BARS, BAR, GAP = 310, 400, 13, 10


def text_of(seconds: float) -> str:
    """Return a time as people write it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _colour(tool: str) -> str | None:
    """Return the colour of a tool; what is behind a comma says how it was used."""
    return COLOURS.get(tool) or COLOURS.get(tool.partition(",")[0])


def chart(title: str, rows: dict[str, dict[str, float]]) -> str:
    """Return a picture of rows of seconds by tool."""
    tools = list(dict.fromkeys(tool for row in rows.values() for tool in row))
    order = {tool: at for at, tool in enumerate(tools)}
    tools.sort(key=lambda tool: (not tool.startswith("Keyprint"), order[tool]))
    known = [COLOURS[tool.partition(",")[0]] for tool in tools if tool.partition(",")[0] in COLOURS]
    left = iter([colour for colour in OTHERS if colour not in known] * 3)
    colours = {tool: _colour(tool) or next(left) for tool in tools}
    every = [value for row in rows.values() for value in row.values()]
    low = 10 ** math.floor(math.log10(min(every)) - 0.3)
    high = max(every)
    scale = BARS / math.log10(high / low)
    parts, y = [], 82
    for at, tool in enumerate(tools):
        x = 12 + at * 150
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{colours[tool]}"/>')
        parts.append(f'<text x="{x + 16}" y="42">{escaped(tool)}</text>')
    for name, row in rows.items():
        height = len(row) * BAR
        parts.append(
            f'<text x="{LABELS - 8}" y="{y + height / 2 + 4}" text-anchor="end">{escaped(name)}</text>'
        )
        for tool in sorted(row, key=tools.index):
            width = max(math.log10(row[tool] / low) * scale, 1)
            parts.append(
                f'<rect x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{colours[tool]}"/>'
                f'<text x="{LABELS + width + 5:.1f}" y="{y + 10}" font-size="10">{text_of(row[tool])}</text>'
            )
            y += BAR
        y += GAP
    # The axis: a line and a label for each power of ten.
    axis = [f'<text x="{LABELS - 30}" y="66" text-anchor="end" fill="#555555">time, logarithmic</text>']
    decade = round(math.log10(low))
    every_nth = max(1, math.ceil((math.log10(high) - decade) / 7))
    while 10**decade <= high * 1.001:
        x = LABELS + math.log10(10**decade / low) * scale
        axis.append(f'<line x1="{x:.1f}" y1="70" x2="{x:.1f}" y2="{y - GAP}" stroke="#dddddd"/>')
        axis.append(
            f'<text x="{x:.1f}" y="66" font-size="10" fill="#555555" text-anchor="middle">{text_of(10**decade)}</text>'
        )
        decade += every_nth
    parts = axis + parts
    width = max(LABELS + BARS + 70, 12 + 150 * len(tools))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" font-size="12">'
    title = f'<text x="12" y="20" font-size="14" font-weight="bold">{escaped(title)}</text>'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, background, title, *parts, "</svg>"]) + "\n"


def lines(title: str, series: dict[str, dict[float, float]]) -> str:
    """Return a picture of lines, from numbers to numbers, both on a logarithmic scale.

    A series is of a tool, or of a tool and what it does: ``Keyprint, grid``.
    """
    every = [number for points in series.values() for number in points]
    values = [value for points in series.values() for value in points.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log2(min(every)), math.log2(max(every))
    left, top, width, height = 60, 40, 520, 360

    def across(number: float) -> float:
        return left + (math.log2(number) - first) / max(last - first, 1) * width

    def down(value: float) -> float:
        return top + (high - math.log10(value)) / (high - low) * height

    parts = [f'<text x="12" y="20" font-size="14" font-weight="bold">{escaped(title)}</text>']
    for decade in range(low, high + 1):
        y = down(10**decade)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" font-size="10">{10.0**decade:g}</text>'
        )
    for number in sorted(set(every)):
        parts.append(
            f'<text x="{across(number):.1f}" y="{top + height + 16}" text-anchor="middle" font-size="10">'
            f"{number:,}</text>"
        )
    colours = dict(zip(WAYS, OTHERS, strict=False))
    for at, (name, points) in enumerate(series.items()):
        # What two tools do in one way has one colour.
        tool, _, way = name.rpartition(", ")
        colour = colours.get(way) or COLOURS[tool or way]
        dashes = "" if tool == "Keyprint" else ' stroke-dasharray="5 4"'
        width_of_line = 1.6 if way in WAYS else 3
        path = " ".join(f"{across(number):.1f},{down(value):.1f}" for number, value in sorted(points.items()))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width_of_line}"{dashes}/>'
            f'<line x1="{left + width + 16}" y1="{56 + 18 * at}" x2="{left + width + 44}" y2="{56 + 18 * at}" '
            f'stroke="{colour}" stroke-width="{width_of_line}"{dashes}/>'
            f'<text x="{left + width + 50}" y="{60 + 18 * at}">{escaped(name)}</text>'
        )
    size = f'width="{left + width + 220}" height="{top + height + 30}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"
