"""One partition for each publication year, from the first that is configured to the current one. A new year comes by itself."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

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
    """The newest partition, which includes works without a known year."""
    return int(years.get_last_partition_key() or 0)


def yearly_asset(**options: Any) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """`dg.asset` with what all assets of the pipeline share: the partitions, the group and the owner."""
    decorate: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.asset(
        partitions_def=years, group_name="content_download", owners=["team:content-download"], **options
    )
    return decorate
