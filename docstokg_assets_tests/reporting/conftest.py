"""Fixtures of the lake and its reports, shared with the neighbouring folder."""

from docstokg_assets_tests.support.telemetry import (  # noqa: F401
    bucket,
    catalog,
    data_root,
    folder,
    lake,
    make_attempt,
    make_entry,
    make_finished,
    make_history,
    record_in,
)
