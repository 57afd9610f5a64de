"""The order of queued runs: the newest year first, however a backfill was started. Named in dagster.yaml."""

import dagster as dg

PARTITION_TAG, PRIORITY_TAG = "dagster/partition", "dagster/priority"


class NewestYearFirst(dg.QueuedRunCoordinator):
    """Gives a run of a year that year as its priority, unless it has one already."""

    def submit_run(self, context: dg.SubmitRunContext) -> dg.DagsterRun:
        run = context.dagster_run
        year = run.tags.get(PARTITION_TAG, "")
        if year.isdigit() and PRIORITY_TAG not in run.tags:
            self._instance.add_run_tags(run.run_id, {PRIORITY_TAG: year})
        return super().submit_run(context)
