"""Bars as SVG: a row for each thing that was measured, a bar for each tool, on a logarithmic scale."""

from __future__ import annotations

import math

#: The same tool has the same colour everywhere; Keyprint's is the strongest.
COLOURS = {"Keyprint": "#b6308b", "C": "#888888"}
OTHERS = ("#5b8def", "#f2994a", "#59a14f", "#9c755f", "#76b7b2", "#edc948")

LABELS, BARS, BAR, GAP = 310, 400, 13, 10


def text_of(seconds: float) -> str:
    """Return a time as people write it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def chart(title: str, rows: dict[str, dict[str, float]]) -> str:
    """Return a picture of rows of seconds by tool."""
    tools = list(dict.fromkeys(tool for row in rows.values() for tool in row))
    order = {tool: at for at, tool in enumerate(tools)}
    tools.sort(key=lambda tool: (not tool.startswith("Keyprint"), order[tool]))
    left = iter(OTHERS * 3)
    colours = {tool: COLOURS.get(tool) or next(left) for tool in tools}
    every = [one for row in rows.values() for one in row.values()]
    low = 10 ** math.floor(math.log10(min(every)) - 0.3)
    high = max(every)
    scale = BARS / math.log10(high / low)
    parts, y = [], 58
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
    width = max(LABELS + BARS + 70, 12 + 150 * len(tools))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" font-size="12">'
    title = f'<text x="12" y="20" font-size="14" font-weight="bold">{escaped(title)}</text>'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, background, title, *parts, "</svg>"]) + "\n"
