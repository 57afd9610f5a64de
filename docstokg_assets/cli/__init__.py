"""The command line. Each module holds a few commands; `main` mounts them. Never imports Dagster."""
