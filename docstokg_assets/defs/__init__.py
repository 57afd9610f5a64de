"""All that is Dagster: assets, checks, jobs, sensors and partitions."""
