"""What dagster.yaml names: launchers, the order of queued runs, and the first start of an instance."""
