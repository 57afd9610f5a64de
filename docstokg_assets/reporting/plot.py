"""A chart of a year: how its works ended, and where the full texts came from. SVG written directly, because it is a few bars."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate

from docstokg_assets.reporting.metrics import Share, Slis
from resources.records import Ending, Reason

_COLOURS = {Ending.SUCCESS: "#16a34a", Ending.RETRYABLE: "#d97706", Ending.TERMINAL: "#94a3b8", Ending.NEVER: "#64748b"}
_INK, _PALE, _SAVED = "#0f172a", "#e2e8f0", "#4f46e5"
_WIDTH, _LABEL, _BAR, _ROW = 860, 230, 440, 24
_MAX_ROWS = 10


def chart(slis: Slis) -> str:
    """Both panels as one SVG."""
    reasons = sorted(slis.reasons.items(), key=lambda item: -item[1])[:_MAX_ROWS]
    resolvers = [share for share in slis.by_resolver if share.tried][:_MAX_ROWS]
    panels = [
        (f"How {slis.finished:,} works ended", list(_endings(reasons, slis.finished))),
        ("Works tried and saved, by resolver", list(_shares(resolvers))),
    ]
    heights = [40 + _ROW * max(1, len(rows)) for _, rows in panels]
    parts = [
        _panel(title, rows, top) for (title, rows), top in zip(panels, accumulate(heights, initial=0), strict=False)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{sum(heights) + 8}" '
        f'font-family="Inter, Helvetica, Arial, sans-serif" font-size="13" fill="{_INK}">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>'
    )


def as_markdown(slis: Slis) -> str:
    """The chart as a Markdown image with a data URL."""
    encoded = base64.b64encode(chart(slis).encode()).decode("ascii")
    return f"![How the works ended, and where the full texts came from](data:image/svg+xml;base64,{encoded})"


Row = tuple[str, Sequence[tuple[float, str]], str]  # label, overlaid bars as (share of the width, colour), text


def _endings(reasons: Sequence[tuple[str, int]], finished: int) -> Iterator[Row]:
    most = max((count for _, count in reasons), default=1)
    for name, count in reasons:
        yield name, [(count / most, _COLOURS[Reason(name).ending])], f"{count:,}  ({count / max(1, finished):.1%})"


def _shares(shares: Sequence[Share]) -> Iterator[Row]:
    most = max((share.tried for share in shares), default=1)
    for share in shares:
        bars = [(share.tried / most, _PALE), (share.saved / most, _SAVED)]
        yield share.name, bars, f"{share.saved:,} of {share.tried:,}"


def _panel(title: str, rows: Sequence[Row], top: float) -> str:
    drawn = [f'<text x="8" y="{top + 22}" font-weight="600" font-size="14">{escape(title)}</text>']
    if not rows:
        drawn.append(f'<text x="8" y="{top + 48}" fill="#64748b">nothing yet</text>')
    for index, (label, bars, text) in enumerate(rows):
        y = top + 36 + index * _ROW
        drawn.append(f'<text x="{_LABEL - 10}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        drawn += [
            f'<rect x="{_LABEL}" y="{y + 3}" width="{max(1.0, share * _BAR):.1f}" height="{_ROW - 9}" rx="2" fill="{colour}"/>'
            for share, colour in bars
        ]
        longest = max(share for share, _ in bars)
        drawn.append(f'<text x="{_LABEL + longest * _BAR + 8:.1f}" y="{y + 14}" fill="#475569">{escape(text)}</text>')
    return "".join(drawn)
