"""The schedules: read stored files again, a year each day."""

import dagster as dg

from docstokg_assets.defs.jobs import check_year
from docstokg_assets.defs.partitions import newest_year, years
from docstokg_assets.defs.steps import configuration, translate_step_errors
from resources.catalog.catalog import Catalog
from resources.dagster_resources import CatalogResource


@dg.schedule(
    job=check_year,
    cron_schedule="30 4 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Checks, each day at 04:30 UTC, the year whose files were not read for the longest time.",
)
def rolling_audit(context: dg.ScheduleEvaluationContext, catalog: CatalogResource) -> dg.RunRequest | dg.SkipReason:
    with translate_step_errors():
        config = configuration(catalog)
        with Catalog.open(config.catalog_location) as opened:
            states = opened.audit_by_year()
    known = set(years.get_partition_keys())
    oldest = {str(year or newest_year()): state for year, state in states.items() if state.oldest is not None}
    due = {year: state for year, state in oldest.items() if year in known}
    if not due:
        return dg.SkipReason("no files are stored")
    year, state = min(due.items(), key=lambda item: (item[1].oldest or 0.0, item[0]))
    read = f"{state.read} of {state.files} files were read since they were stored"
    return dg.RunRequest(partition_key=year, tags={"content_download/audit": read})
