"""The order of queued runs: the newest year first, however a backfill was started. Named in dagster.yaml."""

from collections.abc import Mapping
from typing import Any, Self

import dagster as dg

from docstokg_assets.defs.instance.dagster_internals import ConfigurableClassData, UserConfigSchema

PARTITION_TAG, PRIORITY_TAG = "dagster/partition", "dagster/priority"
_BELOW_PEOPLE = 10_000  # Dagster's priority is 0 where nobody set one, so every year is below what a person sets


def priority_of_year(year: int) -> str:
    return str(year - _BELOW_PEOPLE)


class NewestYearFirst(dg.QueuedRunCoordinator):
    """Gives a run of a year a priority by that year, unless it has one already. Any priority that a person sets, and a run
    without a year, comes before the runs of years.

    `pool_limits` are the limits of single pools, which dagster.yaml has no other place for; `first_start` applies them."""

    def __init__(
        self,
        pool_limits: Mapping[str, int] | None = None,
        inst_data: ConfigurableClassData | None = None,
        **usual: Any,
    ) -> None:
        super().__init__(inst_data=inst_data, **usual)
        self.pool_limits = dict(pool_limits or {})

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        usual: Any = super().config_type()
        limits = dg.Field({str: int}, is_required=False, description="places of single pools")
        return {**usual, "pool_limits": limits}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data=inst_data, **config_value)

    def submit_run(self, context: dg.SubmitRunContext) -> dg.DagsterRun:
        run = context.dagster_run
        year = run.tags.get(PARTITION_TAG, "")
        if year.isdigit() and PRIORITY_TAG not in run.tags:
            self._instance.add_run_tags(run.run_id, {PRIORITY_TAG: priority_of_year(int(year))})
        return super().submit_run(context)
