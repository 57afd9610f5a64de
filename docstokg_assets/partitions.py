"""One partition for each publication year, from the first that is configured to the current one. A new year comes by itself."""

from __future__ import annotations

import os

import dagster as dg

from docstokg_assets.config import load_config
from resources.settings import config_file


def year_partitions(first_year: int) -> dg.TimeWindowPartitionsDefinition:
    # A window counts when it is over; `end_offset` takes in the one that has begun.
    return dg.TimeWindowPartitionsDefinition(start=str(first_year), fmt="%Y", cron_schedule="0 0 1 1 *", end_offset=1)


years = year_partitions(load_config(config_file(os.environ), os.environ).value.openalex.first_year)


def newest_year() -> int:
    """Works of which no year is known are taken in with it."""
    return int(years.get_last_partition_key() or 0)
