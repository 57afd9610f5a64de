"""Times, numbers, texts and tables as people and files see them."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest
from rich.console import Console

from docstokg_assets.reporting.rendering import (
    bar,
    csv_cell,
    first_few,
    format_bytes,
    format_time,
    iso,
    json_text,
    plural,
    printable,
    rich_table,
    wrap,
)

MOMENT = datetime(2026, 3, 1, 20, 30, 5, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize("moment", [MOMENT, MOMENT.timestamp()])
def test_times_are_utc_whether_given_as_datetime_or_seconds(moment: datetime | float) -> None:
    assert (format_time(moment), format_time(moment, seconds=True)) == ("2026-03-01 18:30", "2026-03-01 18:30:05")
    assert (iso(moment), iso(moment, "seconds")) == ("2026-03-01T18:30:05.000Z", "2026-03-01T18:30:05Z")


@pytest.mark.parametrize(("count", "text"), [(999, "999 B"), (1_234_567, "1.2 MB"), (5e15, "5000.0 TB")])
def test_sizes_are_readable(count: float, text: str) -> None:
    assert format_bytes(count) == text


def test_a_bar_shows_every_share_above_zero() -> None:
    assert [bar(share).count("█") for share in (None, 0.0, 0.004, 0.5, 1.0)] == [0, 0, 1, 5, 10]


def test_counts_agree_with_their_nouns() -> None:
    assert [plural(count, "work") for count in (0, 1, 1200)] == ["0 works", "1 work", "1,200 works"]
    assert (first_few(["a", "b"], 2), first_few(["a", "b", "c"], 2)) == ("a, b", "a, b and 1 more")


def test_lines_are_wrapped_between_words_and_never_inside_a_url() -> None:
    url = "https://a-host.example/a-very-long-path"
    assert wrap(f"see {url} for more", 12, "  ") == ["see", f"  {url}", "  for more"]
    assert wrap("", 12) == [""]


def test_control_characters_and_formulas_are_disarmed() -> None:
    assert "\x1b" not in printable("a\x1b[31m")
    assert [csv_cell(value) for value in ("=1", "a\nb", 5)] == ["'=1", "a b", 5]


def test_json_takes_dataclasses_and_unknown_types() -> None:
    @dataclass
    class Row:
        name: str

    assert json.loads(json_text({"row": Row("é"), "at": datetime(2026, 3, 1, tzinfo=UTC), "z": 1j})) == {
        "row": {"name": "é"},
        "at": "2026-03-01T00:00:00+00:00",
        "z": "1j",
    }


def test_a_table_shows_markup_as_text_and_keeps_line_breaks() -> None:
    console = Console(file=io.StringIO(), record=True, width=60)
    console.print(rich_table(("name", "size"), [("[bold]x\nsecond", "1 kB")], title="Files", right={"size"}))
    text = console.export_text()
    assert "Files" in text and "[bold]x" in text and "second" in text and "1 kB" in text
