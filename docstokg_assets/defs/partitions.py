"""One partition for each publication year, from the first that is configured to the current one. A new year comes by itself."""

from __future__ import annotations

import logging
import os

import dagster as dg

from docstokg_assets.config import load_config
from docstokg_assets.sources.settings import OpenAlexSettings
from resources.settings import SettingsError, config_file

log = logging.getLogger(__name__)


def year_partitions(first_year: int) -> dg.TimeWindowPartitionsDefinition:
    # A window counts when it is over; `end_offset` takes in the one that has begun.
    return dg.TimeWindowPartitionsDefinition(start=str(first_year), fmt="%Y", cron_schedule="0 0 1 1 *", end_offset=1)


def _first_year() -> int:
    """The configured first year. The definitions must load even if the configuration is wrong; the steps report that."""
    try:
        return load_config(config_file(os.environ), os.environ).value.openalex.first_year
    except SettingsError as error:
        default = OpenAlexSettings().first_year
        log.warning(
            "the configuration is not usable, so years begin with %d, and every run will fail: %s", default, error
        )
        return default


years = year_partitions(_first_year())


def newest_year() -> int:
    """Works of which no year is known are taken in with it."""
    return int(years.get_last_partition_key() or 0)
