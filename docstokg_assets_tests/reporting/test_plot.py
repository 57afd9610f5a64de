"""The picture of a year: every bar says what it counts, and nothing in it can be read as markup."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import pytest
from lxml import etree

from docstokg_assets.reporting.metrics import Share, Slis
from docstokg_assets.reporting.plot import as_markdown, chart
from resources.scope import WorkScope

NOTHING = Slis(
    scope=WorkScope(2024), finished=0, saved=0, html_only=0, to_retry=0, corrupt=0, bytes=0, ttfp_p50_s=None, ttfp_p95_s=None,
    requests_per_success=None, works_per_s=None, requests=0, too_many=0, cacheable=0, cache_hits=None, asked_before=0,
    rate_delay_p95_s=None, breaker_opens=0, retries={}, reasons={}, unknown_copies=0,
)  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.requirement("TEL-7")
def test_each_reason_and_resolver_has_its_bar_and_its_number() -> None:
    year = replace(
        NOTHING,
        finished=10,
        reasons={"no-candidate": 2, "ok": 8},
        by_resolver=(Share("openalex", 6, 3, 100), Share("<b>&", 2, 0, 0)),
    )
    drawn = etree.fromstring(chart(year))
    words = ["".join(text.itertext()) for text in drawn.iter(f"{SVG}text")]
    assert words[1:5] == ["ok", "8  (80.0%)", "no-candidate", "2  (20.0%)"]
    assert words[6:] == ["openalex", "3 of 6", "<b>&", "0 of 2"]
    widths = [float(bar.get("width", "0")) for bar in drawn.iter(f"{SVG}rect") if bar.get("width") != "100%"]
    assert widths[0] == 4 * widths[1] and widths[2] == 2 * widths[3]


@pytest.mark.requirement("TEL-7")
def test_a_year_without_works_is_drawn_too() -> None:
    found = re.fullmatch(r"!\[[^]]+\]\(data:image/svg\+xml;base64,(.+)\)", as_markdown(NOTHING))
    assert found is not None and "nothing yet" in base64.b64decode(found[1]).decode()
