"""Everything that imports Dagster: assets, checks, jobs, sensors and partitions."""
