"""The short form of the soak; `benchmarks/soak.py` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstokg_assets_tests.support.soak import short_form


@pytest.mark.timeout(600)
@pytest.mark.requirement("TRU-9")
def test_half_a_minute_of_random_faults_ends_with_a_clean_audit(tmp_path: Path) -> None:
    # Bodies of many empty codings hold workers until decoding is bounded; without them it takes as long as it should.
    short_form(tmp_path / "soak", seed=2, without=("nested-empty-gzip",))
